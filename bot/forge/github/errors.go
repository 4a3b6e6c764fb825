package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// wrap says what was wanted, and gives the error a kind of package forge.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("github: %s: %w", what, translated(err))
}

// translated gives an error a kind of package forge, if it has none.
func translated(err error) error {
	for _, kind := range []error{
		forge.ErrNotFound, forge.ErrUnauthorized, forge.ErrForbidden, forge.ErrTooLong, forge.ErrConflict,
		forge.ErrUnsupported, forge.ErrUnavailable, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return err
		}
	}
	var e *github.ErrorResponse
	if !errors.As(err, &e) || e.Response == nil {
		return fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	said := message(e)
	if kind := kindOf(e, said); kind != nil {
		return fmt.Errorf("%w: GitHub says %d %q", kind, e.Response.StatusCode, said)
	}
	return fmt.Errorf("GitHub refuses the request: %d %q", e.Response.StatusCode, said)
}

func kindOf(e *github.ErrorResponse, said string) error {
	switch code := e.Response.StatusCode; {
	case code == http.StatusUnauthorized:
		return forge.ErrUnauthorized
	case code == http.StatusForbidden:
		return forge.ErrForbidden
	case code == http.StatusNotFound, code == http.StatusGone:
		return forge.ErrNotFound
	case code == http.StatusRequestEntityTooLarge:
		return forge.ErrTooLong
	case code == http.StatusConflict, code == http.StatusMethodNotAllowed:
		return forge.ErrConflict
	case code == http.StatusUnprocessableEntity:
		return kindOfInvalid(strings.ToLower(said))
	case code >= 500:
		return forge.ErrUnavailable
	}
	return nil
}

// kindOfInvalid tells the meanings of 422 apart. GitHub has no codes for them, only words.
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

// message is what GitHub says, in one line of bounded length. The caller quotes it.
func message(e *github.ErrorResponse) string {
	parts := []string{e.Message}
	for _, one := range e.Errors {
		text := one.Message
		if text == "" {
			text = strings.TrimSpace(one.Resource + " " + one.Field + " " + one.Code)
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "; ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return text
}
