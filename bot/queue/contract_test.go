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

func TestEmbedded(t *testing.T) { contract(t, embedded()) }

func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	_, urls := startCluster(t, 3)
	contract(t, clustered(urls))
}

// contract runs the tests that apply to one machine and to a cluster.
func contract(t *testing.T, o opener) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, opener){
		"hints":          testHints,
		"commands":       testCommands,
		"again":          testWorkedOnAgain,
		"supersede":      testSupersede,
		"unless":         testUnless,
		"commands first": testCommandsFirst,
		"interrupt":      testInterrupt,
		"leases":         testLeases,
		"reviews beside": testReviewsBeside,
		"partitions":     testPartitions,
		"hydrations":     testHydrationsOfOthers,
		"preferred":      testPreferred,
		"reviews end":    testReviewsEndAtOnce,
		"fair":           testFair,
		"park":           testPark,
		"delay":          testDelay,
		"lease lost":     testLeaseLost,
		"vanished":       testVanished,
		"seen":           testSeen,
		"verdicts":       testVerdicts,
		"outcomes":       testOutcomes,
		"episodes":       testEpisodes,
		"claims":         testClaims,
		"reports":        testReports,
		"drain":          testDrain,
		"full":           testFull,
		"foreign":        testForeign,
		"counted deaths": testCountedDeaths,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
}

func testHints(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	if err := q.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, q, review("a/a", 1, "old"), review("a/a", 1, "new"), review("a/a", 2, ""), review("b/b", 1, ""))
	forced := review("c/c", 7, "forced")
	forced.Force = true
	put(t, q, forced, review("c/c", 7, "newer"))
	if s := stats(t, q); s.Depth != 5 || s.InFlight != 0 || s.Bytes == 0 {
		t.Errorf("before: %+v", s)
	}
	var mu sync.Mutex
	var got []string
	epochs := map[uint64]bool{}
	running(t, q, 3, func(ctx context.Context, h Hint) error {
		mu.Lock()
		defer mu.Unlock()
		if h.At.IsZero() {
			t.Error("a hint without a time")
		}
		epoch, ok := Epoch(ctx)
		if !ok || epochs[epoch] {
			t.Errorf("epoch %d: none, or not new", epoch)
		}
		epochs[epoch] = true
		got = append(got, fmt.Sprintf("%s!%d %s %t", h.Place, h.Number, h.Ref, h.Force))
		return nil
	})
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(got)
	want := []string{"github:a/a!1 new false", "github:a/a!2  false", "github:b/b!1  false", "github:c/c!7 newer true"}
	if !slices.Equal(got, want) {
		t.Errorf("worked on %q, want %q", got, want)
	}
	if keys, _, err := q.attempts.keys(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("attempts stay: %v %v", keys, err)
	}
}

func testCommands(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	var want []int64
	for i := range int64(5) {
		h := Hint{Place: "gitlab:g/p", Kind: hint.Comment, Number: 3, Comment: i + 1, ID: fmt.Sprint(i)}
		put(t, q, h, h) // the second is the same delivery
		want = append(want, i+1)
	}
	put(t, q, Hint{Place: "gitlab:g/p", Kind: hint.Comment, Number: 3},
		Hint{Place: "gitlab:g/p", Kind: hint.Comment, Number: 3})
	want = append(want, 0, 0)
	var mu sync.Mutex
	var got []int64
	running(t, q, 4, func(_ context.Context, h Hint) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, h.Comment)
		return nil
	})
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got, want) {
		t.Errorf("commands %v, want %v", got, want)
	}
}

func testWorkedOnAgain(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	started, finish := make(chan string, 10), make(chan struct{})
	running(t, q, 2, func(ctx context.Context, h Hint) error {
		started <- h.Ref
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	h := Hint{Place: "github:a/a", Kind: "push", Ref: "1"}
	put(t, q, h)
	if got := receive(t, "the first", started); got != "1" {
		t.Fatalf("started %q", got)
	}
	for _, ref := range []string{"2", "3"} {
		h.Ref = ref
		put(t, q, h)
	}
	if s := stats(t, q); s.Depth != 1 || s.InFlight != 1 {
		t.Errorf("in work: %+v", s)
	}
	finish <- struct{}{}
	if got := receive(t, "the one put meanwhile", started); got != "3" {
		t.Fatalf("started %q", got)
	}
	close(finish)
	empty(t, q)
	if len(started) != 0 {
		t.Errorf("worked on once more: %q", <-started)
	}
}

func testSupersede(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Retries, c.Reviews = 1, 1 }) // a superseded hint does not count as a failure
	started, causes := make(chan string, 10), make(chan error, 10)
	running(t, q, 2, func(ctx context.Context, h Hint) error {
		started <- fmt.Sprintf("%d %s", h.Number, h.Ref)
		if h.Ref == "last" {
			return nil
		}
		select {
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return fmt.Errorf("stopped: %w", ctx.Err())
		case <-time.After(patience):
			return errors.New("nobody cancelled")
		}
	})
	expect := func(want string) {
		t.Helper()
		if got := receive(t, want, started); got != want {
			t.Fatalf("started %q, want %q", got, want)
		}
	}
	superseded := func() {
		t.Helper()
		if err := receive(t, "the cause", causes); !errors.Is(err, ErrSuperseded) {
			t.Fatalf("cause %v", err)
		}
	}
	put(t, q, review("a/a", 9, "first"))
	expect("9 first")
	put(t, q, review("a/a", 10, "last")) // a hint of another number cancels nothing
	select {
	case err := <-causes:
		t.Fatalf("cancelled by another merge request: %v", err)
	case <-time.After(150 * time.Millisecond):
	}
	put(t, q, review("a/a", 9, "second"))
	superseded()
	expect("10 last") // it waited, so it is next
	expect("9 second")
	put(t, q, review("a/a", 9, "last"))
	superseded()
	expect("9 last")
	empty(t, q)
	if s := stats(t, q); s.Parked != 0 {
		t.Errorf("parked: %+v", s)
	}
}

// testUnless: a sweep's hint is stored where none of its merge request waits or is worked on, and does not begin a
// running review again.
func testUnless(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Reviews = 1 })
	unless := review("a/a", 9, "sweep")
	unless.Unless = true
	started, finish := make(chan string, 10), make(chan bool)
	running(t, q, 2, func(ctx context.Context, h Hint) error {
		started <- fmt.Sprintf("%d %s", h.Number, h.Ref)
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		case <-finish:
			return nil
		}
	})
	expect := func(want string) {
		t.Helper()
		if got := receive(t, want, started); got != want {
			t.Fatalf("started %q, want %q", got, want)
		}
	}
	forced := review("a/a", 9, "forced")
	forced.Force = true
	for _, h := range []Hint{review("a/a", 9, "webhook"), forced} {
		put(t, q, h)
		expect("9 " + h.Ref)
		put(t, q, unless, unless, review("a/a", 10, "next")) // the last one shows that the others would have arrived
		finish <- true
		expect("10 next")
		finish <- true
		empty(t, q)
		if len(started) != 0 {
			t.Fatalf("a review beside the running one: %q", <-started)
		}
	}
	put(t, q, unless)
	expect("9 sweep")
	put(t, q, review("a/a", 9, "push")) // a webhook still begins it again
	expect("9 push")
	finish <- true
	empty(t, q)
}

func testFair(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	for n := range 20 {
		put(t, q, review("busy/busy", n, ""))
	}
	put(t, q, review("quiet/quiet", 1, ""), review("calm/calm", 1, ""))
	var mu sync.Mutex
	var order []string
	running(t, q, 1, func(_ context.Context, h Hint) error {
		mu.Lock()
		order = append(order, h.Place.String())
		begins := len(order) == 1
		mu.Unlock()
		if begins {
			known(q, 22)
		}
		return nil
	})
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	for _, p := range []string{"github:quiet/quiet", "github:calm/calm"} {
		if i := slices.Index(order, p); i < 0 || i > 4 {
			t.Errorf("%s came as number %d of %d", p, i+1, len(order))
		}
	}
}

func testPark(t *testing.T, o opener) {
	t.Helper()
	parked := make(chan string, 10)
	q := o.open(t, func(c *Config) {
		c.Retries = 3
		c.OnPark = func(h Hint, err error) { parked <- fmt.Sprintf("%d: %v", h.Number, err) }
	})
	var mu sync.Mutex
	tries := map[int]int{}
	healthy := false
	running(t, q, 2, func(_ context.Context, h Hint) error {
		mu.Lock()
		defer mu.Unlock()
		tries[h.Number]++
		switch {
		case h.Number == 1 && !healthy:
			return errors.New("broken chart")
		case h.Number == 2 && tries[2] < 3:
			panic("bad luck")
		}
		return nil
	})
	put(t, q, review("a/a", 1, "x"), review("a/a", 2, ""), review("a/a", 3, ""))
	if got := receive(t, "OnPark", parked); got != "1: broken chart" {
		t.Fatalf("parked %s", got)
	}
	empty(t, q)
	list, err := q.Parked(t.Context())
	if err != nil || len(list) != 1 || list[0].Hint.Ref != "x" || list[0].Failures != 3 ||
		list[0].Err != "broken chart" || list[0].Since.IsZero() {
		t.Fatalf("parked %+v, %v", list, err)
	}
	mu.Lock()
	if tries[1] != 3 || tries[2] != 3 || tries[3] != 1 {
		t.Errorf("tries %v", tries)
	}
	healthy = true
	mu.Unlock()
	if err := q.Unpark(t.Context(), review("a/a", 3, "")); !errors.Is(err, ErrNotParked) {
		t.Errorf("unpark what is not parked: %v", err)
	}
	if err := q.Unpark(t.Context(), list[0].Hint); err != nil {
		t.Fatal(err)
	}
	empty(t, q)
	if s := stats(t, q); s.Parked != 0 {
		t.Errorf("still parked: %+v", s)
	}
	mu.Lock()
	defer mu.Unlock()
	if tries[1] != 4 {
		t.Errorf("tries after unpark %v", tries)
	}
}

func testDelay(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Retries = 1 })
	var mu sync.Mutex
	var times []time.Time
	running(t, q, 1, func(context.Context, Hint) error {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
		if len(times) < 3 {
			return fmt.Errorf("wrapped: %w", &Delay{
				Until: time.Now().Add(150 * time.Millisecond),
				Err:   errors.New("rate limit"),
			})
		}
		return nil
	})
	put(t, q, review("a/a", 1, ""))
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	if len(times) != 3 || times[1].Sub(times[0]) < 150*time.Millisecond ||
		times[2].Sub(times[1]) < 150*time.Millisecond {
		t.Errorf("tried at %v", times)
	}
	if s := stats(t, q); s.Parked != 0 {
		t.Errorf("a delay was counted: %+v", s)
	}
}

func testLeaseLost(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, brief)
	causes, place := make(chan error, 10), make(chan string, 10)
	turns := 0 // one place, so one worker
	running(t, q, 1, func(ctx context.Context, h Hint) error {
		turns++
		if turns > 1 {
			return nil
		}
		place <- leaseOf(subject(h))
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	put(t, q, review("a/a", 1, ""))
	key := receive(t, "the work", place)
	if _, err := q.leases.set(t.Context(), key, []byte("somebody else's")); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "the cause", causes); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	empty(t, q)
}

// testVanished checks that a merge request is free after the lease of a replica that vanished, and that others of the
// place do not wait.
func testVanished(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, brief)
	taken := time.Now()
	if _, err := q.takeLease(t.Context(), leaseOf(subject(review("a/a", 1, "")))); err != nil {
		t.Fatal(err)
	}
	done := make(chan Hint, 3)
	running(t, q, 2, func(_ context.Context, h Hint) error { done <- h; return nil })
	put(t, q, review("a/a", 1, ""), review("a/a", 2, ""), review("b/b", 1, ""))
	for i := range 3 {
		h := receive(t, "a review", done)
		leased, waited := h.Place == "github:a/a" && h.Number == 1, time.Since(taken)
		// a slow machine can take longer than the lease for the others
		if leased && i < 2 && waited < q.cfg.Lease-50*time.Millisecond {
			t.Errorf("%s %d came as number %d, after %s", h.Place, h.Number, i+1, waited)
		}
	}
	if waited := time.Since(taken); waited < q.cfg.Lease-50*time.Millisecond {
		t.Errorf("the merge request was entered after %s, the lease is %s", waited, q.cfg.Lease)
	}
}

func testSeen(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Lease, c.SeenTTL = time.Second, 4*time.Second })
	ctx := t.Context()
	check := func(what string, want bool, f func(context.Context, string) (bool, error)) {
		t.Helper()
		if got, err := f(ctx, "delivery 1/ü"); err != nil || got != want {
			t.Errorf("%s: the result of f is %t, the error is %v", what, got, err)
		}
	}
	check("known before", false, q.Known)
	check("first", false, q.Seen)
	check("second", true, q.Seen)
	check("known", true, q.Known)
	if err := q.Forget(ctx, "delivery 1/ü"); err != nil {
		t.Error(err)
	}
	check("after forget", false, q.Seen)
	eventually(t, "the record expires", func() bool {
		ok, err := q.Known(ctx, "delivery 1/ü")
		return err == nil &&
			!ok
	})
}

func testDrain(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.Grace = 3 * time.Second })
	started, causes := make(chan int, 10), make(chan error, 10)
	do := func(ctx context.Context, h Hint) error {
		started <- h.Number
		if h.Number == 1 {
			time.Sleep(150 * time.Millisecond)
			return ctx.Err()
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}
	stop := running(t, q, 2, do)
	trunk := func(place hint.Place, n int) Hint { return Hint{Place: place, Kind: hint.Trunk, Number: n} }
	put(t, q, trunk("github:a/a", 1), trunk("github:b/b", 2))
	receive(t, "start", started)
	receive(t, "start", started)
	stop()
	if err := receive(t, "the cause", causes); !errors.Is(err, ErrDraining) {
		t.Errorf("cause %v", err)
	}
	// A follower of a cluster may report the numbers with a delay.
	eventually(t, "one hint left and no lease", func() bool {
		s := stats(t, q)
		return s.Depth == 1 && s.InFlight == 0
	})
	again := make(chan int, 10)
	running(t, q, 2, func(_ context.Context, h Hint) error { again <- h.Number; return nil })
	if n := receive(t, "the hint that was cut off", again); n != 2 {
		t.Errorf("worked on %d", n)
	}
	empty(t, q)
}
