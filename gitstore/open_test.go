package gitstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestResolveEqualsRevParse(t *testing.T) {
	dir := source(t)
	runGit(t, dir, "commit", "-qm", "two", "--allow-empty")
	runGit(t, dir, "tag", "-a", "-m", "annotated", "v1")
	runGit(t, dir, "tag", "light", "HEAD~1")
	runGit(t, dir, "checkout", "-qb", "feature/x", "HEAD~1")
	runGit(t, dir, "commit", "-qm", "three", "--allow-empty")
	runGit(t, dir, "merge", "-qm", "merge", "main")
	runGit(t, dir, "update-ref", "refs/remotes/origin/far", "HEAD~1")
	short := runGit(t, dir, "rev-parse", "--short=9", "main")
	runGit(t, dir, "gc", "-q")
	s := open(t, Options{Dir: dir})
	for _, rev := range []string{
		"HEAD", "@", "@~1", "main", "heads/main", "refs/heads/main", "v1", "v1~1", "v1^{commit}", "light", "feature/x",
		"HEAD^2", "HEAD^2~1", "HEAD^", "HEAD^0", "HEAD~~",
		"origin/far", short, runGit(t, dir, "rev-parse", "v1"), runGit(t, dir, "rev-parse", "main"),
	} {
		want := runGit(t, dir, "rev-parse", rev+"^{commit}")
		if got, err := s.Resolve(t.Context(), rev); err != nil || got.Hash.String() != want {
			t.Errorf("%s is %s, not %s: %v", rev, want, got.Hash, err)
		}
	}
	for _, rev := range []string{
		"", "nope", "HEAD~99", "HEAD^9", "0000", "HEAD:a.txt", "../config", "HEAD^{tree}", "~",
		strings.Repeat("a", 5000), "main~99999999999999",
	} {
		if got, err := s.Resolve(t.Context(), rev); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q is %s, %v", rev, got.Hash, err)
		}
	}
	if _, err := OpenMemory().Resolve(t.Context(), "HEAD"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
}

func TestKindsOfRepositories(t *testing.T) {
	dir := source(t)
	want := runGit(t, dir, "rev-parse", "HEAD")
	root := t.TempDir()
	shared := filepath.Join(root, "shared")
	runGit(t, root, "clone", "-q", "--shared", dir, shared)
	bare := filepath.Join(root, "bare.git")
	runGit(t, root, "clone", "-q", "--bare", "--reference", shared, dir, bare)
	linked := filepath.Join(root, "linked")
	runGit(t, dir, "worktree", "add", "-q", "-b", "linked", linked)
	runGit(t, linked, "commit", "-qm", "linked", "--allow-empty")
	sparse := filepath.Join(root, "sparse")
	runGit(t, root, "clone", "-q", dir, sparse)
	runGit(t, sparse, "sparse-checkout", "set", "dir/sub")
	for at, want := range map[string]string{
		dir: want, filepath.Join(dir, "dir", "sub"): want, filepath.Join(dir, ".git"): want,
		shared: want, bare: want, sparse: want, linked: runGit(t, linked, "rev-parse", "HEAD"),
	} {
		s := open(t, Options{Dir: at})
		c := resolve(t, s, "HEAD")
		if c.Hash.String() != want {
			t.Errorf("HEAD of %s is %s, want %s", at, c.Hash, want)
		}
		if data, err := s.Snapshot(t.Context(), c.Tree).ReadFile("dir/b.txt"); err != nil || string(data) != "b\n" {
			t.Errorf("%s: the data is %q, the error is %v", at, data, err)
		}
	}
}

func TestRepositoriesThatAreRefused(t *testing.T) {
	sha256 := t.TempDir()
	runGit(t, sha256, "init", "-q", "--object-format=sha256")
	reftable := source(t)
	runGit(t, reftable, "config", "extensions.refstorage", "reftable")
	for dir, want := range map[string]string{
		sha256: "SHA-1", reftable: "reftable",
		t.TempDir(): "not in a Git repository",
	} {
		if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: the error is %v", want, err)
		}
	}
	if _, err := Open(t.Context(), Options{Dir: source(t), Remote: "nope"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
	for _, o := range []Options{
		{},
		{Dir: "x", URL: "y"},
		{URL: "git://example.com/x"},
		{URL: "--upload-pack=x"},
		{URL: "ext::sh -c x"},
	} {
		if _, err := Open(t.Context(), o); err == nil {
			t.Errorf("%+v was opened", o)
		}
	}
}

func TestObjectsPackedByAnotherProcess(t *testing.T) {
	dir := source(t)
	s := open(t, Options{Dir: dir})
	first := resolve(t, s, "HEAD")
	write(t, dir, "late", "late\n")
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "late")
	runGit(t, dir, "gc", "-q", "--prune=now")
	c := resolve(t, s, "main")
	if data, err := s.Snapshot(t.Context(), c.Tree).ReadFile("late"); err != nil || string(data) != "late\n" {
		t.Errorf("the data is %q, the error is %v", data, err)
	}
	runGit(t, dir, "-c", "pack.window=0", "repack", "-adqF")
	if data, err := s.Snapshot(t.Context(), first.Tree).ReadFile("a.txt"); err != nil || string(data) != "a\n" {
		t.Errorf("the data is %q, the error is %v", data, err)
	}
}

func TestLargeFilesAreNotRead(t *testing.T) {
	dir := source(t)
	zeros := make([]byte, MaxObject+1)
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, name), zeros, 0o600); err != nil {
			t.Fatal(err)
		}
		zeros[len(zeros)/2]++ // close enough for a delta
	}
	s := open(t, Options{Dir: dir})
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "large")
	for range 2 {
		snap := open(t, Options{Dir: dir}).Snapshot(t.Context(), resolve(t, s, "HEAD").Tree)
		for _, name := range []string{"one", "two"} {
			if _, err := snap.ReadFile(name); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		runGit(t, dir, "gc", "-q")
	}
	if _, err := writer(t, s).Blob(zeros); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
}

func TestParallelReaders(t *testing.T) {
	dir := source(t)
	for i := range 50 {
		write(t, dir, fmt.Sprintf("many/%d/f", i), strings.Repeat(fmt.Sprintln("line", i), 50*i))
	}
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "many")
	runGit(t, dir, "gc", "-q")
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	tree := resolve(t, s, "HEAD").Tree
	snap := s.Snapshot(t.Context(), tree)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 50 {
				name := fmt.Sprintf("many/%d/f", (i+worker*7)%50)
				if _, err := snap.ReadFile(name); err != nil {
					t.Error(err)
				}
				h, err := w.Blob(fmt.Appendf(nil, "%d %d", worker%2, i))
				if err != nil {
					t.Error(err)
				}
				if _, err := s.Blob(t.Context(), h); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
