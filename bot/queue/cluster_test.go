package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// observed is what the replicas of TestNodeLost worked on.
type observed struct {
	t *testing.T

	mu       sync.Mutex
	latest   map[string]int    // newest version by key
	commands map[string]bool   // by id
	busy     map[string]int    // workers by lease
	epochs   map[string]uint64 // by lease
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	return &observed{
		t: t, latest: map[string]int{}, commands: map[string]bool{}, busy: map[string]int{},
		epochs: map[string]uint64{},
	}
}

// work fails the test if two workers have one lease, or if its epoch goes back.
func (o *observed) work(ctx context.Context, h Hint) error {
	epoch, _ := Epoch(ctx) // 0 is reported as going back
	o.mu.Lock()
	o.busy[leaseOf(subject(h))]++
	if o.busy[leaseOf(subject(h))] > 1 || epoch < o.epochs[leaseOf(subject(h))] {
		o.t.Errorf("%s: %d workers, epoch %d after %d", h.Place, o.busy[leaseOf(subject(h))], epoch,
			o.epochs[leaseOf(subject(h))])
	}
	o.epochs[leaseOf(subject(h))] = epoch
	o.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy[leaseOf(subject(h))]--
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if h.Kind == hint.Comment {
		o.commands[h.ID] = true
		return nil
	}
	version, err := strconv.Atoi(h.Ref)
	if err != nil {
		return err
	}
	o.latest[h.Key()] = max(o.latest[h.Key()], version)
	return nil
}

// leastCommands is the number of commands in TestNodeLost; fewer mean that the queue stood still.
const leastCommands = 100

// acknowledged is what the writers of TestNodeLost put.
type acknowledged struct {
	began time.Time

	mu       sync.Mutex
	latest   map[string]int  // newest version by key
	commands map[string]bool // by id
}

func (a *acknowledged) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.commands)
}

// write puts hints and commands of one place for 7 s, and longer until all writers together put enough.
func (a *acknowledged) write(t *testing.T, q *Queue, p, numbers int) {
	t.Helper()
	for v := 1; time.Since(a.began) < 7*time.Second || a.count() < leastCommands &&
		time.Since(a.began) < patience; v++ {
		h := review("o/"+strconv.Itoa(p), v%numbers, strconv.Itoa(v))
		c := Hint{Place: h.Place, Kind: hint.Comment, Number: 1, ID: fmt.Sprintf("%d-%d", p, v)}
		okHint, okCommand := q.Put(t.Context(), h) == nil, q.Put(t.Context(), c) == nil
		a.mu.Lock()
		if okHint {
			a.latest[h.Key()] = v
		}
		if okCommand {
			a.commands[c.ID] = true
		}
		a.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

// TestNodeLost kills one of three nodes, the leader of the stream of hints, while two replicas put hints and
// work on them. Every acknowledged hint must be worked on in its newest form.
func TestNodeLost(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	servers, urls := startCluster(t, 3)
	o := clustered(urls)
	one := o.open(t, func(c *Config) { c.Lease = 4 * time.Second })
	two := o.twin(t, one, "two")
	const places, numbers = 6, 5
	seen := newObserved(t)
	for _, q := range []*Queue{one, two} {
		running(t, q, 4, seen.work)
	}

	want := &acknowledged{began: time.Now(), latest: map[string]int{}, commands: map[string]bool{}}
	var writers sync.WaitGroup
	for p := range places {
		q := []*Queue{one, two}[p%2]
		writers.Go(func() { want.write(t, q, p, numbers) })
	}
	eventually(t, "hints of all places are acknowledged", func() bool {
		return want.count() >= 3*places
	})
	leader := servers[0]
	for _, s := range servers {
		if s.JetStreamIsStreamLeader("$G", one.cfg.Prefix+"-hints") {
			leader = s
		}
	}
	leader.Shutdown()
	leader.WaitForShutdown()
	writers.Wait()
	empty(t, one)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for key, v := range want.latest {
		if seen.latest[key] < v {
			t.Errorf("%q: version %d was put, %d done", key, v, seen.latest[key])
		}
	}
	for id := range want.commands {
		if !seen.commands[id] {
			t.Errorf("command %s was put and never done", id)
		}
	}
	if len(want.commands) < leastCommands {
		t.Errorf("only %d commands were put: the queue stood still", len(want.commands))
	}
	t.Logf("%d commands put, %d done", len(want.commands), len(seen.commands))
	if err := two.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
