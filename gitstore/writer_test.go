package gitstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestWrittenObjectsPassFsck(t *testing.T) {
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
	if c, err := s.Commit(t.Context(), first); err != nil || c.Message != "m\n" { // it is readable before the push
		t.Errorf("the result of Commit is %+v, the error is %v", c, err)
	}
	results, err := s.Local().Push(t.Context(), w, []Move{{"env/dev", Hash{}, first}, {"cluster/a", Hash{}, first}},
		PushOptions{})
	if err != nil || len(results) != 2 || results[0].State != Updated {
		t.Fatalf("the results are %+v, the error is %v", results, err)
	}
	runGit(t, dir, "fsck", "--strict", "--full")
	if got := runGit(t, dir, "rev-parse", "env/dev"); got != first.String() {
		t.Errorf("env/dev is at %s", got)
	}
	if got := runGit(t, dir, "cat-file", "-p", "env/dev:f"); got != "one" {
		t.Errorf("the result of runGit is %q", got)
	}
}

func TestTreeNamesAreRefused(t *testing.T) {
	w := writer(t, OpenMemory())
	for _, name := range []string{
		"", ".", "..", "a/b", ".git", ".GIT", ".git ", ".git.", "git~1", ".g\u200cit",
		"a\x00b", ".git::$INDEX_ALLOCATION", `a\b`,
	} {
		if _, err := w.Tree([]Entry{{name, ModeFile, Hash{1}}}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if _, err := w.Tree([]Entry{{"a", ModeFile, Hash{1}}, {"a", ModeTree, Hash{2}}}); err == nil {
		t.Error("a name was taken twice")
	}
}

func TestManyObjectsNeedLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	s := open(t, Options{Dir: source(t)})
	w := writer(t, s)
	const count, size = 30_000, 2_000
	before := liveHeap()
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, size)
	for range count {
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if _, err := w.Blob(data); err != nil {
			t.Fatal(err)
		}
	}
	// Memory per object: its name and its position.
	const each = 250
	if grown := int64(liveHeap()) - int64(before); grown > count*each {
		t.Errorf("%d objects of %d bytes hold %d bytes of memory", count, size, grown)
	}
	if w.Len() != count {
		t.Errorf("%d objects", w.Len())
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestPushedWriterRefusesObjects(t *testing.T) {
	bare := t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	one := commitOf(t, w, "one")
	push(t, s.Local(), w, Move{"a", Hash{}, one})
	push(t, s.Local(), w, Move{"b", Hash{}, one})
	if h, err := w.Blob([]byte("one")); err != nil || h.IsZero() {
		t.Errorf("an object that it holds: %v", err)
	}
	if _, err := w.Blob([]byte("two")); err == nil {
		t.Error("it took another")
	}
	if _, err := w.Commit(CommitSpec{}); err == nil {
		t.Error("it took a commit without a tree")
	}
	for _, e := range []Entry{{"a", ModeFile, Hash{}}, {"a", 0o100600, one}, {"a", 0, one}} {
		if _, err := w.Tree([]Entry{e}); err == nil {
			t.Errorf("it took %+v", e)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if leftover, err := filepath.Glob(filepath.Join(bare, "objects", "pack", "tmp_*")); err != nil ||
		len(leftover) != 0 {
		t.Errorf("the leftover is %v, the error is %v", leftover, err)
	}
	runGit(t, bare, "fsck", "--strict")
}

// A Writer stays open for as long as a promotion takes. It keeps no memory for compressing meanwhile, whatever it has
// compressed.
func TestIdleWriterKeepsNoCompressors(t *testing.T) {
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--bare")
	w := writer(t, open(t, Options{Dir: dir}))
	if _, err := w.Blob([]byte("first")); err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		for range 3 { // a pool is empty after two
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const size = 24 << 20
	random := func() []byte { // nothing refers to it after the call
		data := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it never fails
		return data
	}
	if _, err := w.Blob(random()); err != nil {
		t.Fatal(err)
	}
	if after := heap(); after > before+size/4 {
		t.Errorf("%d bytes more than before", after-before)
	}
	runtime.KeepAlive(w)
}

// Who lists the Writers before one of them is closed may ask it afterwards. An object that was only in its buffer is
// one that it does not have.
func TestClosedWriterIsAsked(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Store{"memory": supplied(), "disk": open(t, Options{Dir: source(t)})} {
		w, err := s.NewWriter()
		if err != nil {
			t.Fatal(err)
		}
		h, err := w.Blob([]byte("new"))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if o, ok, err := w.pack.Read(h); ok || err != nil {
			t.Errorf("%s: the data is %q, ok is %t, the error is %v", name, o.Data, ok, err)
		}
	}
}

// supplied returns a store that keeps no files, and to which nobody supplies objects.
func supplied() *Store {
	return OpenSupplied(func(context.Context, []Hash) ([]Raw, error) { return nil, ErrNotFound })
}
