package promotion_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// repo is a source repository with a working tree.
type repo struct {
	t      *testing.T
	dir    string
	signer gitstore.Signer // of the commits that hydrator() makes; nil for none
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_AUTHOR_DATE=2024-01-02T03:04:05+0100", "GIT_COMMITTER_DATE=2024-01-02T03:04:05+0100")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) write(name, data string) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) commit(message string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
}

// demo is the project's own small fleet, committed.
func demo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t: t, dir: t.TempDir()}
	if err := os.CopyFS(r.dir, os.DirFS("../../testdata/fleet")); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	r.commit("start")
	return r
}

type noArchives struct{}

func (noArchives) Archive(context.Context, fetch.Ref, fetch.Locked) ([]byte, error) {
	return nil, fmt.Errorf("no network in this test")
}

func (noArchives) Verify(context.Context, fetch.Ref, fetch.Locked, []signature.Signer) error {
	return fmt.Errorf("no network in this test")
}

func (r *repo) hydrator() *hydrate.Hydrator {
	r.t.Helper()
	store, err := gitstore.Open(r.t.Context(), gitstore.Options{Dir: r.dir})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = store.Close() }) // the directory goes with the test
	return hydrate.New(hydrate.Config{
		Store: store, Branches: store.Local(), Renderer: renderer.NewEngine(renderer.DefaultLimits()), Archives: noArchives{}, Jobs: 2, Version: "test", Signer: r.signer,
	})
}

func (r *repo) hydrate(change func(*hydrate.Request)) {
	r.t.Helper()
	h := r.hydrator()
	c, err := h.Store.Resolve(r.t.Context(), "HEAD")
	if err != nil {
		r.t.Fatal(err)
	}
	request := hydrate.Request{Commit: c, Write: true}
	if change != nil {
		change(&request)
	}
	result, err := h.Hydrate(r.t.Context(), request)
	if err != nil || !result.OK() {
		r.t.Fatalf("%+v, %v", result, err)
	}
}
