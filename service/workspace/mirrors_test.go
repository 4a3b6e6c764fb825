package workspace

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
		return NewMirrors(dir, 250)
	}
	m, start := fresh(), time.Unix(1_700_000_000, 0)
	place := func(name string) hint.Place {
		return hint.NewPlace("f", "acme/"+name)
	}
	use := func(name string, minute int, bytes int) func() {
		folder, release, err := m.acquire(place(name), start.Add(time.Duration(minute)*time.Minute))
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
