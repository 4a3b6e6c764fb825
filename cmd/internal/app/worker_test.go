package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// TestReviewInWorker: the review of a CI job is made in a worker process, in each mode of isolation, and is the same as
// one made here. Without a worker there is none: the process with the credentials reads nothing of the head.
func TestReviewInWorker(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	text := r.Read("apps/shop/layers/global/values.yaml")
	r.Write("apps/shop/layers/global/values.yaml", strings.ReplaceAll(text, "EUR", "CAD"))
	r.Commit("change")
	cache := t.TempDir()
	env := app.Environment{Executable: os.Args[0], Home: cache, Getenv: func(name string) string {
		return map[string]string{"SLUICE_OFFLINE": "1", "SLUICE_CACHE_DIR": cache, "SLUICE_FINGERPRINT_KEY": "k"}[name]
	}}
	open := func(executable string) *app.Session {
		t.Helper()
		env.Executable = executable
		s, err := app.Open(t.Context(), env, app.Options{Repo: r.Dir, Jobs: 2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	request := func() review.Request {
		return review.Request{Request: compare.Request{
			Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD"),
			Key: []byte("k"),
		}, Policy: r.Resolve("HEAD~1").Tree}
	}
	s := open(os.Args[0])
	want, err := review.Local{Session: s}.Review(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	expected, _ := report.Markdown(want.Review, 60_000)
	isolated := func(s *app.Session, mode worker.Mode) (*review.Result, error) {
		workers, stop, err := review.StartWorkers(t.Context(), s.Runtime.Child, mode)
		if err != nil {
			return nil, err
		}
		defer stop()
		return review.Isolated(review.Local{Session: s}, workers, "acme/fleet").Review(t.Context(), request())
	}
	for _, mode := range []worker.Mode{worker.Degraded, worker.Off} {
		got, err := isolated(s, mode)
		if err != nil {
			t.Errorf("%s: the error is %v", mode, err)
			continue
		}
		if text, _ := report.Markdown(got.Review, 60_000); text != expected || !strings.Contains(text, "CAD") {
			t.Errorf("%s: the report differs:\n%s\nwant\n%s", mode, text, expected)
		}
	}
	if got, err := isolated(open(filepath.Join(cache, "none")), worker.Off); err == nil {
		t.Errorf("a review without a worker: %+v", got)
	}
}
