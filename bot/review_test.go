package bot

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// While the forge and Git report different heads, each retry waits twice as long as the one before, at most a minute.
// For another merge request, or after a review, the delay starts again.
func TestBehind(t *testing.T) {
	now := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	j := &task{Bot: New(Config{Clock: func() time.Time { return now }}), place: hint.NewPlace("f", "")}
	wait := func(number int) time.Duration {
		t.Helper()
		later, ok := errors.AsType[*Later](j.retryBehind(number))
		if !ok {
			t.Fatal("it is no Later")
		}
		return later.Until.Sub(now)
	}
	for i, want := range []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 32 * time.Second, time.Minute, time.Minute,
	} {
		if got := wait(7); got != want {
			t.Errorf("look %d waits %s, not %s", i, got, want)
		}
	}
	j.update(7, func(s *headState) { s.behind = 0 })
	if wait(7) != time.Second || wait(8) != time.Second {
		t.Error("the wait does not begin anew")
	}
}
