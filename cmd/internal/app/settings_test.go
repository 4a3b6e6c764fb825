package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// reload replaces a text of the configuration, and makes a running service read it again.
func (s *story) reload(old, with string) {
	s.t.Helper()
	if !strings.Contains(s.config, old) {
		s.t.Fatalf("the configuration has no %q", old)
	}
	s.config = strings.Replace(s.config, old, with, 1)
	if s.service != nil {
		if err := s.service.Reload(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *story) draft(number int, draft bool) {
	s.t.Helper()
	if s.tea != nil {
		s.tea.edit(repo, number, map[string]any{"title": map[bool]string{true: "WIP: Change", false: "Change"}[draft]})
	} else if s.lab != nil {
		s.lab.Draft(repo, number, draft)
	} else if err := s.hub.DraftPR(repo, number, draft); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) label(number int, labels ...string) {
	s.t.Helper()
	if s.tea != nil {
		s.tea.label(repo, number, labels...)
	} else if s.lab != nil {
		s.lab.Label(repo, number, labels...)
	} else if err := s.hub.LabelPR(repo, number, labels...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) retarget(number int, base string) {
	s.t.Helper()
	if s.tea != nil {
		s.tea.edit(repo, number, map[string]any{"base": base})
	} else if s.lab != nil {
		s.lab.Retarget(repo, number, base)
	} else if err := s.hub.RetargetPR(repo, number, base); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) reopen(number int) {
	s.t.Helper()
	if s.tea != nil {
		s.tea.edit(repo, number, map[string]any{"state": "open"})
	} else if s.lab != nil {
		s.lab.Reopen(repo, number)
	} else if err := s.hub.ReopenPR(repo, number); err != nil {
		s.t.Fatal(err)
	}
}

// A merge request that the settings exclude is reviewed when it is ready, or when it gets the label.
func TestDraftsAndLabels(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.reload("repositories: ["+repo+"]", "repositories: ["+repo+
			"], settings: {drafts: false, labels: [fleet], skipLabels: [hold]}")
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		reviews := func() float64 { return s.metric("sluice_task_seconds_count", `kind="review"`) }
		silent := func(why string) {
			t.Helper()
			before := reviews()
			s.until("it was looked at", func() bool { return reviews() > before+1 })
			if got := s.status(s.head(n), "sluice"); got != "" || len(s.comments(n)) > 0 {
				t.Errorf("%s: status %q, comments %q", why, got, s.comments(n))
			}
		}
		silent("it has no label")
		s.draft(n, true)
		s.label(n, "fleet")
		silent("it is a draft")
		s.label(n, "fleet", "hold") // each label sends a webhook
		s.draft(n, false)
		silent("it is put on hold")
		s.label(n, "fleet")
		s.says(n, "+  currency: CAD")
	})
}

// A merge request with another target is compared with that one. A closed merge request that is opened again is
// reviewed again.
func TestRetargetAndReopen(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.branch("release", "GBP")
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		s.says(n, "-  currency: USD", "+  currency: CAD")
		preview := fmt.Sprintf("sluice/preview/%d", n)
		s.until("there is a preview", func() bool { return s.ref(preview) != "" })
		s.shut(n)
		s.until("the preview is gone", func() bool { return s.ref(preview) == "" })
		s.reopen(n)
		s.until("the preview is back", func() bool { return s.ref(preview) != "" })
		s.says(n, "-  currency: USD", "+  currency: CAD")

		// release was made from the same commit: onto it, the change is CAD as well. With main merged into cad it is
		// another one.
		work := filepath.Join(s.dir, "work")
		s.run(work, "checkout", "-q", "cad")
		s.run(work, "merge", "-q", "-s", "ours", "-m", "ours", "origin/release")
		s.push("cad")
		s.pushed(n)
		s.retarget(n, "release")
		s.says(n, "-  currency: GBP", "+  currency: CAD")
		s.until("it is green", func() bool { return s.status(s.head(n), "sluice into release") == "success" })
	})
}

// There is no preview if previews are off, or if more targets differ than the limit.
func TestPreviewsOffAndCapped(t *testing.T) {
	s := newStory(t, "gitlab")
	s.reload("repositories: ["+repo+"]", "repositories: ["+repo+"], settings: {previews: false}")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.branch("cad", "CAD")
	first := s.open("cad", "ada")
	s.says(first, "CAD")
	s.until("it is green", func() bool { return s.status(s.head(first), "sluice") == "success" })
	s.reload("{previews: false}", "{previewCap: 2}")
	second := s.greet("step") // changes four clusters
	s.says(second, "step")
	s.until("it is green", func() bool { return s.status(s.head(second), "sluice") == "success" })
	s.branch("gbp", "GBP") // changes one cluster
	third := s.open("gbp", "ada")
	s.says(third, "GBP")
	s.until("a small one has a preview", func() bool { return s.ref(fmt.Sprintf("sluice/preview/%d", third)) != "" })
	for _, n := range []int{first, second} {
		if s.ref(fmt.Sprintf("sluice/preview/%d", n)) != "" {
			t.Errorf("!%d has a preview", n)
		}
	}
}

// gate is a handler before a Git server. It refuses requests that may does not allow, and counts the others by
// password.
type gate struct {
	next  http.Handler
	may   func(password, path string, push bool) bool // path of the repository
	mu    sync.Mutex
	pulls map[string]int // requests by password
	sent  map[string]int // requests of pushes by password
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, password, _ := r.BasicAuth()
	push := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
	path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	if !g.may(password, path, push) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(map[bool]int{true: http.StatusUnauthorized, false: http.StatusForbidden}[password == ""])
		return
	}
	g.mu.Lock()
	if push {
		g.sent[password]++
	} else {
		g.pulls[password]++
	}
	g.mu.Unlock()
	g.next.ServeHTTP(w, r)
}

// limitGit puts a gate before the story's Git server, for the service and for the story.
func (s *story) limitGit(may func(password, path string, push bool) bool) *gate {
	s.t.Helper()
	g := &gate{
		next: backend(s.t, filepath.Join(s.dir, "git")), may: may, pulls: map[string]int{},
		sent: map[string]int{},
	}
	server := httptest.NewServer(g)
	s.t.Cleanup(server.Close)
	s.config = strings.ReplaceAll(s.config, s.git.URL, server.URL)
	s.git = server
	return g
}

// The service reads Git with gitToken and pushes with pushToken. gitToken has no right to push here.
func TestSeparateCredentials(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		g := s.limitGit(func(password, _ string, push bool) bool {
			return password == "the-pusher" || password == "the-reader" && !push
		})
		for name, token := range map[string]string{"reader": "the-reader", "pusher": "the-pusher"} {
			if err := os.WriteFile(filepath.Join(s.dir, name), []byte(token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.reload("token: {env: TOKEN}", fmt.Sprintf("token: {env: TOKEN}, gitToken: {file: %q}, pushToken: {file: %q}",
			filepath.Join(s.dir, "reader"), filepath.Join(s.dir, "pusher")))
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		s.says(n, "CAD")
		s.until("there is a preview", func() bool { return s.ref(fmt.Sprintf("sluice/preview/%d", n)) != "" })
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.pulls["the-reader"] == 0 || g.sent["the-pusher"] == 0 || g.sent["the-reader"] > 0 {
			t.Errorf("read by %v, written by %v", g.pulls, g.sent)
		}
	})
}
