package importer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/fleet"
)

// idTree is a commit in memory whose files have ids, as those of Git have.
type idTree struct{ fstest.MapFS }

type idInfo struct {
	fs.FileInfo
	id contentID
}

type contentID [sha256.Size]byte

func (c contentID) String() string { return fmt.Sprintf("%x", c[:]) }

func (i idInfo) Sys() any { return i.id }

func (i idInfo) Info() (fs.FileInfo, error) { return i, nil }

func (i idInfo) Type() fs.FileMode { return i.Mode().Type() }

func (m idTree) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(m.MapFS, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return idInfo{info, sha256.Sum256(m.MapFS[name].Data)}, nil
	}
	h := sha256.New()
	for _, file := range slices.Sorted(func(yield func(string) bool) {
		for file := range m.MapFS {
			if (name == "." || strings.HasPrefix(file, name+"/")) && !yield(file) {
				return
			}
		}
	}) {
		fmt.Fprintf(h, "%s %x\n", strings.TrimPrefix(file, name), sha256.Sum256(m.MapFS[file].Data))
	}
	return idInfo{info, contentID(h.Sum(nil))}, nil
}

func (m idTree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := m.MapFS.ReadDir(name)
	for i, e := range entries {
		info, failed := m.Stat(strings.TrimPrefix(name+"/"+e.Name(), "./"))
		if failed != nil {
			return nil, failed
		}
		entries[i] = info.(fs.DirEntry)
	}
	return entries, err
}

// asking runs the job in this process and counts its questions by name.
func asking(t *testing.T, files *contents, tree fleet.Tree, asked map[string]int) *askedTree {
	t.Helper()
	p := &parent{tree: tree}
	return &askedTree{
		ctx: t.Context(), files: files, dirs: map[string][]dirEntry{},
		ask: func(ctx context.Context, name string, input []byte) ([]byte, error) {
			asked[name]++
			return p.answer(ctx, name, input)
		},
	}
}

// A job sees the same commit as its parent, with a question for many directories and files, and none for content that
// it has seen.
func TestAskedTree(t *testing.T) {
	t.Parallel()
	commit := idTree{fstest.MapFS{}}
	for d := range 8 {
		for f := range 10 {
			commit.MapFS[fmt.Sprintf("dir%02d/sub/file%d.yaml", d, f)] = &fstest.MapFile{Data: fmt.Appendf(nil,
				"n: %d\n", d*100+f)}
		}
		commit.MapFS[fmt.Sprintf("dir%02d/README.md", d)] = &fstest.MapFile{Data: []byte("text\n")}
	}
	for f := range maxEntries + 10 { // does not fit into one answer
		commit.MapFS[fmt.Sprintf("many/f%05d", f)] = &fstest.MapFile{Data: []byte("x")}
	}
	commit.MapFS["many/deep/last/one.yaml"] = &fstest.MapFile{Data: []byte("n: 1\n")}
	commit.MapFS["large/a.yaml"] = &fstest.MapFile{Data: []byte("a")}
	commit.MapFS["large/b.yaml"] = &fstest.MapFile{Data: make([]byte, maxTogether+1)}
	commit.MapFS["large/c.yaml"] = &fstest.MapFile{Data: []byte("c")}
	files := &contents{byID: map[string][]byte{}}
	for round, most := range []map[string]int{
		{askDirs: 12, askFiles: 24, askFile: 0},
		{askDirs: 12, askFiles: 0, askFile: 0},
	} {
		asked := map[string]int{}
		got := asking(t, files, commit, asked)
		seen := 0
		err := fs.WalkDir(got, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			seen++
			if strings.HasPrefix(name, "many/f") {
				return nil
			}
			data, err := got.ReadFile(name)
			if err != nil || !reflect.DeepEqual(data, commit.MapFS[name].Data) {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
			return nil
		})
		if err != nil || seen != len(commit.MapFS) {
			t.Errorf("%d files of %d, %v", seen, len(commit.MapFS), err)
		}
		for name, n := range asked {
			if n > most[name] {
				t.Errorf("round %d: %d questions %q, want at most %d", round, n, name, most[name])
			}
		}
		for _, missing := range []string{"dir00/none.yaml", "none/x", "dir00/README.md/x"} {
			if _, err := got.ReadFile(missing); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the error is %v", missing, err)
			}
		}
	}
}

// A directory or a file that cannot be read fails when it is asked for, and nothing else does.
func TestAskedTreeOfBrokenStorage(t *testing.T) {
	t.Parallel()
	commit := brokenTree{idTree{fstest.MapFS{
		"good/a.yaml":      {Data: []byte("a")},
		"good/broken.yaml": {Data: []byte("b")}, "broken/a.yaml": {Data: []byte("c")},
	}}}
	got := asking(t, &contents{byID: map[string][]byte{}}, commit, map[string]int{})
	if data, err := got.ReadFile("good/a.yaml"); err != nil || string(data) != "a" {
		t.Errorf("the data is %q, the error is %v", data, err)
	}
	if _, err := got.ReadFile("good/broken.yaml"); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("the error is %v", err)
	}
	if _, err := got.ReadDir("broken"); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("the error is %v", err)
	}
}

type brokenTree struct{ idTree }

func (b brokenTree) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "broken" {
		return nil, errors.New("the directory is lost")
	}
	return b.idTree.ReadDir(name)
}

func (b brokenTree) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, "broken.yaml") {
		return nil, errors.New("the file is lost")
	}
	return b.idTree.ReadFile(name)
}

// An answer of the parent is JSON that a job can decode whatever names are in it.
func TestListDirsOfOddNames(t *testing.T) {
	t.Parallel()
	commit := idTree{fstest.MapFS{"a\"b/ü\n.yaml": {Data: []byte("a")}}}
	data, err := listDirs(commit, ".")
	var dirs map[string][]dirEntry
	if err != nil || json.Unmarshal(data, &dirs) != nil || len(dirs["a\"b"]) != 1 ||
		dirs["a\"b"][0].Name != "ü\n.yaml" {
		t.Errorf("the data is %s, the error is %v", data, err)
	}
}

// Names that are not UTF-8 do not hide other files.
func TestAskedTreeOfNamesInOtherEncodings(t *testing.T) {
	t.Parallel()
	got := asking(t, &contents{byID: map[string][]byte{}}, oddTree{}, map[string]int{})
	for _, name := range []string{"a.yaml", "é.yaml", "ü.yaml", "漢.yaml"} {
		if data, err := got.ReadFile(name); err != nil || string(data) != name {
			t.Errorf("%s: the data is %q, the error is %v", name, data, err)
		}
	}
}

// oddTree has names that are not UTF-8.
type oddTree struct{ fleet.Tree }

func (oddTree) ReadDir(string) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	for _, name := range []string{"a.yaml", "\x80", "\x80b", "é.yaml", "ü.yaml", "漢.yaml"} {
		out = append(out, fs.FileInfoToDirEntry(entryInfo{dirEntry{Name: name}}))
	}
	return out, nil
}

func (oddTree) ReadFile(name string) ([]byte, error) { return []byte(name), nil }

// A name that is not UTF-8 becomes another one on its way. A file under that name has no content, also where the
// process keeps the same content under a name that is right.
func TestNamesThatAreNotUTF8HaveNoContent(t *testing.T) {
	t.Parallel()
	got := asking(t, &contents{byID: map[string][]byte{}},
		latinTree{idTree{fstest.MapFS{"a.yaml": {Data: []byte("same")}}}}, map[string]int{})
	if data, err := got.ReadFile("a.yaml"); err != nil || string(data) != "same" {
		t.Fatalf("the data is %q, the error is %v", data, err)
	}
	if data, err := got.ReadFile("b\ufffd.yaml"); err == nil {
		t.Errorf("the data is %q", data)
	}
}

// latinTree has a second file with the content of the first, whose name is not UTF-8.
type latinTree struct{ idTree }

func (l latinTree) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := l.idTree.ReadDir(name)
	if err != nil {
		return nil, err
	}
	info, err := all[0].Info()
	if err != nil {
		return nil, err
	}
	return append(all, fs.FileInfoToDirEntry(entryInfo{dirEntry{Name: "b\xff.yaml", ID: fmt.Sprint(info.Sys())}})), nil
}

// A process keeps a listing only up to a number of entries, whether they are in many directories or in one.
func TestKeptListingsAreBounded(t *testing.T) {
	t.Parallel()
	one := []dirEntry{{Name: "x"}}
	for name, c := range map[string]struct {
		dirs map[string][]dirEntry
		kept bool
	}{
		"small":                      {map[string][]dirEntry{".": one}, true},
		"many entries in one folder": {map[string][]dirEntry{".": make([]dirEntry, maxEntries)}, false},
	} {
		l := &listing{}
		l.keep("tree", c.dirs)
		if kept := len(l.of("tree")) > 0; kept != c.kept {
			t.Errorf("%s: kept %t", name, kept)
		}
	}
}

// The paths of folders in folders are long: an answer has only some of them.
func TestListDirsIsBounded(t *testing.T) {
	t.Parallel()
	data, err := listDirs(deepTree{}, ".")
	if err != nil || len(data) > 4*maxNames {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	deep := strings.Repeat("d/", 50_000) + "d"
	var dirs map[string][]dirEntry
	data, err = listDirs(wideTree{}, deep)
	if err != nil || json.Unmarshal(data, &dirs) != nil || len(dirs) > maxNames/len(deep)+2 {
		t.Errorf("%d folders of a long path in one answer, %v", len(dirs), err)
	}
}

// wideTree has many folders in each folder.
type wideTree struct{ fleet.Tree }

func (wideTree) ReadDir(string) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	for i := range 5000 {
		out = append(out, fs.FileInfoToDirEntry(entryInfo{dirEntry{Name: fmt.Sprint("f", i), Mode: fs.ModeDir}}))
	}
	return out, nil
}

// deepTree has a folder in each folder.
type deepTree struct{ fleet.Tree }

func (deepTree) ReadDir(string) ([]fs.DirEntry, error) {
	return fstest.MapFS{strings.Repeat("n", 200) + "/f": {}}.ReadDir(".")
}
