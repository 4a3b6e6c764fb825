package github

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// wrap adds the action of the adapter to an error, and gives it a kind of package forge.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("github: %s: %w", what, translated(err))
}

// translated returns an error a kind of package forge, unless it has one.
func translated(err error) error {
	if rest.Classified(err) {
		return err
	}
	e, ok := errors.AsType[*github.ErrorResponse](err)
	if !ok || e.Response == nil {
		return fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	code, said := e.Response.StatusCode, message(e)
	kind := rest.KindOf(code)
	if code == http.StatusUnprocessableEntity {
		kind = kindOfInvalid(strings.ToLower(said))
	}
	return rest.Refusal("GitHub", kind, code, said)
}

// kindOfInvalid returns the kind of an answer 422. GitHub distinguishes them only by the text.
func kindOfInvalid(said string) error {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(said, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("too long", "characters are allowed", "too_long"):
		return forge.ErrTooLong
	case has("no commit found"):
		return forge.ErrNotFound
	case has("already exists", "no commits between", "already_exists"):
		return forge.ErrConflict
	}
	return nil
}

// message returns GitHub's message and its details in one line.
func message(e *github.ErrorResponse) string {
	parts := []string{e.Message}
	for _, one := range e.Errors {
		text := one.Message
		if text == "" {
			text = strings.TrimSpace(one.Resource + " " + one.Field + " " + one.Code)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
