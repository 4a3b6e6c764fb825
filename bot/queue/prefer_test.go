package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// yard is the index of one place, and what a single worker does in it.
type yard struct {
	*index
	t    *testing.T
	next uint64
}

func newYard(t *testing.T) *yard {
	t.Helper()
	return &yard{newIndex(2), t, 0}
}

// arrive adds a hint, and gives its key.
func (y *yard) arrive(kind hint.Kind, number int) string {
	y.t.Helper()
	y.next++
	key := fmt.Sprintf("p.%s.%d", kind, number)
	if kind == hint.Comment {
		key += ".c"
	}
	if err := y.add(key, y.next, time.Unix(0, 0)); err != nil {
		y.t.Fatal(err)
	}
	return key
}

// begin picks the next work, as a dispatcher does; its context is not known to the index yet.
func (y *yard) begin() *run {
	y.t.Helper()
	r, _ := y.pick(time.Unix(0, 0), func(hint.Kind, bool) bool { return true })
	if r == nil {
		y.t.Fatal("nothing is ready")
	}
	return r
}

// run lets the work begin, and gives its context.
func (y *yard) run(r *run) context.Context {
	ctx, cancel := context.WithCancelCause(y.t.Context())
	y.started(r, y.messages(r), cancel)
	return ctx
}

// end ends the work, and removes its hint if it is done.
func (y *yard) end(r *run, done bool) {
	if done {
		y.remove(r.loaded)
	}
	y.finished(r, time.Time{}, time.Time{})
}

// all works on everything that waits, and gives the keys in order.
func (y *yard) all() (keys []string) {
	for {
		r, _ := y.pick(time.Unix(0, 0), func(hint.Kind, bool) bool { return true })
		if r == nil {
			return keys
		}
		keys = append(keys, r.item.key)
		y.run(r)
		y.end(r, true)
	}
}

// A hydration is interrupted also in the moment between its choice and its beginning, when the worker takes the lease.
func TestPreferWhileWorkBegins(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.arrive(hint.Trunk, 0)
	r := y.begin()
	y.prefer("p", y.arrive(hint.Comment, 1), true)
	if ctx := y.run(r); !errors.Is(context.Cause(ctx), ErrInterrupted) {
		t.Errorf("the hydration goes on: %v", context.Cause(ctx))
	}
}

// Commands that overtake keep their order, and the others theirs. Without overtake, a command interrupts and keeps its
// place.
func TestPreferKeepsOrder(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for n := range 6 {
		y.arrive(hint.Comment, n)
	}
	y.prefer("p", "p.comment.3.c", true)
	y.prefer("p", "p.comment.5.c", true)
	y.prefer("p", "p.comment.3.c", true)
	y.prefer("p", "p.comment.4.c", false)
	want := []string{
		"p.comment.3.c", "p.comment.5.c", "p.comment.0.c", "p.comment.1.c", "p.comment.2.c",
		"p.comment.4.c",
	}
	if got := y.all(); !slices.Equal(got, want) {
		t.Errorf("the result of all is %q, want %q", got, want)
	}
}

// However often somebody freezes, a hydration ends: after a few interruptions in a row it is not interrupted. Once it
// has ended, it is again.
func TestFreezesDoNotStarveHydrations(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.arrive(hint.Trunk, 0)
	for round := range 2 {
		interrupted := 0
		for n := range 10 {
			r := y.begin()
			if r.item.kind != string(hint.Trunk) {
				t.Fatalf("%s begins", r.item.key)
			}
			ctx := y.run(r)
			key := y.arrive(hint.Comment, n)
			y.prefer("p", key, true)
			y.prefer("p", key, true) // a note may come twice
			if ctx.Err() != nil {
				interrupted++
			}
			ended := ctx.Err() == nil
			y.end(r, false) // a new commit is on the trunk meanwhile, so its hint stays
			if c := y.begin(); c.item.key != key {
				t.Fatalf("%s begins, not the freeze", c.item.key)
			} else {
				y.run(c)
				y.end(c, true)
			}
			if ended {
				break
			}
		}
		if interrupted != maxYields {
			t.Errorf("round %d: %d interruptions, want %d", round, interrupted, maxYields)
		}
	}
}

// Also commands that overtake leave the hydration a turn, however many arrive. The next ones go before what still
// waits.
func TestFreezesDoNotStarveWhatWaits(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.arrive(hint.Trunk, 0)
	begun := 0
	for n := range 3 * maxOvertaking {
		y.prefer("p", y.arrive(hint.Comment, n), true)
		r := y.begin()
		y.run(r)
		y.end(r, true)
		if begun++; r.item.kind == string(hint.Trunk) {
			break
		}
	}
	if begun != maxOvertaking+1 {
		t.Errorf("the hydration was number %d, want %d", begun, maxOvertaking+1)
	}
	y.arrive(hint.Trunk, 0)
	y.prefer("p", y.arrive(hint.Comment, 5000), true)
	if got := y.all(); len(got) != 3 || got[2] != "p.trunk.0" {
		t.Errorf("the result of all is %q", got)
	}
}

// However many comments arrive, also by strangers, the hydration has a turn. A freeze goes before it.
func TestCommentsDoNotStarveHydrations(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for n := range 3 * maxInRow {
		y.arrive(hint.Comment, n)
	}
	y.arrive(hint.Trunk, 0)
	freeze := y.arrive(hint.Comment, 1000)
	for range maxInRow {
		r := y.begin()
		y.run(r)
		y.end(r, true)
	}
	y.prefer("p", freeze, true)
	got := y.all()
	if got[0] != freeze || got[1] != "p.trunk.0" || len(got) != 2*maxInRow+2 {
		t.Errorf("%d tasks: %q", len(got), got)
	}
}
