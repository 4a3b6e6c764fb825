package gitstore

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// sameAsGit compares the tree with that of `git add --all`.
func sameAsGit(t *testing.T, dir string) Hash {
	t.Helper()
	s := open(t, Options{Dir: dir})
	got, err := s.WorkingTree(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "add", "-A")
	if want := runGit(t, dir, "write-tree"); got.String() != want {
		t.Errorf("got %s, want %s:", got, want)
		w := writer(t, s)
		tree, err := ParseHash(want)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := s.Changes(t.Context(), tree, got)
		t.Log(w.Len(), changes, err)
	}
	return got
}

func TestWorkingTreeEqualsGitsOwn(t *testing.T) {
	dir := source(t)
	for name, data := range map[string]string{
		"ignored": "x", "dir/.gitignore": "*.log\n!keep.log\n", "dir/x.log": "x", "dir/keep.log": "k", "dir/sub/deep.log": "x", "new/file": "new",
		"build/out": "x", "excluded/x": "x", "un-excluded": "x", "a dir/b [c]/d": "x", "slash/only/here": "x", "other/slash/only": "x",
		".gitignore": "ignored\nbuild/\n/slash\ntracked-but-ignored\n# comment\n\n\\#literal\nexclu*\n!un-excluded\n**/deep/x\ntrailing   \n",
		"#literal":   "x", "very/deep/x": "x", "trailing": "x", "nested/.git/HEAD": "no repository", "nested/file": "x", "crlf/.gitignore": "a\r\n", "crlf/a": "x",
	} {
		write(t, dir, name, data)
	}
	write(t, dir, ".git/info/exclude", "un-excluded\n")
	write(t, dir, "tracked-but-ignored", "one")
	runGit(t, dir, "add", "-f", "tracked-but-ignored")
	write(t, dir, "tracked-but-ignored", "two")
	if err := os.Chmod(filepath.Join(dir, "new", "file"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "dangerous")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("dir", filepath.Join(dir, "to-a-dir")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "nested")); err != nil { // Git treats a broken repository as a folder
		t.Fatal(err)
	}
	got := sameAsGit(t, dir)
	s := open(t, Options{Dir: dir})
	if again, err := s.WorkingTree(t.Context(), dir); err != nil || again != got {
		t.Errorf("%s %v", again, err)
	}
	if len(s.overlay) > 2 {
		t.Errorf("%d objects that Git has are in memory", len(s.overlay))
	}
	if data, err := s.Snapshot(t.Context(), got).ReadFile("new/file"); err != nil || string(data) != "new" {
		t.Errorf("%q %v", data, err)
	}
	sub, err := s.WorkingTree(t.Context(), filepath.Join(dir, "dir"))
	if want := runGit(t, dir, "write-tree", "--prefix=dir/"); err != nil || sub.String() != want {
		t.Errorf("dir is %s, want %s: %v", sub, want, err)
	}
}

func TestWorkingTreeWithSubmodules(t *testing.T) {
	other := source(t)
	dir := source(t)
	runGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub")
	runGit(t, dir, "commit", "-qm", "sub")
	sameAsGit(t, dir)
	runGit(t, dir, "submodule", "--quiet", "deinit", "-f", "sub")
	sameAsGit(t, dir)
}

func TestWorkingTreeThatIsNotInGit(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "x/y", "z")
	write(t, outside, ".gitignore", "no\n")
	write(t, outside, "no", "z")
	memory := OpenMemory()
	h, err := memory.WorkingTree(t.Context(), outside)
	if err != nil {
		t.Fatal(err)
	}
	snap := memory.Snapshot(t.Context(), h)
	if data, err := snap.ReadFile("x/y"); err != nil || string(data) != "z" {
		t.Errorf("%q %v", data, err)
	}
	if _, err := snap.Stat("no"); err == nil {
		t.Error("an ignored file is there")
	}
	if empty, err := memory.WorkingTree(t.Context(), t.TempDir()); err != nil || empty.String() != "4b825dc642cb6eb9a060e54bf8d69288fbee4904" {
		t.Errorf("%s %v", empty, err)
	}
}

// A clean tree with filtered files is not modified. A change of such a file is a modification.
func TestModifiedIgnoresFilters(t *testing.T) {
	t.Parallel()
	for name, attributes := range map[string]string{"line endings": "*.txt text eol=crlf\n", "a filter": "*.txt filter=upper\n"} {
		dir := t.TempDir()
		runGit(t, dir, "init", "-q", "-b", "main")
		runGit(t, dir, "config", "filter.upper.clean", "tr A-Z a-z")
		runGit(t, dir, "config", "filter.upper.smudge", "tr a-z A-Z")
		write(t, dir, ".gitattributes", attributes)
		write(t, dir, "a.txt", "one\ntwo\n")
		write(t, dir, "b.yaml", "a: b\n")
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "start")
		if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
			t.Fatal(err)
		}
		runGit(t, dir, "checkout", "-q", "--", "a.txt") // as the filter writes the file
		modified := func() bool {
			s := open(t, Options{Dir: dir})
			c, err := s.Resolve(t.Context(), "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(text) == "one\ntwo\n" {
				t.Errorf("%s: the filter changes nothing: %v", name, err)
			}
			m, err := s.Modified(t.Context(), dir, c.Tree, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		if modified() {
			t.Errorf("%s: a clean tree is modified: %s", name, runGit(t, dir, "status", "--porcelain"))
		}
		write(t, dir, "a.txt", "one\r\nTHREE\r\n")
		if !modified() {
			t.Errorf("%s: a changed file is not seen", name)
		}
		runGit(t, dir, "checkout", "-q", "--", "a.txt")
		write(t, dir, "new.yaml", "a: b\n")
		if !modified() {
			t.Errorf("%s: a new file is not seen", name)
		}
	}
}

// A file that Git has read is read again only if its size or time differ, or if it may have changed after Git read it within one tick of the clock.
func TestIndexedFilesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "-b", "main")
	const name = "sub/a.yaml"
	written, indexed := time.Unix(1_700_000_000, 123), time.Unix(1_700_000_100, 456)
	set := func(text string, at time.Time) {
		t.Helper()
		write(t, dir, name, text)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	indexedAt := func(at time.Time) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(dir, ".git", "index"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	set("one", written)
	runGit(t, dir, "add", "-A")
	tree, err := ParseHash(runGit(t, dir, "write-tree"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, want bool) {
		t.Helper()
		s := open(t, Options{Dir: dir})
		got, err := asIndexed(t.Context(), s, dir, tree, nil)
		if err != nil || got != want {
			t.Errorf("%s: %v %v", what, got, err)
		}
		if len(s.overlay) > 0 {
			t.Errorf("%s: %d objects are stored", what, len(s.overlay))
		}
		if now, err := s.WorkingTree(t.Context(), dir); err != nil || (now == tree) != want {
			t.Errorf("%s: the working tree is %s, and the index %s: %v", what, now, tree, err)
		}
	}
	indexedAt(indexed)
	check("a clean tree", true)
	set("two", written)
	check("the same size and time: nobody can tell without reading it", true)
	indexedAt(written)
	check("the same tick as the index", false)
	set("one", written)
	check("the same tick as the index, and the same content", true)
	indexedAt(indexed)
	set("two", written.Add(1))
	check("another time", false)
	set("three", written)
	check("another size", false)
	set("one", written)
	write(t, dir, "new.yaml", "a: b\n")
	check("a new file", false)
	if err := os.Remove(filepath.Join(dir, "new.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	check("another mode", false)
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	check("a removed file", false)

	set("one", written)
	blob := hashObject("blob", []byte("one")).String()
	if err := os.Remove(filepath.Join(dir, ".git", "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: dir})
	now, err := s.WorkingTree(t.Context(), dir)
	if err != nil || now != tree {
		t.Errorf("a blob that the repository lost: the working tree is %s, and the index %s: %v", now, tree, err)
	}
	if text, err := s.Blob(t.Context(), hashObject("blob", []byte("one"))); err != nil || string(text) != "one" {
		t.Errorf("a blob that the repository lost: %q, %v", text, err)
	}
}

// Modified says what `git status` says, after each change alone, and reads the folders only once if nothing differs.
func TestModifiedAgreesWithGit(t *testing.T) {
	t.Parallel()
	change := map[string]func(dir string){
		"nothing":        func(string) {},
		"content":        func(dir string) { write(t, dir, "a/file", "tow") },
		"size":           func(dir string) { write(t, dir, "a/file", "three") },
		"new":            func(dir string) { write(t, dir, "a/new", "x") },
		"new folder":     func(dir string) { write(t, dir, "new/new", "x") },
		"empty folder":   func(dir string) { mkdir(t, filepath.Join(dir, "empty")) },
		"ignored":        func(dir string) { write(t, dir, "a/x.log", "x") },
		"ignored folder": func(dir string) { write(t, dir, "build/deep/x", "x") },
		"forced":         func(dir string) { write(t, dir, "forced.log", "other") },
		"removed":        func(dir string) { remove(t, filepath.Join(dir, "a", "file")) },
		"all removed":    func(dir string) { remove(t, filepath.Join(dir, "a")) },
		"executable":     func(dir string) { chmod(t, filepath.Join(dir, "a", "file"), 0o755) },
		"link":           func(dir string) { relink(t, "b", filepath.Join(dir, "link")) },
		"file for link":  func(dir string) { remove(t, filepath.Join(dir, "link")); write(t, dir, "link", "a") },
		"staged":         func(dir string) { write(t, dir, "a/file", "tow"); runGit(t, dir, "add", "-A") },
		"staged new":     func(dir string) { write(t, dir, "a/new", "x"); runGit(t, dir, "add", "-A") },
		"staged removal": func(dir string) { runGit(t, dir, "rm", "-q", "a/file") },
		"intended":       func(dir string) { write(t, dir, "a/new", "x"); runGit(t, dir, "add", "-N", "a/new") },
		"staged and back": func(dir string) {
			write(t, dir, "a/file", "tow")
			runGit(t, dir, "add", "-A")
			write(t, dir, "a/file", "two")
		},
		"repository":   func(dir string) { runGit(t, dir, "init", "-q", "inner") },
		"other commit": func(dir string) { runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "second") },
		"committed":    func(dir string) { write(t, dir, "a/file", "tow"); runGit(t, dir, "commit", "-qam", "second") },
		"committed a part": func(dir string) {
			write(t, dir, "a/file", "tow")
			runGit(t, dir, "commit", "-qam", "second")
			write(t, dir, "a/file", "two")
		},
	}
	for name, change := range change {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			runGit(t, dir, "init", "-q", "-b", "main")
			runGit(t, dir, "config", "user.name", "A")
			runGit(t, dir, "config", "user.email", "a@example.com")
			write(t, dir, ".gitignore", "*.log\nbuild/\n")
			write(t, dir, "a/file", "two")
			write(t, dir, "forced.log", "x")
			relink(t, "a", filepath.Join(dir, "link"))
			runGit(t, dir, "add", "-A")
			runGit(t, dir, "add", "-f", "forced.log")
			runGit(t, dir, "commit", "-qm", "start")
			change(dir)
			// A staged change that the files do not have, and a repository that is no submodule, are in no commit of the files.
			want := runGit(t, dir, "status", "--porcelain") != "" && name != "staged and back" && name != "repository"
			s := open(t, Options{Dir: dir})
			c, err := s.Resolve(t.Context(), "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Modified(t.Context(), dir, c.Tree, time.Now())
			if err != nil || got != want {
				t.Errorf("modified: %v, %v; git status says %v", got, err, want)
			}
			if name != "nothing" {
				return
			}
			w, err := newWalker(t.Context(), s, dir)
			if err != nil {
				t.Fatal(err)
			}
			w.indexed, w.keep = indexedAt(s), func(string, []byte) Hash { t.Error("something is hashed"); return Hash{} }
			remove(t, filepath.Join(dir, "link")) // a link is read
			delete(w.tracked, "link")
			if same, err := w.sameAsIndex(); err != nil || !same || w.staged != c.Tree {
				t.Errorf("a clean working tree: %v, %v, tree %s", same, err, w.staged)
			}
		})
	}
}

func mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func relink(t *testing.T, target, name string) {
	t.Helper()
	remove(t, name)
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}
