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
	var mu sync.Mutex
	latest, commands := map[string]int{}, map[string]bool{} // done, by key
	busy := map[string]int{}                                // by lane
	epochs := map[string]uint64{}
	for _, q := range []*Queue{one, two} {
		running(t, q, 4, func(ctx context.Context, h Hint) error {
			epoch, _ := Epoch(ctx)
			mu.Lock()
			busy[h.Lane()]++
			if busy[h.Lane()] > 1 || epoch < epochs[h.Lane()] {
				t.Errorf("%s: %d workers, epoch %d after %d", h.Place, busy[h.Lane()], epoch, epochs[h.Lane()])
			}
			epochs[h.Lane()] = epoch
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			busy[h.Lane()]--
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if h.Kind == hint.Comment {
				commands[h.ID] = true
				return nil
			}
			version, err := strconv.Atoi(h.Ref)
			if err != nil {
				return err
			}
			latest[h.Key()] = max(latest[h.Key()], version)
			return nil
		})
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

	time.Sleep(500 * time.Millisecond)
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
	mu.Lock()
	defer mu.Unlock()
	for key, v := range wantLatest {
		if latest[key] < v {
			t.Errorf("%q: version %d was put, %d done", key, v, latest[key])
		}
	}
	for id := range wantCommands {
		if !commands[id] {
			t.Errorf("command %s was put and never done", id)
		}
	}
	if len(wantCommands) < 100 {
		t.Errorf("only %d commands were put: the queue stood still", len(wantCommands))
	}
	t.Logf("%d commands put, %d done", len(wantCommands), len(commands))
	if err := two.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
