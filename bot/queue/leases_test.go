package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// workers counts the hints that two replicas process concurrently.
type workers struct {
	mu       sync.Mutex
	leases   map[string]int // by lease: at most one
	places   map[string]int // reviews by replica and place
	by       map[string]int // turns by replica
	most     int            // in one place of one replica
	finished map[string]int // by key
	wrong    []string
}

// begin counts a turn, and returns what ends it.
func (w *workers) begin(replica string, most int, h Hint) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease, place := leaseOf(subject(h)), replica+" "+h.Place.String()
	w.by[replica]++
	if w.leases[lease]++; w.leases[lease] > 1 {
		w.wrong = append(w.wrong, fmt.Sprintf("%d workers of %s %s %d", w.leases[lease], h.Place, h.Kind, h.Number))
	}
	if h.Kind.Reviews() {
		w.places[place]++
		w.most = max(w.most, w.places[place])
		if w.places[place] > most {
			w.wrong = append(w.wrong, fmt.Sprintf("%d reviews in %s", w.places[place], place))
		}
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.leases[lease]--
		if h.Kind.Reviews() {
			w.places[place]--
		}
		w.finished[h.Key()]++
	}
}

// testLeases checks that replicas never work on one merge request at the same time, that each has at most
// Config.Reviews reviews of a place, and that one hint of another kind is worked on in a place.
func testLeases(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Reviews = 3 })
	replicas := []*Queue{q, o.twin(t, q, "two")}
	const places, numbers = 4, 8
	seen := &workers{
		leases: map[string]int{}, places: map[string]int{}, by: map[string]int{},
		finished: map[string]int{},
	}
	// closed when both replicas have worked, and one of them on several reviews of a place
	parallel := make(chan struct{})
	var once sync.Once
	for _, r := range replicas {
		running(t, r, 8, func(_ context.Context, h Hint) error {
			defer seen.begin(r.cfg.Name, 3, h)()
			seen.mu.Lock()
			if seen.most > 1 && len(seen.by) == 2 {
				once.Do(func() { close(parallel) })
			}
			seen.mu.Unlock()
			select {
			case <-parallel:
			case <-time.After(patience): // the check below fails
			}
			time.Sleep(5 * time.Millisecond) // the work, during which another worker would be seen
			return nil
		})
	}
	want := 0
	for n := range numbers {
		for p := range places {
			h := review(fmt.Sprintf("o/%d", p), n, "")
			put(t, replicas[n%2], h,
				Hint{Place: h.Place, Kind: hint.Question, Number: n, Comment: 1}, // of the same merge request
				Hint{Place: h.Place, Kind: hint.Comment, Number: n, Comment: 2})
			want += 3
		}
	}
	empty(t, q)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.finished) != want {
		t.Errorf("%d hints done, want %d", len(seen.finished), want)
	}
	if len(seen.wrong) > 0 {
		t.Error(strings.Join(seen.wrong, "\n"))
	}
	if seen.most < 2 || len(seen.by) != 2 {
		t.Errorf("at most %d reviews of a place at once, by %v: not in parallel", seen.most, seen.by)
	}
}

// testReviewsBeside checks that a review is done while another one of its place hangs, that further ones wait while two
// hang, and that the second review of a place leaves a worker to another place.
func testReviewsBeside(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	began, hang := make(chan string, 20), make(chan struct{})
	running(t, q, 3, func(ctx context.Context, h Hint) error {
		began <- fmt.Sprintf("%s %d", h.Place.Repo().Path, h.Number)
		if h.Ref != "hangs" {
			return nil
		}
		select {
		case <-hang:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, receive(t, strings.Join(want, ", "), began))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%q began, want %q", got, want)
		}
	}
	put(t, q, review("a/a", 1, "hangs"))
	expect("a/a 1")
	put(t, q, review("a/a", 2, ""))
	expect("a/a 2") // beside the first
	put(t, q, review("a/a", 3, "hangs"))
	expect("a/a 3")
	put(t, q, review("a/a", 4, ""))      // waits: two of its place hang
	put(t, q, review("b/b", 1, "hangs")) // has the last worker
	put(t, q, review("b/b", 2, ""))      // waits for a worker
	put(t, q, Hint{Place: "github:a/a", Kind: hint.Trunk})
	expect("a/a 0", "b/b 1")
	if s := stats(t, q); s.InFlight > 4 || s.InFlight < 3 {
		t.Errorf("the result of stats is %+v", s)
	}
	close(hang)
	expect("a/a 4", "b/b 2")
	empty(t, q)
}

// TestLastWorker checks that the second review of a place does not take the last worker.
func TestLastWorker(t *testing.T) {
	x := newIndex(2)
	for i, h := range []Hint{review("a/a", 1, ""), review("a/a", 2, ""), review("b/b", 1, "")} {
		if err := x.add(subject(h), uint64(i+1), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	busy := 0
	allowed := func(_ hint.Kind, another bool) bool { return enough(2-busy, another) }
	var got []string
	for {
		r, _ := x.pick(time.Now(), allowed)
		if r == nil {
			break
		}
		busy++
		got = append(got, r.item.key)
	}
	if want := []string{subject(review("a/a", 1, "")), subject(review("b/b", 1, ""))}; !slices.Equal(got, want) {
		t.Errorf("picked %q, want %q", got, want)
	}
}
