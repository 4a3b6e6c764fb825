package gitlab

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// wrap adds the action of the adapter to an error, and gives it a kind of package forge.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gitlab: %s: %w", what, translated(err))
}

// translated returns an error a kind of package forge, unless it has one.
func translated(err error) error {
	if rest.Classified(err) {
		return err
	}
	if errors.Is(err, gitlab.ErrNotFound) { // the library drops the answer
		return fmt.Errorf("%w: GitLab says 404", forge.ErrNotFound)
	}
	e, ok := errors.AsType[*gitlab.ErrorResponse](err)
	if !ok || e.Response == nil {
		return fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	code := e.Response.StatusCode
	kind := rest.KindOf(code)
	if code == http.StatusBadRequest || code == http.StatusUnprocessableEntity {
		kind = kindOfInvalid(strings.ToLower(e.Message))
	}
	return rest.Refusal("GitLab", kind, code, e.Message)
}

// kindOfInvalid returns the kind of an answer 400 or 422. GitLab distinguishes them only by the text.
func kindOfInvalid(said string) error {
	switch {
	case strings.Contains(said, "too long"), strings.Contains(said, "maximum is"):
		return forge.ErrTooLong
	case strings.Contains(said, "already exists"):
		return forge.ErrConflict
	}
	return nil
}
