package queue

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// childMain is the process that TestKilled kills: it puts hints, works on hints, and reports both on its output.
func childMain(dir string) {
	q, err := Open(context.Background(), testConfig(func(c *Config) { c.Dir = dir }))
	if err != nil {
		fmt.Println("fail", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	say := func(args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(args...)
	}
	say("open")
	go func() {
		err := q.Run(context.Background(), 4, func(_ context.Context, h Hint) error {
			time.Sleep(5 * time.Millisecond)
			say("done", h.ID)
			return nil
		})
		say("fail", err)
	}()
	for i := 0; ; i++ {
		h := Hint{
			Place: hint.NewPlace("github", "a/"+strconv.Itoa(i%20)), Kind: hint.Comment, Number: 1,
			ID: os.Getenv("QUEUE_TEST_ROUND") + "-" + strconv.Itoa(i),
		}
		if err := q.Put(context.Background(), h); err != nil {
			say("fail", err)
		}
		say("put", h.ID)
	}
}

// TestKilled kills a process with SIGKILL while it puts hints and works on them. Every acknowledged hint must
// be worked on.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	dir := t.TempDir()
	acknowledged, done := map[string]bool{}, map[string]bool{}
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "QUEUE_TEST_CHILD="+dir, "QUEUE_TEST_ROUND="+strconv.Itoa(round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			word, rest, _ := strings.Cut(lines.Text(), " ")
			switch word {
			case "put":
				acknowledged[rest] = true
			case "done":
				done[rest] = true
			case "fail":
				t.Errorf("round %d: %s", round, rest)
			}
			if n == 150+77*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := io.Copy(io.Discard, out); err == nil && lines.Err() != nil {
			t.Error(lines.Err())
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the process was not killed")
		}
	}
	q := openQueue(t, testConfig(func(c *Config) { c.Dir = dir }))
	before := stats(t, q)
	if before.InFlight != 0 {
		t.Errorf("leases of a dead process: %+v", before)
	}
	var mu sync.Mutex
	running(t, q, 16, func(_ context.Context, h Hint) error {
		mu.Lock()
		defer mu.Unlock()
		done[h.ID] = true
		return nil
	})
	empty(t, q)
	mu.Lock()
	defer mu.Unlock()
	for id := range acknowledged {
		if !done[id] {
			t.Errorf("%s was put and never done", id)
		}
	}
	if len(acknowledged) < 100 || before.Depth == 0 {
		t.Errorf("%d put, %d pending at the end: the test did not test", len(acknowledged), before.Depth)
	}
	t.Logf("%d put, %d done, %d of them after the last kill", len(acknowledged), len(done), before.Depth)
}

// TestReopen closes a queue in the middle of work, without a drain.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	first := openQueue(t, testConfig(func(c *Config) { c.Dir = dir; c.Grace = 0; c.Grace = time.Millisecond }))
	put(t, first, review("a/a", 1, ""), review("b/b", 2, ""))
	if _, err := Open(t.Context(), testConfig(func(c *Config) { c.Dir = dir })); err == nil ||
		!strings.Contains(err.Error(), "another process") {
		t.Errorf("a second queue in the same directory: %v", err)
	}
	started := make(chan struct{}, 2)
	stop := running(t, first, 2, func(ctx context.Context, _ Hint) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	receive(t, "start", started)
	receive(t, "start", started)
	closeQueue(t, first)
	stop()
	second := openQueue(t, testConfig(func(c *Config) { c.Dir = dir }))
	done := make(chan int, 2)
	running(t, second, 2, func(_ context.Context, h Hint) error { done <- h.Number; return nil })
	if sum := receive(t, "one", done) + receive(t, "two", done); sum != 3 {
		t.Errorf("sum of numbers %d", sum)
	}
	empty(t, second)
}

// TestNoLeaks opens, uses and closes queues and counts goroutines.
func TestNoLeaks(t *testing.T) {
	round := func() {
		q, err := Open(t.Context(), testConfig(func(c *Config) { c.Dir = t.TempDir() }))
		if err != nil {
			t.Fatal(err)
		}
		stopRun := running(t, q, 4, func(context.Context, Hint) error { return nil })
		put(t, q, review("a/a", 1, ""))
		empty(t, q)
		stopRun()
		closeQueue(t, q)
	}
	round() // what libraries start once
	time.Sleep(100 * time.Millisecond)
	before, _ := stacks()
	for range 3 {
		round()
	}
	var after int
	var running string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if after, running = stacks(); after <= before {
			return
		}
	}
	t.Errorf("%d goroutines before three rounds, %d after:\n%s", before, after, running)
}

// stacks returns how many goroutines run, and their stacks.
func stacks() (int, string) {
	buf := make([]byte, 1<<20)
	text := string(buf[:runtime.Stack(buf, true)])
	return strings.Count(text, "\n\n") + 1, text
}
