package gitstore

import (
	"errors"
	"fmt"
	"testing"
)

func TestFewChanges(t *testing.T) {
	t.Parallel()
	s := OpenMemory()
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	tree := func(version int) Hash {
		var entries []Entry
		for i := range 5 {
			blob, err := w.Blob(fmt.Appendf(nil, "file %d, version %d\n", i, version))
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, Entry{Name: fmt.Sprint(i), Mode: ModeFile, Hash: blob})
		}
		h, err := w.Tree(entries)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, b := tree(1), tree(2)
	if few, err := FewChanges(t.Context(), s, a, b, 5); err != nil || len(few) != 5 {
		t.Errorf("%d changes: %v", len(few), err)
	}
	if few, err := FewChanges(t.Context(), s, a, b, 4); !errors.Is(err, ErrTooMany) || few != nil {
		t.Errorf("%d changes: %v", len(few), err)
	}
	if few, err := FewChanges(t.Context(), s, a, a, 0); err != nil || few != nil {
		t.Errorf("the few is %v, the error is %v", few, err)
	}
	empty, err := w.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := empty
	for range 30 { // 10^30 folders, and not one file
		var entries []Entry
		for i := range 10 {
			entries = append(entries, Entry{Name: fmt.Sprint(i), Mode: ModeTree, Hash: bomb})
		}
		if bomb, err = w.Tree(entries); err != nil {
			t.Fatal(err)
		}
	}
	if few, err := FewChanges(t.Context(), s, a, bomb, 500); !errors.Is(err, ErrTooMany) || few != nil {
		t.Errorf("%d changes: %v", len(few), err)
	}
}
