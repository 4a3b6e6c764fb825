package gitstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestWhatIsWrittenPassesFsck(t *testing.T) {
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--bare")
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 200 {
				if _, err := w.Blob(fmt.Appendf(nil, "blob %d\n%s", i, strings.Repeat("x", i*20))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if w.Len() != 200 {
		t.Errorf("%d objects", w.Len())
	}
	first := commitOf(t, w, "one")
	if c, err := s.Commit(t.Context(), first); err != nil || c.Message != "m\n" { // readable before it is pushed
		t.Errorf("%+v %v", c, err)
	}
	results, err := s.Local().Push(t.Context(), w, []Move{{"env/dev", Hash{}, first}, {"cluster/a", Hash{}, first}}, PushOptions{})
	if err != nil || len(results) != 2 || results[0].State != Updated {
		t.Fatalf("%+v %v", results, err)
	}
	runGit(t, dir, "fsck", "--strict", "--full")
	if got := runGit(t, dir, "rev-parse", "env/dev"); got != first.String() {
		t.Errorf("env/dev is at %s", got)
	}
	if got := runGit(t, dir, "cat-file", "-p", "env/dev:f"); got != "one" {
		t.Errorf("got %q", got)
	}
}

func TestTreeNamesAreRefused(t *testing.T) {
	w := writer(t, OpenMemory())
	for _, name := range []string{"", ".", "..", "a/b", ".git", ".GIT", ".git ", ".git.", "git~1", ".g\u200cit", "a\x00b", ".git::$INDEX_ALLOCATION", `a\b`} {
		if _, err := w.Tree([]Entry{{name, ModeFile, Hash{1}}}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if _, err := w.Tree([]Entry{{"a", ModeFile, Hash{1}}, {"a", ModeTree, Hash{2}}}); err == nil {
		t.Error("a name was taken twice")
	}
}
