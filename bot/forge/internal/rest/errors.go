package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Classified reports whether an error already has a kind of package forge, or comes from a context.
func Classified(err error) bool {
	for _, kind := range []error{
		forge.ErrNotFound, forge.ErrUnauthorized, forge.ErrForbidden, forge.ErrTooLong, forge.ErrConflict,
		forge.ErrUnsupported, forge.ErrUnavailable, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// KindOf returns the kind of an answer by its HTTP status, or nil if the status is ambiguous.
func KindOf(code int) error {
	switch code {
	case http.StatusUnauthorized:
		return forge.ErrUnauthorized
	case http.StatusForbidden:
		return forge.ErrForbidden
	case http.StatusNotFound, http.StatusGone:
		return forge.ErrNotFound
	case http.StatusRequestEntityTooLarge:
		return forge.ErrTooLong
	case http.StatusConflict, http.StatusMethodNotAllowed:
		return forge.ErrConflict
	}
	if code >= http.StatusInternalServerError {
		return forge.ErrUnavailable
	}
	return nil
}

// maxSaid is the number of characters of a forge's message that an error shows.
const maxSaid = 500

// Refusal returns the error for an answer: its kind, which may be nil, and the forge's message.
func Refusal(forgeName string, kind error, code int, said string) error {
	said = safetext.Shorten(said, maxSaid)
	if kind == nil {
		return fmt.Errorf("%s refuses the request: %d %q", forgeName, code, said)
	}
	return fmt.Errorf("%w: %s says %d %q", kind, forgeName, code, said)
}

const maxPages = 1000 // of 100 items

// Pages reads all pages of a list, from page 1. list returns the number of the next page; at the end, it returns a
// number that is not greater.
func Pages[T any](list func(page int) (items []T, next int, err error)) ([]T, error) {
	var all []T
	for page := 1; page <= maxPages; {
		items, next, err := list(page)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next <= page {
			return all, nil
		}
		page = next
	}
	return nil, fmt.Errorf("%w: the list has more than %d pages", forge.ErrUnavailable, maxPages)
}
