package gitstore

import (
	"cmp"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestSnapshotIsAFileSystem(t *testing.T) {
	s := open(t, Options{Dir: source(t)})
	c, err := s.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if c.Author.Name != "A" || c.Author.When.Format(time.RFC3339) != "2024-01-02T03:04:05+01:00" ||
		c.Message != "first\n" {
		t.Errorf("the result of Resolve is %+v", c)
	}
	snap := s.Snapshot(t.Context(), c.Tree)
	if err := fstest.TestFS(fileOnly{snap}, "a.txt", "dir/b.txt", "dir/sub/c.sh"); err != nil {
		t.Error(err)
	}
	i, err := snap.Stat("link")
	if err != nil || i.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("link: %v %v", i, err)
	}
	if _, err := snap.ReadFile("link"); err == nil {
		t.Error("a link was read")
	}
	for _, bad := range []string{"../a", "/a", "a/../b", "a.txt/x", "nope"} {
		if _, err := snap.Stat(bad); err == nil {
			t.Errorf("%s was found", bad)
		}
	}
}

// fileOnly hides the symbolic link from fstest, which would follow it.
type fileOnly struct{ *Snapshot }

func (f fileOnly) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := f.Snapshot.ReadDir(name)
	var out []fs.DirEntry
	for _, e := range entries {
		if e.Type().IsRegular() || e.IsDir() {
			out = append(out, e)
		}
	}
	return out, err
}

func (f fileOnly) Open(name string) (fs.File, error) {
	file, err := f.Snapshot.Open(name)
	if d, ok := file.(interface{ keep(func(fs.DirEntry) bool) }); ok {
		d.keep(func(e fs.DirEntry) bool { return e.Type().IsRegular() || e.IsDir() })
	}
	return file, err
}

func (f *file) keep(want func(fs.DirEntry) bool) {
	var out []fs.DirEntry
	for _, e := range f.entries {
		if want(e) {
			out = append(out, e)
		}
	}
	f.entries = out
}

func TestChangesEqualGitsOwn(t *testing.T) {
	dir := source(t)
	runGit(t, dir, "rm", "-q", "a.txt")
	write(t, dir, "dir/sub/c.sh", "changed")
	if err := os.Remove(filepath.Join(dir, "dir", "b.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "dir/b.txt/now-a-dir", "x")
	write(t, dir, "z", "new")
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-qm", "second")
	s := open(t, Options{Dir: dir})
	a, _ := s.Resolve(t.Context(), "HEAD~1")
	b, _ := s.Resolve(t.Context(), "HEAD")
	changes, err := s.Changes(t.Context(), a.Tree, b.Tree)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, c := range changes {
		got[c.Path] = true
	}
	for line := range strings.SplitSeq(runGit(t, dir, "diff", "--name-only", "--no-renames", "HEAD~1", "HEAD"), "\n") {
		if !got[line] {
			t.Errorf("%s is missing in %v", line, got)
		}
		delete(got, line)
	}
	if len(got) > 0 || len(changes) == 0 {
		t.Errorf("too many: %v", got)
	}
}

// Entries are found as their sort keys order them.
func TestCompareEntries(t *testing.T) {
	t.Parallel()
	var entries []Entry
	for _, name := range []string{"a", "a.b", "a0", "a-", "ab", "b", "a.", "a/", "a//", "", "é"} {
		for _, mode := range []Mode{ModeFile, ModeTree, ModeSymlink} {
			entries = append(entries, Entry{Name: name, Mode: mode})
		}
	}
	for _, x := range entries {
		for _, y := range entries {
			got, want := compareEntries(x, y), strings.Compare(x.sortKey(), y.sortKey())
			if x.sortKey() == y.sortKey() {
				want = cmp.Compare(len(x.Name), len(y.Name)) // a name cannot have a slash
			}
			if got != want {
				t.Errorf("%v and %v: %d, want %d", x, y, got, want)
			}
		}
	}
}

// A path has the entry that a walk from the root finds, whatever path was looked up before.
func TestSnapshotRemembersItsWay(t *testing.T) {
	t.Parallel()
	s := OpenMemory()
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	paths := []string{"."}
	var build func(at string, depth int) Hash
	build = func(at string, depth int) Hash {
		var entries []Entry
		for _, name := range []string{"a", "a.b", "a0", "b", "c"} {
			if r.IntN(4) == 0 {
				paths = append(paths, path.Join(at, name), path.Join(at, name, "a")) // missing
				continue
			}
			paths = append(paths, path.Join(at, name))
			if depth > 0 && r.IntN(2) == 0 {
				entries = append(entries, Entry{Name: name, Mode: ModeTree, Hash: build(path.Join(at, name), depth-1)})
				continue
			}
			blob, err := w.Blob([]byte(path.Join(at, name)))
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, Entry{Name: name, Mode: ModeFile, Hash: blob})
		}
		tree, err := w.Tree(entries)
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	root := build(".", 4)
	one := s.Snapshot(t.Context(), root)
	found := 0
	for range 5000 {
		p := paths[r.IntN(len(paths))]
		got, err := one.Entry(p)
		want, wantErr := s.Snapshot(t.Context(), root).Entry(p)
		if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%s: the result of Entry is %v, the error is %v, want %v, want %v", p, got, err, want, wantErr)
		}
		if err == nil {
			if found++; got.Mode == ModeFile {
				if data, err := s.Blob(t.Context(), got.Hash); err != nil || string(data) != p {
					t.Fatalf("%s is %q, %v", p, data, err)
				}
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if found < 1000 {
		t.Errorf("%d paths exist", found)
	}
}

// sortKey returns the key for Git's order: directories sort as if their names ended in a slash.
func (e Entry) sortKey() string {
	if e.Mode == ModeTree {
		return e.Name + "/"
	}
	return e.Name
}
