package bot

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// ledger is a forge that keeps statuses as GitHub does: all of them, the newest counting.
type ledger struct {
	Forge
	writes, reads int
	list          map[string]forge.Status
	fail          error
}

func (l *ledger) SetStatus(_ context.Context, _ forge.Repository, _ string, s forge.Status) error {
	l.writes++
	if l.fail != nil {
		return l.fail
	}
	if r := []rune(s.Description); len(r) > 20 {
		s.Description = string(r[:19]) + "…"
	}
	l.list[s.Context] = s
	return nil
}

func (l *ledger) Statuses(context.Context, forge.Repository, string) ([]forge.Status, error) {
	l.reads++
	var out []forge.Status
	for _, s := range l.list {
		out = append(out, s)
	}
	return out, nil
}

// TestQuietStatuses: what is there is not written again, however often it is said and by whom; what differs is.
func TestQuietStatuses(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := &ledger{list: map[string]forge.Status{}}
	replica := func() statusForge {
		return statusForge{l, hint.Place(""), newStatuses(func() time.Time { return now })}
	}
	a, b := replica(), replica()
	say := func(q statusForge, state forge.StatusState, words string) int {
		t.Helper()
		before := l.writes
		if err := q.SetStatus(t.Context(), forge.Repository{}, "c", forge.Status{Context: "sluice", State: state, Description: words}); err != nil {
			t.Fatal(err)
		}
		return l.writes - before
	}
	const long = "more words than the forge takes at once"
	for i, step := range []struct {
		q     statusForge
		state forge.StatusState
		words string
		later time.Duration
		want  int
	}{
		{a, forge.Success, long, 0, 1},
		{a, forge.Success, long, time.Minute, 0},
		{b, forge.Success, long, time.Minute, 0}, // it was started after that
		{a, forge.Running, "on its way", 0, 1},
		{a, forge.Pending, "on its way", 0, 0},
		{b, forge.Failure, "x", 0, 1},
		{a, forge.Success, long, statusesFresh, 1},
		{b, forge.Failure, "x", 2 * statusesFresh, 1}, // it sees what a wrote
		{b, forge.Failure, "x", statusesLong, 0},
	} {
		now = now.Add(step.later)
		if got := say(step.q, step.state, step.words); got != step.want {
			t.Errorf("step %d: written %d times, not %d", i, got, step.want)
		}
	}
	reads, writes := l.reads, l.writes
	for i := range 24 * 60 { // a day of words that change by themselves
		now = now.Add(time.Minute)
		say(a, forge.Pending, fmt.Sprint("in ", i))
	}
	if n := l.writes - writes; n < 20 || n > 60 {
		t.Errorf("%d writes for words alone", n)
	}
	if n := l.reads - reads; n > 24*12 {
		t.Errorf("%d reads", n)
	}
	l.fail = errors.New("no")
	if err := a.SetStatus(t.Context(), forge.Repository{}, "c", forge.Status{Context: "sluice", State: forge.Failure}); err == nil {
		t.Error("a failure is kept back")
	}
	l.fail = nil
	if say(a, forge.Failure, "") != 1 {
		t.Error("what could not be written is taken for written")
	}
}
