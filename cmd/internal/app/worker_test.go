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
)

// TestReviewInWorker: the review of a CI job is made in a worker process, in each mode of isolation, and is the same as one made here.
// Without a worker there is none: the process with the credentials reads nothing of the head.
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
	request := func() app.ReviewOptions {
		return app.ReviewOptions{Compare: compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD"), Key: []byte("k")}, Policy: r.Resolve("HEAD~1").Tree}
	}
	s := open(os.Args[0])
	want, _, err := s.Review(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	expected, _ := report.Markdown(want, 60_000)
	for _, mode := range []worker.Mode{worker.Degraded, worker.Off} {
		got, err := s.ReviewInWorker(t.Context(), mode, "acme/fleet", request())
		if err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		if text, _ := report.Markdown(got, 60_000); text != expected || !strings.Contains(text, "CAD") {
			t.Errorf("%s: the report differs:\n%s\nwant\n%s", mode, text, expected)
		}
	}
	if got, err := open(filepath.Join(cache, "none")).ReviewInWorker(t.Context(), worker.Off, "acme/fleet", request()); err == nil {
		t.Errorf("a review without a worker: %+v", got)
	}
}
