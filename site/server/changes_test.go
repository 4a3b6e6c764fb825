package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/server"
)

func (s *source) Changes(_ context.Context, repository string, c site.Change) (*report.Review, error) {
	s.changes.Add(1)
	return &report.Review{
		Fleet: repository, Base: c.Before, Head: c.After, Verdict: report.VerdictPass,
		Changes: &diff.ChangeSet{},
	}, nil
}

// historySource has an environment with a history.
type historySource struct {
	source
	trunk atomic.Pointer[string] // its tip; nil is head
}

func (s *historySource) Read(_ context.Context, name string, _ *site.Fleet) (*site.Fleet, error) {
	e := &site.Environment{Name: "prod", History: []site.Event{
		{Commit: head, Before: older},
		{At: time.Now(), Kind: "freeze"},
		{Commit: older},
	}}
	tip := head
	if moved := s.trunk.Load(); moved != nil {
		tip = *moved
	}
	return &site.Fleet{
		Name: name, Trunk: "main", Made: time.Now(), Tip: site.Commit{Hash: tip},
		Environments: []*site.Environment{e},
	}, nil
}

const older = "89abcdef0123456789abcdef0123456789abcdef"

// TestChangePages: two states that the history lists are compared, once; others, and other repositories, are not found.
func TestChangePages(t *testing.T) {
	t.Parallel()
	from := &historySource{source: source{tips: "1"}}
	rights := func(_ context.Context, _, repository string) (bool, error) { return repository == "acme/fleet", nil }
	at := &clock{}
	h := start(t, server.Config{Source: from, Access: everybody{}, Rights: rights, Clock: at.now})
	form := "changes.html?environment=prod&from=" + older + "&to="
	for path, want := range map[string]int{
		"/acme/fleet/-/changes/prod/" + older + ".." + head + ".html": 200, "/acme/fleet/-/" + form + head: 200,
		"/acme/fleet/-/changes/prod/" + head + ".." + older + ".html": 200,
		"/acme/fleet/-/" + form + "HEAD":                              404, "/acme/fleet/-/changes/dev/" + older + ".." + head + ".html": 404,
		"/acme/fleet/-/changes/prod/next.html":                                         404,
		"/secret/fleet/-/changes/prod/" + older + ".." + head + ".html":                404,
		"/acme/fleet/-/changes/prod/..%2f..%2fx..y.html":                               404,
		"/acme/fleet/-/changes.html?environment=prod&from=..%2f&to=//evil.example.com": 404,
	} {
		for range 2 {
			if code, body := get(t, h.Client(), h.URL+path, "X-Person", "ada"); code != want {
				t.Errorf("%s: the status code is %d, want %d: the body is %.80s", path, code, want, body)
			}
		}
	}
	if n := from.changes.Load(); n != 2 {
		t.Errorf("%d pages were made for two changes", n)
	}
	moved := older
	from.trunk.Store(&moved)
	from.move("2")
	at.advance(time.Minute)
	get(t, h.Client(), h.URL+"/acme/fleet/-/changes/prod/"+older+".."+head+".html", "X-Person", "ada")
	if n := from.changes.Load(); n != 3 {
		t.Errorf("%d pages were made: that of an earlier trunk, whose registry it shows, is kept", n)
	}
}
