package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A data folder that is gone, or a folder in it that is none, is noticed within two seconds, and so is its return.
func TestDataFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	w := &writable{dir: dir, clock: time.Now}
	until := func(what string, good func(error) bool) {
		t.Helper()
		start := time.Now()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := w.check(ctx)
			cancel()
			if good(err) {
				return
			}
			if time.Since(start) > 2*time.Second {
				t.Fatalf("%s: after 2 seconds, the check says %v", what, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "queue"), 0o700); err != nil {
		t.Fatal(err)
	}
	until("a new folder", func(err error) bool { return err == nil })
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".ready-*")); len(left) > 0 || err != nil {
		t.Errorf("the check left %q (%v)", left, err)
	}
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	until("a folder that is gone", func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	until("a folder that is back", func(err error) bool { return err == nil })
	if err := errors.Join(os.Remove(filepath.Join(dir, "queue")),
		os.WriteFile(filepath.Join(dir, "queue"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	until("a folder of the queue that is none", func(err error) bool { return err != nil })
}

// A file system that hangs is not ready, and holds one check only.
func TestDataFolderThatHangs(t *testing.T) {
	t.Parallel()
	hanging := &writeCheck{done: make(chan struct{})}
	w := &writable{dir: t.TempDir(), clock: time.Now, last: hanging}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := w.check(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a check of a folder that hangs: got %v, want a deadline", err)
		}
		cancel()
	}
	if w.last != hanging {
		t.Error("another check began while one hangs")
	}
}
