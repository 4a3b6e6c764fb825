package gitea

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// refusal is an answer that is no success.
type refusal struct {
	code int
	said string
}

// Error implements error.
func (r *refusal) Error() string { return fmt.Sprintf("%d %q", r.code, r.said) }

func refusalOf(code int, body []byte) *refusal {
	var answer struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Message == "" {
		answer.Message = strings.TrimSpace(string(body)) // of a proxy
	}
	return &refusal{code: code, said: answer.Message}
}

// failed reports whether the server answered 500. Gitea also does that where something does not exist.
func failed(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.code == http.StatusInternalServerError
}

// wrap adds the action of the adapter to an error, and gives it a kind of package forge.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gitea: %s: %w", what, translated(err))
}

// translated returns an error a kind of package forge, unless it has one.
func translated(err error) error {
	if rest.Classified(err) {
		return err
	}
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	return rest.Refusal("Gitea", rest.KindOf(r.code), r.code, r.said)
}

// missing reports whether an error means that the object does not exist, or that the credential may not see it.
func missing(err error) bool { return errors.Is(translated(err), forge.ErrNotFound) }
