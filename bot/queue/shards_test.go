package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rendering runs RunShards until the test ends or stop is called.
func rendering(t *testing.T, q *Queue, render func(context.Context, []byte) ([]byte, error)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.RunShards(ctx, context.Context.Err, render) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("RunShards: %v", err)
			}
		case <-time.After(patience):
			t.Error("RunShards did not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

func upper(_ context.Context, job []byte) ([]byte, error) { return bytes.ToUpper(job), nil }

func testFan(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var rendered atomic.Int64
	waits := make(chan struct{}) // closed when Fan has put all jobs
	for _, r := range []*Queue{q, o.twin(t, q, "two")} {
		rendering(t, r, func(ctx context.Context, job []byte) ([]byte, error) {
			rendered.Add(1)
			select {
			case <-waits:
			case <-ctx.Done():
			}
			return upper(ctx, job)
		})
	}
	big := bytes.Repeat([]byte("manifest\n"), 300_000) // 2.7 MB: more than one message
	jobs := [][]byte{[]byte("a"), big, []byte("b"), []byte("a"), []byte("c")}
	for range 2 { // the second time, all results are stored
		idle, put := false, sync.OnceFunc(func() { close(waits) })
		results, err := q.Fan(ctx, jobs, func(yes bool) {
			if idle = yes; yes {
				put()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if idle {
			t.Error("Fan has results while only others have something to do")
		}
		for i, job := range jobs {
			if !bytes.Equal(results[i], bytes.ToUpper(job)) {
				t.Errorf("result %d has %d bytes", i, len(results[i]))
			}
		}
	}
	if n := rendered.Load(); n != 4 {
		t.Errorf("%d renderings of 4 jobs", n)
	}
	eventually(t, "no shard is left", func() bool { return stats(t, q).Shards == 0 })
	if s := stats(t, q); s.Bytes != 0 || s.ShardBytes == 0 { // an alert looks at the bytes of hints alone
		t.Errorf("without hints: %+v", s)
	}
	if _, err := q.Fan(ctx, [][]byte{nil}, func(bool) {}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an empty job: %v", err)
	}
}

func testFanLostWorker(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, brief)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type answer struct {
		results [][]byte
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		results, err := q.Fan(ctx, [][]byte{[]byte("x")}, func(bool) {})
		answers <- answer{results, err}
	}()
	eventually(t, "a lost worker takes the shard", func() bool {
		_, err := q.workers.Next()
		return err == nil
	})
	rendering(t, q, upper)
	a := receive(t, "the result", answers)
	if a.err != nil || string(a.results[0]) != "X" {
		t.Errorf("%q, %v", a.results, a.err)
	}
}

// Nobody renders what nobody waits for: a call that ends takes back the jobs that no replica has begun.
func testFanGivenUp(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	giveUp := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := q.Fan(ctx, [][]byte{[]byte("x"), []byte("y")}, func(bool) {})
			done <- err
		}()
		eventually(t, "two shards wait", func() bool { return stats(t, q).Shards == 2 })
		cancel()
		if err := receive(t, "the end of the call", done); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	eventually(t, "a call takes its shards back", func() bool { // it tries for two seconds, in which a busy server may not answer
		giveUp()
		return stats(t, q).Shards == 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rendering(t, q, upper)
	if results, err := q.Fan(ctx, [][]byte{[]byte("x")}, func(bool) {}); err != nil || string(results[0]) != "X" {
		t.Errorf("the same job again: %q, %v", results, err)
	}
}

// A replica takes no shard before it is ready.
func testShardsWaitUntilReady(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var ready atomic.Bool
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	asked := make(chan struct{}, 1)
	all.Go(func() {
		err := q.RunShards(running, func(ctx context.Context) error {
			select {
			case asked <- struct{}{}:
			default:
			}
			for !ready.Load() && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return ctx.Err()
		}, func(_ context.Context, job []byte) ([]byte, error) {
			if !ready.Load() {
				t.Error("a shard was taken too early")
			}
			return upper(ctx, job)
		})
		if err != nil {
			t.Error(err)
		}
	})
	receive(t, "the first question", asked)
	all.Go(func() {
		eventually(t, "the shard waits", func() bool { return stats(t, q).Shards == 1 })
		ready.Store(true)
	})
	if results, err := q.Fan(ctx, [][]byte{[]byte("x")}, func(bool) {}); err != nil || string(results[0]) != "X" {
		t.Errorf("%q, %v", results, err)
	}
}

func testFanFailing(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var tries atomic.Int64
	var healthy atomic.Bool
	rendering(t, q, func(_ context.Context, job []byte) ([]byte, error) {
		if string(job) == "good" || healthy.Load() {
			return job, nil
		}
		if tries.Add(1) == 2 {
			panic("out of luck")
		}
		return nil, fmt.Errorf("no such chart")
	})
	_, err := q.Fan(ctx, [][]byte{[]byte("good"), []byte("bad")}, func(bool) {})
	shard, ok := errors.AsType[*ShardError](err)
	if !ok || shard.Index != 1 || shard.Text != "no such chart" || tries.Load() != shardTries {
		t.Errorf("%v after %d tries", err, tries.Load())
	}
	healthy.Store(true)
	if results, err := q.Fan(ctx, [][]byte{[]byte("bad")}, func(bool) {}); err != nil || string(results[0]) != "bad" {
		t.Errorf("a new call after a failure: %q, %v", results, err)
	}
}
