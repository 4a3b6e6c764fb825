package pack

import (
	"bytes"
	"testing"
)

// A Writer reads its trees from memory, and those above the limit from its packfile.
func TestWriterHoldsTrees(t *testing.T) {
	t.Parallel()
	w := memoryWriter(t)
	add := func(name string) Hash {
		t.Helper()
		h, err := w.Add("tree", tree(name))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := add("a")
	w.held = heldTrees
	second := add("b")
	if w.trees[first] == nil || w.trees[second] != nil {
		t.Error("the wrong trees are held")
	}
	for name, h := range map[string]Hash{"a": first, "b": second} {
		if o, ok, err := w.Read(h); !ok || err != nil || o.Kind != "tree" || !bytes.Equal(o.Data, tree(name)) {
			t.Errorf("%s: got %q of kind %q (%t, %v)", name, o.Data, o.Kind, ok, err)
		}
	}
}

// A task that ends late may still have a Writer that was closed. It holds no trees, not even the empty one.
func TestClosedWriterHoldsNothing(t *testing.T) {
	t.Parallel()
	w := memoryWriter(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add("tree", nil); err != nil || len(w.trees) > 0 {
		t.Errorf("%d trees are held after Close (%v), want none", len(w.trees), err)
	}
}

func memoryWriter(t *testing.T) *Writer {
	t.Helper()
	w, err := NewMemoryWriter()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tree is the text of a tree with one file.
func tree(name string) []byte {
	return append([]byte("100644 "+name+"\x00"), make([]byte, hashSize)...)
}
