package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
	"github.com/sluice-gitops/sluice/site"
)

// TestServicePages opens a live page of the real service and has a branch move: the open page is told, and the page
// that is loaded then shows it. The time is logged and bounded loosely, since the machine may be busy.
func TestServicePages(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	binary, dir := build(t), t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := stage.New(t.Context(), stage.Options{Kind: "github", Dir: dir, Fleet: "../../testdata/fleet"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	searchCanaries(t, binary).stage(s, dir)
	pages, err := stage.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	service, err := s.Serve(t.Context(), stage.Serving{Binary: binary, Log: log, Extra: "pages: {listen: " + pages +
		", address: \"http://" + pages + "\"}\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Kill)
	t.Cleanup(func() {
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			t.Logf("%s %v", text, err)
		}
	})
	if err := stage.WaitFor(t.Context(), stage.Patience, "dev is hydrated",
		func() bool { return s.Ref("cluster/dev-1") != "" }); err != nil {
		t.Fatal(err)
	}
	base := "http://" + pages + "/f/" + stage.Repository + "/-/"
	if got := loadPage(t, base+"index.html"); !strings.Contains(got, "7 clusters in 3 environments") ||
		!strings.Contains(got, `data-live="events"`) {
		t.Errorf("the overview: %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stage.Patience)
	defer cancel()
	events := openPage(ctx, t, base+"events") //nolint:bodyclose // closed when the test ends
	began := time.Now()
	if err := s.Git(s.Bare(), "update-ref", "-d", "refs/heads/cluster/dev-edge-1"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(events.Body)
	for lines.Scan() && lines.Text() != "event: changed" {
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	t.Logf("an open page is told after %s", time.Since(began))
	if got := loadPage(t, base+"clusters/dev-edge-1.html"); !strings.Contains(got, "its branch does not exist") {
		t.Errorf("the page does not show that the branch is gone: %s", got)
	}
	if got := loadPage(t, base+"search.html?q=collector"); !strings.Contains(got, "dev-1") {
		t.Errorf("the search: %s", got)
	}
	reviewIsLinked(t, s, base)
}

// reviewIsLinked opens a merge request and follows the link of its comment to the page of the report.
func reviewIsLinked(t *testing.T, s *stage.Stage, base string) {
	t.Helper()
	const values = "apps/shop/layers/environment/prod/values.yaml"
	if err := s.Branch("more", "Raise the replicas", func(dir string) error {
		return os.WriteFile(filepath.Join(dir, values), []byte("replicas: 9\n"), 0o600)
	}); err != nil {
		t.Fatal(err)
	}
	number, err := s.Open("more", "ada")
	if err != nil {
		t.Fatal(err)
	}
	link := base + site.ReportPath(number, s.Head(number))
	if err := stage.WaitFor(t.Context(), stage.Patience, "the comment links to the report",
		func() bool { return strings.Contains(strings.Join(s.Comments(number), ""), link) }); err != nil {
		t.Fatal(err, s.Comments(number))
	}
	if got := loadPage(t, link); !strings.Contains(got, "<!doctype html>") || !strings.Contains(got, "replicas") {
		t.Errorf("the report: %s", got)
	}
	if err := stage.WaitFor(t.Context(), stage.Patience, "the list has the merge request", func() bool {
		got := loadPage(t, base+"merge-requests.html") // it is as old as the last look at the branches
		return strings.Contains(got, "1 open merge request") && strings.Contains(got, "Change more")
	}); err != nil {
		t.Error(err)
	}
}

// loadPage reads a page of the service.
func loadPage(t *testing.T, address string) string {
	t.Helper()
	answer := openPage(t.Context(), t, address) //nolint:bodyclose // closed when the test ends
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: the status code is %d, the error is %v, the body is %s", address, answer.StatusCode, err, body)
	}
	return string(body)
}

func openPage(ctx context.Context, t *testing.T, address string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() }) // it was only read
	return answer
}
