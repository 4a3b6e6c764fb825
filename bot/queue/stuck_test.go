package queue

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestStuck(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fails := errors.New("no space left on device")
	h := &health{}
	for i := range 10 { // many failures within a short time may be temporary
		h.note(now.Add(time.Duration(i)*time.Second), fails)
	}
	if err := h.stuck(); err != nil {
		t.Errorf("after 9 s: %v", err)
	}
	for _, err := range []error{context.Canceled, ErrFull} {
		h.note(now.Add(time.Minute), err)
	}
	if err := h.stuck(); err != nil {
		t.Errorf("a limit and a caller that gave up are no broken disk: %v", err)
	}
	h.note(now.Add(stuckAfter), fails)
	if err := h.stuck(); !errors.Is(err, ErrStuck) || !errors.Is(err, fails) {
		t.Errorf("after %s: %v", stuckAfter, err)
	}
	h.note(now.Add(2*stuckAfter), errChanged) // the server answers
	if err := h.stuck(); err != nil {
		t.Errorf("after a write that arrived: %v", err)
	}
	h.note(now.Add(3*stuckAfter), fails)
	h.note(now.Add(9*stuckAfter), fails)
	if err := h.stuck(); err != nil {
		t.Errorf("two failures: %v", err)
	}
}
