package gitstore

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// raw is an object of a forged packfile. size is what its header says.
type raw struct {
	kind byte
	size int
	data []byte
}

func plain(kind string, data string) raw { return raw{kindByte(kind), len(data), []byte(data)} }

// forged returns a packfile with these objects.
func forged(objects ...raw) []byte {
	var out bytes.Buffer
	out.WriteString("PACK\x00\x00\x00\x02")
	out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(objects))))
	for _, o := range objects {
		writeObjectHeader(&out, o.kind, o.size)
		z := zlib.NewWriter(&out)
		_, _ = z.Write(o.data)
		_ = z.Close()
	}
	return sealed(out.Bytes())
}

func sealed(pack []byte) []byte {
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

// A packfile of another machine becomes part of a Writer's own, and Git accepts the result.
func TestAddPack(t *testing.T) {
	other := writer(t, OpenEmpty())
	var entries []Entry
	for _, text := range []string{"", "one", strings.Repeat("a long text ", 10_000)} {
		h, err := other.Blob([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{"f" + string(rune('a'+len(entries))), ModeFile, h})
	}
	tree, err := other.Tree(entries)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := other.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	pack, err := other.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Blob([]byte("late")); !errors.Is(err, errComplete) {
		t.Errorf("an addition to a complete Writer: %v", err)
	}
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--bare")
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	if _, err := w.Blob([]byte("one")); err != nil { // it has one of them already
		t.Fatal(err)
	}
	for range 2 {
		trees, err := w.AddPack(pack)
		if err != nil || len(trees) != 2 || trees[tree] != 3 || trees[empty] != 0 || w.Len() != 5 {
			t.Fatalf("%v %v, %d objects", trees, err, w.Len())
		}
	}
	if got, err := s.Blob(t.Context(), entries[2].Hash); err != nil || len(got) != 120_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	commit, err := w.Commit(CommitSpec{Tree: tree, Message: "m\n"})
	if err != nil {
		t.Fatal(err)
	}
	if results, err := s.Local().Push(t.Context(), w, []Move{{"main", Hash{}, commit}}, PushOptions{}); err != nil || results[0].State != Updated {
		t.Fatalf("%+v %v", results, err)
	}
	runGit(t, dir, "fsck", "--strict", "--full")
	if got := runGit(t, dir, "cat-file", "-p", "main:fb"); got != "one" {
		t.Errorf("got %q", got)
	}
}

// A forged packfile adds nothing.
func TestAddPackRefuses(t *testing.T) {
	blob := plain("blob", "x")
	hash := hashObject("blob", []byte("x"))
	entry := func(mode, name string, h Hash) string { return mode + " " + name + "\x00" + string(h[:]) }
	good := forged(blob, plain("tree", entry("100644", "f", hash)))
	broken := func(at int) []byte {
		out := bytes.Clone(good)
		out[at] ^= 1
		return out
	}
	for name, pack := range map[string][]byte{
		"nothing":           nil,
		"no packfile":       []byte(strings.Repeat("x", 100)),
		"a wrong checksum":  broken(len(good) - 1),
		"a wrong number":    sealed(broken(11)[:len(good)-sha1.Size]),
		"a broken object":   sealed(broken(packHeader + 4)[:len(good)-sha1.Size]),
		"a truncated one":   sealed(bytes.Clone(good[:len(good)-sha1.Size-4])),
		"more bytes":        sealed(append(bytes.Clone(good[:len(good)-sha1.Size]), "more"...)),
		"no end of a size":  sealed(append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), bytes.Repeat([]byte{0xff}, 20)...)),
		"a commit":          forged(plain("commit", "tree "+hash.String()+"\n\nm")),
		"a delta":           forged(raw{6, 1, []byte("x")}),
		"a longer object":   forged(raw{3, 1, []byte("xyz")}),
		"a shorter object":  forged(raw{3, 5, []byte("xyz")}),
		"a large object":    forged(raw{3, maxObject + 1, []byte("xyz")}),
		"a huge object":     forged(raw{3, 1<<31 - 1, []byte("xyz")}),
		"a link":            forged(blob, plain("tree", entry("120000", "f", hash))),
		"a program":         forged(blob, plain("tree", entry("100755", "f", hash))),
		"a folder":          forged(blob, plain("tree", ""), plain("tree", entry("40000", "f", hashObject("tree", nil)))),
		"an old mode":       forged(blob, plain("tree", entry("100664", "f", hash))),
		"a Git folder":      forged(blob, plain("tree", entry("100644", ".git", hash))),
		"a path":            forged(blob, plain("tree", entry("100644", "../f", hash))),
		"a missing file":    forged(blob, plain("tree", entry("100644", "f", Hash{1}))),
		"a file as a tree":  forged(blob, plain("tree", "no tree")),
		"names in disorder": forged(blob, plain("tree", entry("100644", "b", hash)+entry("100644", "a", hash))),
		"a name twice":      forged(blob, plain("tree", entry("100644", "a", hash)+entry("100644", "a", hash))),
	} {
		w := writer(t, OpenMemory())
		if trees, err := w.AddPack(pack); err == nil || w.Len() != 0 {
			t.Errorf("%s: %v, %d objects", name, trees, w.Len())
		}
	}
	if trees, err := writer(t, OpenMemory()).AddPack(good); err != nil || len(trees) != 1 {
		t.Errorf("%v %v", trees, err)
	}
}

// Few bytes cannot make AddPack inflate without end.
func TestAddPackIsBounded(t *testing.T) {
	one := forged(raw{3, maxObject, make([]byte, maxObject)})
	pack := bytes.Clone(one[:packHeader])
	for range maxExchange/maxObject + 1 {
		pack = append(pack, one[packHeader:len(one)-sha1.Size]...)
	}
	if _, err := writer(t, OpenMemory()).AddPack(sealed(pack)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

// A Writer reads its trees from memory, and those above the limit from its packfile.
func TestWriterHoldsTrees(t *testing.T) {
	s := OpenEmpty()
	w := writer(t, s)
	blob, err := w.Blob([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := w.Tree([]Entry{{"a", ModeFile, blob}})
	if err != nil {
		t.Fatal(err)
	}
	w.held = heldTrees
	second, err := w.Tree([]Entry{{"b", ModeFile, blob}})
	if err != nil {
		t.Fatal(err)
	}
	if w.trees[first] == nil || w.trees[second] != nil {
		t.Error("the wrong trees are held")
	}
	for name, h := range map[string]Hash{"a": first, "b": second} {
		if got, err := s.Tree(t.Context(), h); err != nil || len(got) != 1 || got[0].Name != name {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A packfile of another machine gives an error or objects whose trees have all their files, never a panic.
func FuzzAddPack(f *testing.F) {
	hash := hashObject("blob", []byte("x"))
	good := forged(plain("blob", "x"), plain("tree", "100644 f\x00"+string(hash[:])))
	f.Add(good[:len(good)-sha1.Size])
	f.Add(good[:packHeader])
	f.Fuzz(func(t *testing.T, body []byte) {
		s := OpenEmpty()
		w, err := s.NewWriter()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		trees, err := w.AddPack(sealed(body))
		if err != nil {
			if w.Len() > 0 {
				t.Fatalf("%d objects after %v", w.Len(), err)
			}
			return
		}
		for h := range trees {
			entries, err := s.Tree(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if _, err := s.Blob(t.Context(), e.Hash); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A task that ends late may still have a Writer that was closed. It holds no trees, not even the empty one.
func TestClosedWriterHoldsNothing(t *testing.T) {
	w, err := OpenEmpty().NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tree(nil); err != nil || len(w.trees) > 0 {
		t.Errorf("%d trees, %v", len(w.trees), err)
	}
}

// Who lists the Writers before one of them is closed may ask it afterwards. An object that was only in its buffer is one that it does not have.
func TestClosedWriterIsAsked(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Store{"memory": OpenEmpty(), "disk": open(t, Options{Dir: source(t)})} {
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
		if o, ok, err := w.read(h); ok || err != nil {
			t.Errorf("%s: %q, %t, %v", name, o.data, ok, err)
		}
	}
}
