package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// testPartitions checks that reviews that hang in every worker, in the same place and in others, delay neither a
// command nor the trunk.
func testPartitions(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	const workers = 2
	release, hanging, done := make(chan struct{}), make(chan struct{}, 10), make(chan hint.Kind, 10)
	running(t, q, workers, func(ctx context.Context, h Hint) error {
		if h.Kind.Reviews() {
			hanging <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		done <- h.Kind
		return nil
	})
	put(t, q, review("a/a", 1, ""), review("b/b", 1, ""), review("c/c", 1, ""))
	for range workers {
		receive(t, "a review that hangs", hanging)
	}
	put(t, q, Hint{Place: "github:a/a", Kind: hint.Trunk}, Hint{
		Place: "github:d/d", Kind: hint.Comment, Number: 1,
		Comment: 1,
	})
	got := map[hint.Kind]bool{
		receive(t, "the first task beside the reviews", done): true,
		receive(t, "the second one", done):                    true,
	}
	if !got[hint.Trunk] || !got[hint.Comment] {
		t.Errorf("worked on %v", got)
	}
	select {
	case <-hanging:
		t.Errorf("more than %d reviews run at the same time", workers)
	default:
	}
	close(release)
	empty(t, q)
}

// testHydrationsOfOthers checks that hydrations that hang in every worker delay no command of another place.
func testHydrationsOfOthers(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	const workers = 2
	release, hanging, done := make(chan struct{}), make(chan struct{}, 10), make(chan hint.Place, 10)
	running(t, q, workers, func(ctx context.Context, h Hint) error {
		if h.Kind == hint.Comment {
			done <- h.Place
			return nil
		}
		hanging <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	for _, p := range []hint.Place{"github:a/a", "github:b/b", "github:c/c"} {
		put(t, q, Hint{Place: p, Kind: hint.Trunk})
	}
	for range workers {
		receive(t, "a hydration that hangs", hanging)
	}
	put(t, q, Hint{Place: "github:d/d", Kind: hint.Comment, Number: 1, Comment: 1})
	if p := receive(t, "the command", done); p != "github:d/d" {
		t.Errorf("a command of %s", p)
	}
	close(release)
	empty(t, q)
}

// testPreferred checks that a preferred command interrupts the hydration of its place and goes before earlier commands,
// even if another replica prefers it, and that it interrupts neither a command nor the work of another place. The
// hydration is done afterwards, and its interruption does not count as a failure.
func testPreferred(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Retries, c.Crashes = 1, 1 })
	other := o.twin(t, q, "two")
	var mu sync.Mutex
	var got []string
	release, end := make(chan struct{}), make(chan struct{})
	hang := map[string]chan struct{}{"a/a trunk": nil, "b/b trunk": end, "a/a comment1": release}
	begun, causes := make(chan string, 10), make(chan error, 10)
	running(t, q, 3, func(ctx context.Context, h Hint) error {
		name := h.Place.Repo().Path + " " + string(h.Kind)
		if h.Number > 0 {
			name += fmt.Sprint(h.Number)
		}
		mu.Lock()
		until, stay := hang[name]
		delete(hang, name)
		got = append(got, name)
		mu.Unlock()
		if !stay {
			return nil
		}
		begun <- name
		select {
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return ctx.Err()
		case <-until:
			return nil
		}
	})
	begins := func(want string) {
		t.Helper()
		if name := receive(t, want, begun); name != want {
			t.Fatalf("%s begins, not %s", name, want)
		}
	}
	command := func(number int) Hint {
		return Hint{Place: "github:a/a", Kind: hint.Comment, Number: number, Comment: int64(number)}
	}
	prefer := func(h Hint) {
		t.Helper()
		eventually(t, "the index has the command", func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.index.mu.Lock()
			defer q.index.mu.Unlock()
			return q.index.has(digest(h.Partition()), subject(h), subject(h))
		})
		if err := Prefer(other, h, true); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is in front", func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.index.mu.Lock()
			defer q.index.mu.Unlock()
			p := q.index.partitions[digest(h.Partition())]
			return p == nil || len(p.items) == 0 || p.items[0].key == subject(h) ||
				!q.index.has(p.digest, subject(h), subject(h))
		})
	}
	put(t, q, Hint{Place: "github:b/b", Kind: hint.Trunk})
	begins("b/b trunk")
	put(t, q, command(1))
	begins("a/a comment1")
	put(t, q, Hint{Place: "github:a/a", Kind: hint.Trunk}, command(2), command(3), command(4))
	prefer(command(4))
	close(release)
	begins("a/a trunk")
	put(t, q, command(5), command(6))
	prefer(command(6))
	if cause := receive(t, "the end of the hydration", causes); !errors.Is(cause, ErrInterrupted) {
		t.Errorf("the cause is %v", cause)
	}
	eventually(t, "the hydration is done", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == 9
	})
	close(end)
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	want := []string{
		"b/b trunk", "a/a comment1", "a/a comment4", "a/a comment2", "a/a comment3", "a/a trunk",
		"a/a comment6", "a/a comment5", "a/a trunk",
	}
	if !slices.Equal(got, want) {
		t.Errorf("worked on %q, want %q", got, want)
	}
	if len(causes) > 0 {
		t.Errorf("something else is interrupted: %v", <-causes)
	}
}

// testReviewsEndAtOnce checks that a review gets no grace period when Run's context ends. Its hint stays.
func testReviewsEndAtOnce(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Grace = time.Hour })
	began, causes := make(chan struct{}, 1), make(chan error, 1)
	stop := running(t, q, 1, func(ctx context.Context, _ Hint) error {
		began <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	put(t, q, review("a/a", 1, ""))
	receive(t, "the review", began)
	stop()
	if err := receive(t, "the cause", causes); !errors.Is(err, ErrDraining) {
		t.Errorf("cause %v", err)
	}
	eventually(t, "the hint of the review is all that is left",
		func() bool { s := stats(t, q); return s.Depth == 1 && s.InFlight == 0 })
}

// testCommandsFirst checks that a command is processed before earlier hints of its partition.
func testCommandsFirst(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	put(t, q, Hint{Place: "github:a/a", Kind: hint.Sweep}, Hint{Place: "github:a/a", Kind: hint.Trunk},
		Hint{Place: "github:a/a", Kind: hint.Comment, Number: 2, Comment: 5})
	put(t, q, Hint{Place: "github:a/a", Kind: hint.Comment, Number: 1, Comment: 6})
	var mu sync.Mutex
	var got []string
	running(t, q, 3, func(_ context.Context, h Hint) error {
		mu.Lock()
		got = append(got, fmt.Sprint(h.Kind, h.Number))
		begins := len(got) == 1
		mu.Unlock()
		if begins {
			known(q, 4)
		}
		return nil
	})
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	first, second := slices.Index(got, "comment2"), slices.Index(got, "comment1")
	// The index is full when the first item ends: one of the others may go before, no more.
	if first < 0 || second != first+1 || first > 1 {
		t.Errorf("worked on %q", got)
	}
}

// testInterrupt checks that an interrupted review is processed after the command and does not count as a failure,
// even if another replica interrupts it. A review that the command drops is not processed.
func testInterrupt(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Retries, c.Crashes = 1, 1 })
	other := o.twin(t, q, "two")
	var mu sync.Mutex
	var got []string
	causes := make(chan error, 10)
	begun := make(chan struct{}, 10)
	wait := true
	running(t, q, 2, func(ctx context.Context, h Hint) error {
		mu.Lock()
		got = append(got, fmt.Sprint(h.Kind, h.Number))
		hang := wait && h.Kind == hint.Review
		mu.Unlock()
		if h.Kind == hint.Comment && h.Comment == 2 {
			dropped, err := other.Drop(ctx, review("a/a", h.Number, ""))
			if err == nil && !dropped {
				err = errors.New("there was nothing to take back")
			}
			return err
		}
		if hang {
			begun <- struct{}{}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}
		return nil
	})
	interrupt := func(comment int64) {
		t.Helper()
		receive(t, "the review", begun)
		put(t, q, Hint{Place: "github:a/a", Kind: hint.Comment, Number: 1, Comment: comment})
		for _, number := range []int{9, 1} { // the first is another review
			if err := other.Interrupt("github:a/a", number); err != nil {
				t.Fatal(err)
			}
		}
		if cause := receive(t, "the cause", causes); !errors.Is(cause, ErrInterrupted) {
			t.Errorf("the cause is %v", cause)
		}
	}
	put(t, q, review("a/a", 1, ""))
	interrupt(1)
	interrupt(2)
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"review1", "comment1", "review1", "comment1"}; !slices.Equal(got, want) {
		t.Errorf("worked on %q, want %q", got, want)
	}
}
