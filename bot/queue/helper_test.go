package queue

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-gitops/sluice/bot/hint"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("QUEUE_TEST_CHILD"); dir != "" {
		childMain(dir) // until killed
	}
	os.Exit(m.Run())
}

// opener returns a new queue on the server under test, and twins of it: other replicas on the same streams.
type opener struct {
	open func(t *testing.T, change func(*Config)) *Queue
	twin func(t *testing.T, q *Queue, name string) *Queue
}

// patience is how long a test waits for what must come about. Only a failing test takes so long: a machine that does
// other work too may stand still for seconds.
const patience = 2 * time.Minute

// brief has leases expire while a test waits. Others last longer than a busy machine stands still, so that no worker
// loses one.
func brief(c *Config) { c.Lease = 2 * time.Second }

func testConfig(change func(*Config)) Config {
	cfg := Config{
		Clock: time.Now, Name: "one", Lease: 20 * time.Second, Grace: 5 * time.Second,
		Backoff: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond, MaxBytes: 64 << 20,
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func embedded() opener {
	return opener{
		open: func(t *testing.T, change func(*Config)) *Queue {
			t.Helper()
			cfg := testConfig(change)
			cfg.Dir = t.TempDir()
			return openQueue(t, cfg)
		},
		twin: func(t *testing.T, q *Queue, name string) *Queue {
			t.Helper()
			cfg := q.cfg
			cfg.Name = name
			twin := &Queue{cfg: cfg, log: cfg.Log, srv: q.srv}
			if err := twin.connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			twin.srv = nil // the first queue owns the server
			if err := twin.makeStreams(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeQueue(t, twin) })
			return twin
		},
	}
}

// clustered gives each queue its own prefix, so that the tests do not affect each other.
func clustered(urls string) opener {
	var n atomic.Int64
	return opener{
		open: func(t *testing.T, change func(*Config)) *Queue {
			t.Helper()
			cfg := testConfig(change)
			cfg.URL = urls
			cfg.Prefix = "t" + strconv.FormatInt(n.Add(1), 10)
			return openQueue(t, cfg)
		},
		twin: func(t *testing.T, q *Queue, name string) *Queue {
			t.Helper()
			cfg := q.cfg
			cfg.Name = name
			return openQueue(t, cfg)
		},
	}
}

func openQueue(t *testing.T, cfg Config) *Queue {
	t.Helper()
	q, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQueue(t, q) })
	return q
}

func closeQueue(t *testing.T, q *Queue) {
	t.Helper()
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// startCluster runs NATS servers in this process, connected by routes on ports of the loopback interface. It returns
// them when one of them leads and has heard from all.
func startCluster(t *testing.T, nodes int) ([]*server.Server, string) {
	t.Helper()
	ports := make([]int, nodes)
	routes := make([]string, nodes)
	for i := range ports {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		routes[i] = fmt.Sprintf("nats-route://127.0.0.1:%d", ports[i])
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	servers := make([]*server.Server, nodes)
	urls := make([]string, nodes)
	for i := range servers {
		srv, err := server.NewServer(&server.Options{
			ServerName: "n" + strconv.Itoa(i), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, strconv.Itoa(i)), SyncAlways: true,
			JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 8 << 30,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i]},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		servers[i] = srv
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	}
	for i, srv := range servers {
		if !srv.ReadyForConnections(patience) {
			t.Fatalf("node %d did not start", i)
		}
		urls[i] = srv.ClientURL()
	}
	eventually(t, "the servers know each other", func() bool {
		return slices.ContainsFunc(servers,
			func(s *server.Server) bool { return len(s.JetStreamClusterPeers()) == nodes })
	})
	return servers, strings.Join(urls, ",")
}

// running runs a queue until the test ends or stop is called.
func running(t *testing.T, q *Queue, workers int, do func(context.Context, Hint) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx, workers, do) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run did not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

func put(t *testing.T, q *Queue, hints ...Hint) {
	t.Helper()
	for _, h := range hints {
		if err := q.Put(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func stats(t *testing.T, q *Queue) Stats {
	t.Helper()
	s, err := q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// indexed counts the keys of hints that a running queue knows.
func indexed(q *Queue) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index.mu.Lock()
	defer q.index.mu.Unlock()
	for _, p := range q.index.partitions {
		n += len(p.items)
	}
	return n
}

// known waits until a running queue knows a number of hints.
func known(q *Queue, hints int) {
	for end := time.Now().Add(patience); indexed(q) < hints && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// empty waits until nothing is pending or in work.
func empty(t *testing.T, q *Queue) {
	t.Helper()
	eventually(t, "an empty queue", func() bool { s := stats(t, q); return s.Depth == 0 && s.InFlight == 0 })
}

// receive takes from a channel, with a limit.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("did not come: %s", what)
		panic("unreachable")
	}
}

func review(place string, number int, ref string) Hint {
	return Hint{Place: hint.NewPlace("github", place), Kind: hint.Review, Number: number, Ref: ref}
}
