package treefs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/internal/treefs"
)

func tree() fstest.MapFS {
	return fstest.MapFS{
		"a/kustomization.yaml": {Data: []byte("old"), Sys: "id"},
		"a/b.yaml":             {Data: []byte("b"), Sys: "id"},
	}
}

func read(t *testing.T, from treefs.Tree, name string) string {
	t.Helper()
	data, err := from.ReadFile(name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(data)
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	o := treefs.NewOverlay(tree(), map[string][]byte{
		"a/kustomization.yaml": []byte("edited"),
		"a/new.yaml":           []byte("new"),
	})
	for name, want := range map[string]string{"a/kustomization.yaml": "edited", "a/new.yaml": "new", "a/b.yaml": "b"} {
		if got := read(t, o, name); got != want {
			t.Errorf("content of %s: got %q, want %q", name, got, want)
		}
		at, err := o.Stat(name)
		if err != nil || at.Size() != int64(len(want)) || at.IsDir() || !at.Mode().IsRegular() {
			t.Errorf("stat of %s: got %v, %v, want a file of %d bytes", name, at, err, len(want))
		}
		if known := err == nil && at.Sys() != nil; known != (name == "a/b.yaml") {
			t.Errorf("stat of %s has the id of a content: %t", name, known)
		}
	}
	data, err := o.ReadFile("a/new.yaml")
	if err != nil {
		t.Fatalf("read a/new.yaml: %v", err)
	}
	data[0] = 'x'
	if got := read(t, o, "a/new.yaml"); got != "new" {
		t.Errorf("content after a reader changed its copy: got %q, want %q", got, "new")
	}
	if got, err := o.Written("a/kustomization.yaml"); string(got) != "old" || err != nil {
		t.Errorf("written content: got %q, %v, want %q", got, err, "old")
	}
	if _, err := o.Written("a/new.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("written content of an added file: got %v, want an error that wraps fs.ErrNotExist", err)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	var names []string
	e := treefs.Edit{Tree: tree(), Change: func(name string, data []byte) []byte {
		names = append(names, name)
		return bytes.ToUpper(data)
	}}
	if got := read(t, e, "a/b.yaml"); got != "B" {
		t.Errorf("edited content: got %q, want %q", got, "B")
	}
	if _, err := e.ReadFile("a/none.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want an error that wraps fs.ErrNotExist", err)
	}
	if want := []string{"a/b.yaml"}; !slices.Equal(names, want) {
		t.Errorf("edited files: got %q, want %q", names, want)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	var asked []string
	lost := errors.New("the connection is lost")
	r := treefs.Record{FS: tree(), Asked: func(name string, err error) error {
		asked = append(asked, name)
		if err != nil {
			return lost
		}
		return nil
	}}
	if got := read(t, r, "a/b.yaml"); got != "b" {
		t.Errorf("content: got %q, want %q", got, "b")
	}
	if _, err := r.Stat("none"); !errors.Is(err, lost) {
		t.Errorf("stat of a missing file: got %v, want %v", err, lost)
	}
	if entries, err := r.ReadDir("a"); len(entries) != 2 || err != nil {
		t.Errorf("entries of a: got %v, %v, want 2", entries, err)
	}
	if f, err := r.Open("a/b.yaml"); err != nil || f.Close() != nil {
		t.Errorf("open: %v", err)
	}
	if want := []string{"a/b.yaml", "none", "a", "a/b.yaml"}; !slices.Equal(asked, want) {
		t.Errorf("asked: got %q, want %q", asked, want)
	}
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	if d := treefs.Dir("a/b"); !d.IsDir() || d.Name() != "b" {
		t.Errorf("directory a/b: got %q, directory: %t", d.Name(), d.IsDir())
	}
	if err := treefs.Missing("read", "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want an error that wraps fs.ErrNotExist", err)
	}
}

func TestGraft(t *testing.T) {
	t.Parallel()
	g := treefs.Graft{
		Tree: fstest.MapFS{"a/b.yaml": {Data: []byte("own")}, "other/hidden.yaml": {Data: []byte("own")}},
		Dir:  "other",
		From: fstest.MapFS{"a/b.yaml": {Data: []byte("from")}, "other/x/b.yaml": {Data: []byte("from")}},
	}
	for name, want := range map[string]string{"a/b.yaml": "own", "other/x/b.yaml": "from"} {
		if got := read(t, g, name); got != want {
			t.Errorf("content of %s: got %q, want %q", name, got, want)
		}
	}
	if at, err := g.Stat("other"); err != nil || !at.IsDir() {
		t.Errorf("stat of the grafted folder: got %v, %v, want a folder", at, err)
	}
	if _, err := g.ReadFile("other/hidden.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that the grafted folder hides: got %v, want an error that wraps fs.ErrNotExist", err)
	}
}
