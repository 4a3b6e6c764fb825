package worktree_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
)

// git runs the git program.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A",
		"GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, dir, name, data string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	remove(t, name)
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// repository returns a folder with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	write(t, dir, ".gitignore", "*.log\nbuild/\n")
	write(t, dir, "a/file", "two")
	write(t, dir, "forced.log", "x")
	link(t, "a", filepath.Join(dir, "link"))
	git(t, dir, "add", "-A")
	git(t, dir, "add", "-f", "forced.log")
	git(t, dir, "commit", "-qm", "start")
	return dir
}

func open(t *testing.T, dir string) *gitstore.Store {
	t.Helper()
	s, err := gitstore.Open(t.Context(), gitstore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func treeOf(t *testing.T, s *gitstore.Store, dir string) gitstore.Hash {
	t.Helper()
	tree, err := worktree.Tree(t.Context(), s, dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// files returns the names and the content of everything below a folder.
func files(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			out.WriteString(name + "\n")
			return nil
		}
		data, err := os.ReadFile(name)
		fmt.Fprintf(&out, "%s %x\n", name, sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// After each change alone, Tree is the tree of `git add --all`, Modified says whether it is that of the commit, and the
// repository is as before.
func TestTreeEqualsGitsOwn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, dir string){
		"nothing": func(*testing.T, string) {},
		"content": func(t *testing.T, dir string) { write(t, dir, "a/file", "tow") },
		"new":     func(t *testing.T, dir string) { write(t, dir, "a/b [c]/ d\xff", "x") },
		"empty folder": func(t *testing.T, dir string) {
			write(t, dir, "empty/x", "")
			remove(t,
				filepath.Join(dir, "empty/x"))
		},
		"ignored":        func(t *testing.T, dir string) { write(t, dir, "a/x.log", "x") },
		"ignored folder": func(t *testing.T, dir string) { write(t, dir, "build/deep/x", "x") },
		"excluded": func(t *testing.T, dir string) {
			write(t, dir, ".git/info/exclude", "/y\n")
			write(t, dir,
				"y", "x")
		},
		"forced":      func(t *testing.T, dir string) { write(t, dir, "forced.log", "other") },
		"removed":     func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "a", "file")) },
		"all removed": func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "a")) },
		"link":        func(t *testing.T, dir string) { link(t, "/etc/passwd", filepath.Join(dir, "link")) },
		"file for link": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "link"))
			write(t, dir, "link",
				"a")
		},
		"folder for file": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "a/file"))
			write(t, dir, "a/file/x", "a")
		},
		"file for folder": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "a"))
			write(t, dir, "a",
				"a")
		},
		"link for folder": func(t *testing.T, dir string) { link(t, "/etc", filepath.Join(dir, "a")) },
		"staged":          func(t *testing.T, dir string) { write(t, dir, "a/file", "tow"); git(t, dir, "add", "-A") },
		"staged and back": func(t *testing.T, dir string) {
			write(t, dir, "a/file", "tow")
			git(t, dir, "add", "-A")
			write(t, dir, "a/file", "two")
		},
		"intended": func(t *testing.T, dir string) { write(t, dir, "a/new", "x"); git(t, dir, "add", "-N", "a/new") },
		"no index": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git/index"))
			write(t, dir, "new",
				"x")
		},
		"split index": func(t *testing.T, dir string) {
			git(t, dir, "update-index", "--split-index")
			write(t, dir, "new", "x")
		},
		"sparse checkout": func(t *testing.T, dir string) {
			git(t, dir, "sparse-checkout", "set", "none")
			write(t, dir, "new", "x")
		},
		"line endings": func(t *testing.T, dir string) {
			write(t, dir, ".gitattributes", "*.txt text\n")
			write(t, dir, "a.txt", "a\r\nb\r\n")
		},
		"another commit": func(t *testing.T, dir string) {
			git(t, dir, "commit", "-q", "--allow-empty", "-m",
				"second")
		},
		"a linked one": func(t *testing.T, dir string) {
			git(t, dir, "worktree", "add", "-q", filepath.Join(dir, "build/linked"))
		},
		"submodule": func(t *testing.T, dir string) {
			git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repository(t), "sub")
		},
		"without its file": func(t *testing.T, dir string) {
			git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repository(t), "sub")
			git(t, dir, "submodule", "--quiet", "deinit", "-f", "sub")
		},
		"conflict": func(t *testing.T, dir string) {
			git(t, dir, "checkout", "-q", "-b", "other")
			write(t, dir, "a/file", "other")
			git(t, dir, "commit", "-qam", "other")
			git(t, dir, "checkout", "-q", "main")
			write(t, dir, "a/file", "main")
			git(t, dir, "commit", "-qam", "main")
			// fails: a conflict
			_ = exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "user.name=A", "-c",
				"user.email=a@example.com", "merge", "-q", "other").Run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t)
			change(t, dir)
			before := files(t, filepath.Join(dir, ".git"))
			s := open(t, dir)
			head, err := s.Resolve(t.Context(), "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			got := treeOf(t, s, dir)
			modified, err := worktree.Modified(t.Context(), s, head.Tree)
			if err != nil {
				t.Fatal(err)
			}
			if now := files(t, filepath.Join(dir, ".git")); now != before {
				t.Errorf("the repository changed: before\n%s\nafter\n%s", before, now)
			}
			git(t, dir, "add", "-A", "--sparse")
			want := git(t, dir, "write-tree")
			if got.String() != want {
				parsed, err := gitstore.ParseHash(want)
				if err != nil {
					t.Fatal(err)
				}
				changes, err := open(t, dir).Changes(t.Context(), parsed, head.Tree)
				t.Errorf("the tree is %s, want %s, which differs from the commit in %+v, %v", got, want, changes, err)
			}
			if modified != (want != head.Tree.String()) {
				t.Errorf("modified is %t, but the tree is %s and that of the commit %s", modified, want, head.Tree)
			}
		})
	}
}

// New content can be read, also that of files under a filter, which is the content that Git stores.
func TestContentIsFiltered(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	git(t, dir, "config", "filter.upper.clean", "tr a-z A-Z")
	write(t, dir, ".gitattributes", "*.txt filter=upper\n")
	write(t, dir, "a/b/c.txt", "pointer")
	s := open(t, dir)
	data, err := s.Snapshot(t.Context(), treeOf(t, s, dir)).ReadFile("a/b/c.txt")
	if err != nil || string(data) != "POINTER" {
		t.Errorf("the file is %q, %v; want what the filter makes of it", data, err)
	}
}

// A repository in the working tree that is no submodule belongs to somebody else.
func TestNestedRepositoriesAreLeftOut(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	s := open(t, dir)
	want := treeOf(t, s, dir)
	git(t, dir, "init", "-q", "empty")
	write(t, dir, "inner/file", "x")
	git(t, filepath.Join(dir, "inner"), "init", "-q")
	git(t, filepath.Join(dir, "inner"), "add", "-A")
	git(t, filepath.Join(dir, "inner"), "commit", "-qm", "theirs")
	if got := treeOf(t, s, dir); got != want {
		t.Errorf("with other repositories in the working tree, the tree is %s, want %s", got, want)
	}
}

// Neither hooks nor the monitor of the file system run.
func TestNoProgramsRun(t *testing.T) {
	t.Parallel()
	dir, mark := repository(t), filepath.Join(t.TempDir(), "ran")
	script := "#!/bin/sh\ntouch " + mark + "\n"
	for _, name := range []string{".git/hooks/post-index-change", ".git/monitor"} {
		write(t, dir, name, script)
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "config", "core.fsmonitor", ".git/monitor")
	remove(t, mark)
	write(t, dir, "a/file", "tow")
	treeOf(t, open(t, dir), dir)
	if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program of the repository ran: %v", err)
	}
}

// Variables of a hook name the repository of the hook, not the one that is read.
func TestVariablesOfHooksHaveNoEffect(t *testing.T) {
	dir := repository(t)
	want := treeOf(t, open(t, dir), dir)
	other := repository(t)
	t.Setenv("GIT_DIR", filepath.Join(other, ".git"))
	t.Setenv("GIT_WORK_TREE", other)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other, ".git/missing"))
	if got := treeOf(t, open(t, dir), dir); got != want {
		t.Errorf("in a hook, the tree is %s, want %s", got, want)
	}
}

// The folder need not be in a repository.
func TestFilesThatAreNotInGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "x/y", "z")
	write(t, dir, ".gitignore", "no\n")
	write(t, dir, "no", "z")
	store := gitstore.OpenMemory()
	snapshot := store.Snapshot(t.Context(), treeOf(t, store, dir))
	if data, err := snapshot.ReadFile("x/y"); err != nil || string(data) != "z" {
		t.Errorf("x/y is %q, %v; want z", data, err)
	}
	if _, err := snapshot.Stat("no"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ignored file: got %v, want that it does not exist", err)
	}
	if got := treeOf(t, store, t.TempDir()); got.String() != "4b825dc642cb6eb9a060e54bf8d69288fbee4904" {
		t.Errorf("the tree of an empty folder is %s", got)
	}
}

// A file that is too large to be read is named.
func TestLargeFileIsNamed(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	write(t, dir, "a/large", strings.Repeat("x", 33<<20))
	_, err := worktree.Tree(t.Context(), open(t, dir), dir)
	if !errors.Is(err, gitstore.ErrTooLarge) || !strings.Contains(err.Error(), filepath.Join("a", "large")) {
		t.Errorf("got %v, want ErrTooLarge with the name of the file", err)
	}
}

func TestWithoutGit(t *testing.T) {
	dir := repository(t)
	t.Setenv("PATH", t.TempDir())
	if _, err := worktree.Tree(t.Context(), open(t, dir), dir); !errors.Is(err, worktree.ErrNoGit) {
		t.Errorf("without git: got %v, want ErrNoGit", err)
	}
}

// A temporary folder in the working tree does not count as a file of the user.
func TestTemporaryFolderInTheWorkingTree(t *testing.T) {
	dir := repository(t)
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	write(t, dir, "tmp/mine.yaml", "a: 1\n")
	before, err := worktree.Tree(t.Context(), store, dir)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(dir, "tmp", "mine.yaml"))
	after, err := worktree.Tree(t.Context(), store, dir)
	if err != nil {
		t.Fatal(err)
	}
	if head := git(t, dir, "rev-parse", "HEAD^{tree}"); after.String() != head || before == after {
		t.Errorf("tree with TMPDIR in the working tree: got %s, and %s with a file of the user there, want %s and another one", after, before, head)
	}
}
