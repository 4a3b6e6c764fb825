package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// wrap says what was wanted, and gives the error a kind of package forge.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gitlab: %s: %w", what, translated(err))
}

func translated(err error) error {
	for _, kind := range []error{
		forge.ErrNotFound, forge.ErrUnauthorized, forge.ErrForbidden, forge.ErrTooLong, forge.ErrConflict,
		forge.ErrUnsupported, forge.ErrUnavailable, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return err
		}
	}
	if errors.Is(err, gitlab.ErrNotFound) {
		return fmt.Errorf("%w: GitLab says 404", forge.ErrNotFound)
	}
	var e *gitlab.ErrorResponse
	if !errors.As(err, &e) || e.Response == nil {
		return fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	if kind := kindOf(e); kind != nil {
		return fmt.Errorf("%w: GitLab says %d %q", kind, e.Response.StatusCode, said(e))
	}
	return fmt.Errorf("GitLab refuses the request: %d %q", e.Response.StatusCode, said(e))
}

func kindOf(e *gitlab.ErrorResponse) error {
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
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		if text := strings.ToLower(said(e)); strings.Contains(text, "too long") || strings.Contains(text, "maximum is") {
			return forge.ErrTooLong
		}
		if strings.Contains(strings.ToLower(said(e)), "already exists") {
			return forge.ErrConflict
		}
	case code >= http.StatusInternalServerError:
		return forge.ErrUnavailable
	}
	return nil
}

// said is what GitLab says, in one line of bounded length. It is quoted where it is shown.
func said(e *gitlab.ErrorResponse) string {
	const most = 500
	text := e.Message
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
