// Package hydratetest provides a source repository on disk and a Hydrator for the tests of hydrate and its packages.
//
// The package is not API: it can change in every release.
package hydratetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// Repo is a source repository with a working tree. Its methods fail the test on any error.
type Repo struct {
	T      testing.TB
	Dir    string
	Signer gitstore.Signer // of the commits that its Hydrators make; nil for none
}

// New returns a repository without a commit.
func New(t testing.TB) *Repo {
	t.Helper()
	r := &Repo{T: t, Dir: t.TempDir()}
	r.Git("init", "-q", "-b", "main")
	return r
}

// Demo returns a repository with one commit: the fleet of testdata/fleet.
func Demo(t testing.TB) *Repo {
	t.Helper()
	r := New(t)
	if err := os.CopyFS(r.Dir, os.DirFS(filepath.Join(Root(t), "testdata/fleet"))); err != nil {
		t.Fatal(err)
	}
	r.Commit("start")
	return r
}

// Root returns the root folder of the module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// Git runs git in the repository, with fixed identities and dates, and returns its output.
func (r *Repo) Git(args ...string) string {
	r.T.Helper()
	return r.Pipe("", args...)
}

// Pipe runs git with an input.
func (r *Repo) Pipe(input string, args ...string) string {
	r.T.Helper()
	cmd := exec.CommandContext(r.T.Context(), "git", args...)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A",
		"GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_AUTHOR_DATE=2024-01-02T03:04:05+0100",
		"GIT_COMMITTER_DATE=2024-01-02T03:04:05+0100")
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.T.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Write writes a file of the working tree.
func (r *Repo) Write(name, data string) {
	r.T.Helper()
	file := filepath.Join(r.Dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

// Read returns a file of the working tree.
func (r *Repo) Read(name string) string {
	r.T.Helper()
	data, err := os.ReadFile(filepath.Join(r.Dir, name))
	if err != nil {
		r.T.Fatal(err)
	}
	return string(data)
}

// Commit commits the working tree.
func (r *Repo) Commit(message string) {
	r.T.Helper()
	r.Git("add", "-A")
	r.Git("commit", "-q", "--allow-empty", "-m", message)
}

// WriteHook writes an executable hook of a bare repository.
func (r *Repo) WriteHook(name, script string) {
	r.T.Helper()
	file := filepath.Join(r.Dir, "hooks", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		r.T.Fatal(err)
	}
}

// Hydrator returns a new Hydrator without caches, whose branches are those of the repository.
func (r *Repo) Hydrator(jobs int) *hydrate.Hydrator {
	r.T.Helper()
	store, err := gitstore.Open(r.T.Context(), gitstore.Options{Dir: r.Dir})
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() {
		if err := store.Close(); err != nil {
			r.T.Error(err)
		}
	})
	return hydrate.New(hydrate.Config{
		Store: store, Branches: store.Local(), Renderer: renderer.NewEngine(renderer.DefaultLimits()),
		Archives: Offline{}, Jobs: jobs, Version: "test",
		Signer: r.Signer,
	})
}

// Offline has no archives.
type Offline struct{}

// Archive implements source.Archives.
func (Offline) Archive(context.Context, fetch.Ref, fetch.Locked) ([]byte, error) {
	return nil, errors.New("no network in this test")
}

// Verify implements source.Archives.
func (Offline) Verify(context.Context, fetch.Ref, fetch.Locked, []signature.Signer) error {
	return errors.New("no network in this test")
}

// Resolve returns the commit of a revision.
func (r *Repo) Resolve(revision string) gitstore.Commit {
	r.T.Helper()
	c, err := r.Hydrator(1).Store.Resolve(r.T.Context(), revision)
	if err != nil {
		r.T.Fatal(err)
	}
	return c
}

// Hydrate hydrates HEAD to the branches of dev, staging and prod, with a new Hydrator.
func (r *Repo) Hydrate(change func(*hydrate.Request)) *hydrate.Result {
	r.T.Helper()
	h := r.Hydrator(2)
	c, err := h.Store.Resolve(r.T.Context(), "HEAD")
	if err != nil {
		r.T.Fatal(err)
	}
	request := hydrate.Request{Commit: c, Write: true, Environments: []string{"dev", "staging", "prod"}}
	if change != nil {
		change(&request)
	}
	result, err := h.Hydrate(r.T.Context(), request)
	if err != nil {
		r.T.Fatal(err)
	}
	return result
}
