package queue

import (
	"bytes"
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
	return &observed{t: t, latest: map[string]int{}, commands: map[string]bool{}, busy: map[string]int{}, epochs: map[string]uint64{}}
}

// work fails the test if two workers have one lease, or if its epoch goes back.
func (o *observed) work(ctx context.Context, h Hint) error {
	epoch, _ := Epoch(ctx) // 0 is reported as going back
	o.mu.Lock()
	o.busy[leaseOf(subject(h))]++
	if o.busy[leaseOf(subject(h))] > 1 || epoch < o.epochs[leaseOf(subject(h))] {
		o.t.Errorf("%s: %d workers, epoch %d after %d", h.Place, o.busy[leaseOf(subject(h))], epoch, o.epochs[leaseOf(subject(h))])
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

// TestNodeLost kills one of three nodes, the leader of the stream of hints, while two replicas put hints and
// work on them, and a Fan runs. Every acknowledged hint must be worked on in its newest form.
func TestNodeLost(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	servers, urls := startCluster(t, 3)
	o := clustered(urls)
	one := o.open(t, nil)
	two := o.twin(t, one, "two")
	const places, numbers = 6, 5
	seen := newObserved(t)
	for _, q := range []*Queue{one, two} {
		running(t, q, 4, seen.work)
		rendering(t, q, func(ctx context.Context, job []byte) ([]byte, error) {
			time.Sleep(30 * time.Millisecond)
			return upper(ctx, job)
		})
	}

	until := time.Now().Add(7 * time.Second)
	wantLatest, wantCommands := map[string]int{}, map[string]bool{}
	var acks sync.Mutex
	var writers sync.WaitGroup
	for p := range places {
		q := []*Queue{one, two}[p%2]
		writers.Go(func() {
			for v := 1; time.Now().Before(until); v++ {
				h := review("o/"+strconv.Itoa(p), v%numbers, strconv.Itoa(v))
				c := Hint{Place: h.Place, Kind: hint.Comment, Number: 1, ID: fmt.Sprintf("%d-%d", p, v)}
				okHint, okCommand := q.Put(t.Context(), h) == nil, q.Put(t.Context(), c) == nil
				acks.Lock()
				if okHint {
					wantLatest[h.Key()] = v
				}
				if okCommand {
					wantCommands[c.ID] = true
				}
				acks.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	fanned := make(chan error, 1)
	writers.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		var jobs [][]byte
		for i := range 60 {
			jobs = append(jobs, fmt.Appendf(nil, "job %d", i))
		}
		results, err := one.Fan(ctx, jobs)
		for i := range results {
			if !bytes.Equal(results[i], bytes.ToUpper(jobs[i])) {
				err = fmt.Errorf("result %d is %q", i, results[i])
			}
		}
		fanned <- err
	})

	eventually(t, "hints of all places are acknowledged", func() bool {
		acks.Lock()
		defer acks.Unlock()
		return len(wantCommands) >= 3*places
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
	if err := <-fanned; err != nil {
		t.Errorf("fan: %v", err)
	}
	empty(t, one)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for key, v := range wantLatest {
		if seen.latest[key] < v {
			t.Errorf("%q: version %d was put, %d done", key, v, seen.latest[key])
		}
	}
	for id := range wantCommands {
		if !seen.commands[id] {
			t.Errorf("command %s was put and never done", id)
		}
	}
	if len(wantCommands) < 100 {
		t.Errorf("only %d commands were put: the queue stood still", len(wantCommands))
	}
	t.Logf("%d commands put, %d done", len(wantCommands), len(seen.commands))
	if err := two.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
