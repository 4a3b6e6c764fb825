package mirrors

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Clones in use are kept, and those of an earlier process count.
func TestMirrorsEvictLeastRecentlyUsed(t *testing.T) {
	dir := t.TempDir()
	fresh := func() *Mirrors {
		return New(dir, 250)
	}
	m, start := fresh(), time.Unix(1_700_000_000, 0)
	place := func(name string) hint.Place {
		return hint.NewPlace("f", "acme/"+name)
	}
	use := func(name string, minute int, bytes int) func() {
		folder, release, err := m.Acquire(place(name), start.Add(time.Duration(minute)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "pack"), make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
		return release
	}
	exist := func(want map[string]bool) {
		t.Helper()
		for name, is := range want {
			if _, err := os.Stat(m.folder(place(name))); (err == nil) != is {
				t.Errorf("%s: %v, expected to exist: %t", name, err, is)
			}
		}
	}
	use("a", 1, 100)()
	use("b", 2, 100)()
	exist(map[string]bool{"a": true, "b": true})
	use("c", 3, 100)()
	exist(map[string]bool{"a": false, "b": true, "c": true})
	end := use("b", 4, 100) // used again, and in use
	use("d", 5, 200)()
	exist(map[string]bool{"b": true, "c": false, "d": true})
	end()
	m = fresh()
	use("e", 6, 300)() // too large, and alone
	exist(map[string]bool{"b": false, "d": false, "e": true})
}

// While a large clone is deleted, because it is evicted or damaged, clones of other repositories are used: a command
// does not wait for it.
func TestMirrorsDeleteBeside(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	large, other := hint.NewPlace("f", "acme/large"), hint.NewPlace("f", "acme/other")
	for name, damaged := range map[string]bool{"evicted": false, "damaged": true} {
		t.Run(name, func(t *testing.T) {
			m := New(t.TempDir(), 250)
			folder, release, err := m.Acquire(large, start)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "pack"), make([]byte, 300), 0o600); err != nil {
				t.Fatal(err)
			}
			release()
			deleting, let := make(chan string, 1), make(chan struct{})
			m.remove = func(folder string) error {
				deleting <- folder
				<-let
				return os.RemoveAll(folder)
			}
			done := make(chan struct{})
			use := large
			if damaged {
				m.Discard(large)
			} else {
				use = hint.NewPlace("f", "acme/next")
			}
			go func() {
				defer close(done)
				if _, release, err := m.Acquire(use, start.Add(time.Minute)); err != nil {
					t.Error(err)
				} else {
					release()
				}
			}()
			gone := <-deleting
			for range 2 { // it would wait for ever
				if _, release, err := m.Acquire(other, start.Add(2*time.Minute)); err != nil {
					t.Error(err)
				} else {
					release()
				}
			}
			close(let)
			<-done
			if _, err := os.Stat(gone); err == nil {
				t.Errorf("%s is still there", gone)
			}
		})
	}
}

// A new process deletes what a killed one left to be deleted.
func TestMirrorsTrash(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, trash, "left")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	m := New(dir, 250)
	_, release, err := m.Acquire(hint.NewPlace("f", "acme/a"), time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := os.Stat(left); err == nil {
		t.Error("it is still there")
	}
}
