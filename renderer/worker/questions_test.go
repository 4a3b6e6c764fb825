package worker

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func question(t *testing.T) frame {
	t.Helper()
	payload, err := named("large")
	if err != nil {
		t.Fatal(err)
	}
	return frame{kind: kindAsk, payload: payload}
}

// A child that asks without reading the answers waits, so that the parent holds a bounded number of them.
func TestUnreadAnswersAreBounded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	from, to := io.Pipe() // nobody reads from it
	stopped := errors.New("stopped")
	c := &Call{Answer: func(context.Context, string, []byte) ([]byte, error) { return []byte("answer"), nil }}
	q := newQuestions(ctx, &process{out: &frameWriter{w: to}}, c)
	for range maxUnsent {
		if err := q.take(question(t)); err != nil {
			t.Fatal(err)
		}
		for q.open() > 0 {
			runtime.Gosched()
		}
	}
	cancel(stopped)
	if err := q.enter(q.places); !errors.Is(err, stopped) {
		t.Errorf("a place for one more question: %v", err)
	}
	_ = from.Close() // ends the writing goroutines
	q.all.Wait()
}

// Questions with large answers are answered a few at a time.
func TestLargeAnswersAreFew(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	full := make(chan struct{})
	var once sync.Once
	c := &Call{
		Large: func(name string) bool { return name == "large" },
		Answer: func(context.Context, string, []byte) ([]byte, error) {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if n == maxLarge {
				once.Do(func() { close(full) })
			}
			<-full
			return nil, nil
		},
	}
	q := newQuestions(t.Context(), &process{out: &frameWriter{w: io.Discard}}, c)
	for range 3 * maxLarge {
		if err := q.take(question(t)); err != nil {
			t.Fatal(err)
		}
	}
	q.all.Wait()
	if most.Load() != maxLarge {
		t.Errorf("%d at once", most.Load())
	}
}
