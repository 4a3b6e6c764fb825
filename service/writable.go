package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// writable finds out whether the data folder can be written. It is safe for concurrent use: calls
// share one check, so that a file system that hangs holds one goroutine, however often a probe asks.
type writable struct {
	dir   string
	clock func() time.Time

	mu   sync.Mutex
	last *writeCheck
}

type writeCheck struct {
	at   time.Time
	done chan struct{}
	err  error // after done
}

// writableFor is how long a result is good.
const writableFor = time.Second

// check returns an error if a folder cannot be written, or does not answer until the context ends.
func (w *writable) check(ctx context.Context) error {
	w.mu.Lock()
	one := w.last
	if one == nil || one.ended() && w.clock().Sub(one.at) >= writableFor {
		one = &writeCheck{at: w.clock(), done: make(chan struct{})}
		w.last = one
		go func() {
			defer close(one.done)
			one.err = w.write()
		}()
	}
	w.mu.Unlock()
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return fmt.Errorf("%s: a write takes too long: %w", w.dir, ctx.Err())
	}
}

func (c *writeCheck) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// write writes a file in the data folder and in that of the queue, which can be another file system, and removes it.
func (w *writable) write() error {
	for _, sub := range []string{"", "queue"} {
		dir := filepath.Join(w.dir, sub)
		if _, err := os.Stat(dir); sub != "" && errors.Is(err, fs.ErrNotExist) { // not in use
			continue
		}
		if err := writeIn(dir); err != nil {
			return err
		}
	}
	return nil
}

// writeIn writes a block to the disk, so that a full or failing one is noticed.
func writeIn(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return err
	}
	const block = 4096
	_, err = f.Write(make([]byte, block))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
