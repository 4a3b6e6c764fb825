package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"
)

// bombOf writes a tree of levels of width equal entries, and returns it below the folder "deep".
func bombOf(t *testing.T, w *Writer, levels, width int) Hash {
	t.Helper()
	blob, err := w.Blob([]byte("a: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	at, mode := blob, ModeFile
	for range levels {
		var entries []Entry
		for i := range width {
			entries = append(entries, Entry{Name: fmt.Sprintf("%03d", i), Mode: mode, Hash: at})
		}
		if at, err = w.Tree(entries); err != nil {
			t.Fatal(err)
		}
		mode = ModeTree
	}
	root, err := w.Tree([]Entry{{Name: "a.yaml", Mode: ModeFile, Hash: blob}, {Name: "deep", Mode: ModeTree, Hash: at}})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// A walk over a tree with more paths than anybody can list ends soon, and names the folder and the limit.
func TestVastTrees(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: source(t)})
	w := writer(t, s)
	for name, c := range map[string]struct {
		levels, width int
		want          string
	}{
		"wide": {10, 40, "deep has more than 2000000 files and folders"},
		"deep": {2000, 1, "deep has more than 500 levels of folders"},
		"both": {300, 2, "deep has more than 2000000 files and folders"},
	} {
		root := bombOf(t, w, c.levels, c.width)
		start := time.Now()
		check := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrTooManyPaths) || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: the error is %v, want %q", name, what, err, c.want)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("%s: %s took %s", name, what, d)
			}
		}
		snap := s.Snapshot(t.Context(), root)
		check("walk", fs.WalkDir(snap, ".", func(_ string, _ fs.DirEntry, err error) error { return err }))
		if c.width > 1 {
			check("a look before", s.Snapshot(t.Context(), root).Bounded("."))
		}
		if _, err := snap.ReadFile("a.yaml"); err != nil {
			t.Errorf("%s: a file beside it: %v", name, err)
		}
		if c.width > 1 {
			_, err := s.Changes(t.Context(), Hash{}, root)
			check("changes", err)
		}
	}
}

// What many list repeatedly is no reason to refuse a tree.
func TestListingsOfAnOrdinaryTree(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: source(t)})
	snap := s.Snapshot(t.Context(), bombOf(t, writer(t, s), 2, 40))
	for range 3 * fewPaths / 40 {
		if _, err := snap.ReadDir("deep/001"); err != nil {
			t.Fatalf("a listing after %d entries: %v", snap.listed.Load(), err)
		}
	}
}

// A walk ends when its context does, also over trees that are in memory.
func TestWalksEndWithTheirContext(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: source(t)})
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err := fs.WalkDir(s.Snapshot(ctx, bombOf(t, writer(t, s), 10, 40)), ".", func(_ string, _ fs.DirEntry, err error) error {
		if seen++; seen == 1000 {
			cancel()
		}
		return err
	})
	if !errors.Is(err, context.Canceled) || seen > 1100 {
		t.Errorf("after %d entries, the walk says %v, want %v", seen, err, context.Canceled)
	}
}
