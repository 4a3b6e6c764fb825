package gitstore

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// own returns a bare repository with branches that have a commit each: so many that no pipe holds the list of them.
func own(t *testing.T, format string) (dir string, branches int) {
	t.Helper()
	branches = 3000
	dir = filepath.Join(t.TempDir(), "r.git")
	runGit(t, filepath.Dir(dir), "init", "-q", "--bare", "--object-format="+format, dir)
	var commits strings.Builder
	for i := range branches {
		fmt.Fprintf(&commits, "commit refs/heads/cluster/c-%04d\ncommitter a <a@example.com> %d +0000\ndata 1\nx\n\n",
			i, 1_700_000_000+i)
	}
	cmd := exec.CommandContext(t.Context(), "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(commits.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the error is %v: the output is %s", err, out)
	}
	return dir, branches
}

// within fails the test if do takes so long that it waits for something that does not come.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it hangs")
	}
}

// A clone with --depth has a line for each commit without parents, after the refs. go-git reads them.
func TestRefsOfAShallowClone(t *testing.T) {
	t.Parallel()
	dir, branches := own(t, "sha1")
	write(t, dir, "shallow", runGit(t, dir, "for-each-ref", "--format=%(objectname)", heads)+"\n")
	s := open(t, Options{URL: dir, CacheDir: t.TempDir()})
	b, err := s.Remote(dir, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	within(t, func() {
		if refs, err := b.List(t.Context(), "cluster/"); err != nil || len(refs) != branches {
			t.Errorf("%d refs of %d, %v", len(refs), branches, err)
		}
	})
	within(t, func() {
		w := writer(t, s)
		if got, err := b.Push(t.Context(), w, []Move{{"env/dev", Hash{}, commitOf(t, w, "one")}},
			PushOptions{}); err != nil || got[0].State != Updated {
			t.Errorf("the result of Push is %+v, the error is %v", got, err)
		}
	})
}

// An advertisement that nobody understands is an error, also when the server still writes it.
func TestRefsOfAnotherFormat(t *testing.T) {
	t.Parallel()
	dir, _ := own(t, "sha256")
	b, err := open(t, Options{URL: dir, CacheDir: t.TempDir()}).Remote(dir, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	within(t, func() {
		if refs, err := b.List(t.Context(), "cluster/"); err == nil {
			t.Errorf("%d refs", len(refs))
		}
	})
	within(t, func() {
		if got, err := b.Push(t.Context(), nil, []Move{{"cluster/c-0000", Hash{1}, Hash{}}},
			PushOptions{}); err == nil {
			t.Errorf("the result of Push is %+v", got)
		}
	})
}

// A fetch that fails ends, also when the server still writes the packfile.
func TestFetchThatIsTooLargeEnds(t *testing.T) {
	t.Parallel()
	dir := source(t)
	generous(t, dir)
	var noise bytes.Buffer
	if _, err := io.CopyN(&noise, rand.NewChaCha8([32]byte{}), 4<<20); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "large", noise.String())
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "large")
	head := resolve(t, open(t, Options{Dir: dir}), "HEAD").Hash
	s := open(t, Options{URL: dir, CacheDir: t.TempDir()})
	e, err := newEndpoint(dir, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	e.most = 64 << 10
	within(t, func() {
		if err := s.fetch(t.Context(), e, fetchRequest{objects: []Hash{head}, depth: 1}); err == nil ||
			!strings.Contains(err.Error(), "split the repository") {
			t.Errorf("the error is %v", err)
		}
	})
}
