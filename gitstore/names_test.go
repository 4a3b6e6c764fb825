package gitstore

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// folders is the number of folders of manyFolders.
const folders = 2*20 + 1

// manyFolders is a repository with a commit of files in many folders.
func manyFolders(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "-b", "main")
	runGit(t, dir, "config", "user.name", "A")
	runGit(t, dir, "config", "user.email", "a@example.com")
	write(t, dir, ".gitignore", "*.log\nbuild/\n")
	for i := range (folders - 1) / 2 {
		write(t, dir, fmt.Sprintf("f%02d/below/file", i), "text")
		write(t, dir, fmt.Sprintf("f%02d/file", i), "text")
	}
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-qm", "start")
	return dir
}

// look compares the files with the last commit as Modified does, and returns how many folders are listed. Names of folders that changed before
// a time are kept.
func look(t *testing.T, dir string, before time.Time) (same bool, listed int) {
	t.Helper()
	s := open(t, Options{Dir: dir})
	c, err := s.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWalker(t.Context(), s, dir)
	if err != nil {
		t.Fatal(err)
	}
	w.indexed, w.keep = indexedAt(s), hashObject
	w.names = openNames(s, before.Add(resting))
	if same, err = w.sameAsIndex(); err != nil {
		t.Fatal(err)
	}
	w.names.save()
	return same && w.staged == c.Tree, w.listed
}

// afterTick returns when the clock of the file system shows another time than in all changes before.
func afterTick(t *testing.T) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tick")
	changed := func() time.Time {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	for first := changed(); !changed().After(first); {
		time.Sleep(time.Millisecond)
	}
}

// identifies skips a test where names are not kept.
func identifies(t *testing.T) {
	t.Helper()
	disk, err := openTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer disk.close()
	disk.identify()
	if _, ok := disk.identity(""); !ok {
		t.Skipf("nothing identifies folders of the temporary folder on %s", runtime.GOOS)
	}
}

func TestFoldersAreListedAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	identifies(t)
	dir := manyFolders(t)
	later := time.Now().Add(time.Hour) // names of new folders are kept too
	check := func(what string, wantSame bool, want int) {
		t.Helper()
		if same, listed := look(t, dir, later); same != wantSame || listed != want {
			t.Errorf("%s: same %v, %d folders listed; want %v, %d", what, same, listed, wantSame, want)
		}
	}
	check("the first run keeps nothing", true, folders)
	check("the second run keeps the names", true, folders)
	check("the third run", true, 0)
	afterTick(t)
	write(t, dir, "f07/file", "TEXT")
	check("a changed file", false, 0)
	runGit(t, dir, "commit", "-qam", "second")
	check("the change is committed", true, 0)
	afterTick(t)
	write(t, dir, "f07/below/new.log", "x")
	check("an ignored file", true, 1)
	afterTick(t)
	write(t, dir, ".gitignore", "build/\n")
	runGit(t, dir, "commit", "-qam", "third")
	check("it is not ignored any more", false, 1)
	remove(t, filepath.Join(dir, "f07", "below", "new.log"))
	afterTick(t)
	check("it is removed", true, 1)
}

// A folder that changed shortly before it was listed may change again within the same step of the clock.
func TestNamesOfNewFoldersAreNotKept(t *testing.T) {
	t.Parallel()
	identifies(t)
	dir := manyFolders(t)
	for run := range 3 {
		if same, listed := look(t, dir, time.Now().Add(-time.Hour)); !same || listed != folders {
			t.Errorf("run %d: same %v, %d of %d folders listed", run, same, listed, folders)
		}
	}
	s := open(t, Options{Dir: dir})
	if now := time.Now(); now.Sub(openNames(s, now).before) < 2*time.Second {
		t.Error("names are kept of folders that changed within the last two seconds")
	}
	// A change of the contents of a folder alone shows in its second time, if somebody sets the first one.
	old := time.Now().Add(-24 * time.Hour)
	for i := range 20 {
		for _, name := range []string{fmt.Sprintf("f%02d", i), fmt.Sprintf("f%02d/below", i)} {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	for run := range 2 {
		if _, listed := look(t, dir, time.Now().Add(-time.Hour)); listed != folders {
			t.Errorf("old times, run %d: %d of %d folders listed", run, listed, folders)
		}
	}
}

// With names that are kept, Modified says what `git status` says.
func TestModifiedWithKeptNamesAgreesWithGit(t *testing.T) {
	t.Parallel()
	identifies(t)
	// The folder f01 has a file at first, and f02 the same one with other text.
	move := func(dir, from, to string) {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Error(err)
		}
	}
	for name, change := range map[string]func(dir string){
		"nothing":         func(string) {},
		"new":             func(dir string) { write(t, dir, "f01/below/new", "x") },
		"new folder":      func(dir string) { write(t, dir, "f01/new/new", "x") },
		"ignored":         func(dir string) { write(t, dir, "f01/new.log", "x") },
		"ignored folder":  func(dir string) { write(t, dir, "f01/build/new", "x") },
		"unignored":       func(dir string) { write(t, dir, "f01/new.log", "x"); write(t, dir, "f01/.gitignore", "!new.log\n") },
		"removed":         func(dir string) { remove(t, filepath.Join(dir, "f01", "file")) },
		"folder removed":  func(dir string) { remove(t, filepath.Join(dir, "f01")) },
		"renamed":         func(dir string) { move(dir, "f01/file", "f01/other") },
		"folder renamed":  func(dir string) { move(dir, "f01", "other") },
		"folders swapped": func(dir string) { move(dir, "f01", "x"); move(dir, "f02", "f01"); move(dir, "x", "f02") },
		"moved away":      func(dir string) { move(dir, "f01/file", "f02/other") },
		"hard link": func(dir string) {
			if err := os.Link(filepath.Join(dir, "f01", "file"), filepath.Join(dir, "f01", "other")); err != nil {
				t.Error(err)
			}
		},
		"link for folder": func(dir string) { move(dir, "f01", "f02/f01"); relink(t, "f02/f01", filepath.Join(dir, "f01")) },
		"file for folder": func(dir string) { remove(t, filepath.Join(dir, "f01", "below")); write(t, dir, "f01/below", "x") },
		"there and back":  func(dir string) { move(dir, "f01", "x"); move(dir, "x", "f01") },
		"time restored": func(dir string) {
			at := filepath.Join(dir, "f01")
			info, err := os.Stat(at)
			if err != nil {
				t.Error(err)
				return
			}
			write(t, dir, "f01/new", "x")
			if err := os.Chtimes(at, info.ModTime(), info.ModTime()); err != nil {
				t.Error(err)
			}
		},
		"another copy": func(dir string) {
			move(dir, "f01", ".git/f01")
			write(t, dir, "f01/below/file", "text")
			write(t, dir, "f01/file", "text")
			write(t, dir, "f01/new", "text")
		},
		"damaged names": func(dir string) {
			write(t, dir, "f01/new", "x")
			write(t, dir, ".git/sluice/names", "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := manyFolders(t)
			later := time.Now().Add(time.Hour)
			for range 2 {
				look(t, dir, later)
			}
			if same, listed := look(t, dir, later); !same || listed > 0 {
				t.Fatalf("the names are not kept: %v, %d folders listed", same, listed)
			}
			afterTick(t)
			change(dir)
			s := open(t, Options{Dir: dir})
			c, err := s.Resolve(t.Context(), "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Modified(t.Context(), dir, c.Tree, time.Now())
			if want := runGit(t, dir, "status", "--porcelain") != ""; err != nil || got != want {
				t.Errorf("modified: %v, %v; git status says %v", got, err, want)
			}
		})
	}
}

func TestEncodingOfNames(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "names")
	if err := memo.Open(name, namesVersion).Save(); err != nil {
		t.Fatal(err)
	}
	k := &keptNames{file: memo.Open(name, namesVersion), before: time.Now()}
	lists := [][]dirItem{{}, {{"a", false}}, {{"a", true}, {"\xff\n", false}, {string(make([]byte, 300)), true}}}
	for i, list := range lists {
		is := folderIdentity{number: uint64(i)}
		k.put(is, list)
		got, ok := k.get(is)
		if !ok || fmt.Sprint(got) != fmt.Sprint(list) {
			t.Errorf("%v: %v, %v", list, got, ok)
		}
	}
	at := time.Unix(1_700_000_000, 123)
	is := folderIdentity{device: 1, number: 2, modified: at, changed: at}
	for what, other := range map[string]folderIdentity{
		"device":   {device: 2, number: 2, modified: at, changed: at},
		"number":   {device: 1, number: 1, modified: at, changed: at},
		"modified": {device: 1, number: 2, modified: at.Add(1), changed: at},
		"changed":  {device: 1, number: 2, modified: at, changed: at.Add(1)},
		"second":   {device: 1, number: 2, modified: at, changed: at.Add(time.Second)},
	} {
		if other.key() == is.key() {
			t.Errorf("%s is not in the key", what)
		}
	}
	for _, data := range [][]byte{nil, {1}, {2, 2, 'a'}, {1, 4, 'a'}, {1, 2, 'a', 'b'}, {0xff}, {1, 0xff}, {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		k.file.Put(is.key(), data)
		if got, ok := k.get(is); ok {
			t.Errorf("%v is decoded as %v", data, got)
		}
	}
}
