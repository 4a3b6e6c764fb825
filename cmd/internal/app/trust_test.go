package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// hold keeps webhooks back; the answer delivers them.
func (s *story) hold(event string) (release func()) {
	var mu sync.Mutex
	var held [][]byte
	holding := true
	take := func(e string, body []byte) {
		mu.Lock()
		keep := holding && e == event
		if keep {
			held = append(held, body)
		}
		mu.Unlock()
		if !keep {
			s.deliver(e, body)
		}
	}
	if s.hub != nil {
		s.hub.SetOnEvent(take)
	} else {
		s.lab.SetOnEvent(take)
	}
	return func() {
		mu.Lock()
		all := held
		holding, held = false, nil
		mu.Unlock()
		for _, body := range all {
			s.deliver(event, body)
		}
	}
}

// comment is the webhook of a new comment.
func (s *story) comment() string {
	if s.hub != nil {
		return "issue_comment"
	}
	return "Note Hook"
}

// fleet is another sluice.yaml on the trunk.
func (s *story) fleet(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "work", "sluice.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.commit("another fleet")
	s.push("main")
}

// rewrite edits the last comment of somebody else, as mal, who may.
func (s *story) rewrite(number int, text string) {
	s.t.Helper()
	var r *http.Request
	var err error
	if s.hub != nil {
		_, token := s.hub.AddUser("mal")
		s.hub.Grant(repo, "mal", "write")
		all := s.hub.Comments(repo, number)
		r, err = http.NewRequestWithContext(s.t.Context(), http.MethodPatch, fmt.Sprintf("%s/repos/%s/issues/comments/%d", s.forge.URL, repo, all[len(all)-1].ID), strings.NewReader(fmt.Sprintf(`{"body":%q}`, text)))
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	} else {
		s.lab.AddUser("mal", "token-of-mal", false)
		s.lab.Grant(repo, "mal", fakegitlab.Maintainer)
		all := s.lab.Notes(repo, number)
		r, err = http.NewRequestWithContext(s.t.Context(), http.MethodPut, fmt.Sprintf("%s/api/v4/projects/%s/merge_requests/%d/notes/%d", s.forge.URL, url.PathEscape(repo), number, all[len(all)-1].ID), strings.NewReader(fmt.Sprintf(`{"body":%q}`, text)))
		if err == nil {
			r.Header.Set("Private-Token", "token-of-mal")
			r.Header.Set("Content-Type", "application/json")
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("edit: %d, %v", resp.StatusCode, err)
	}
}

func (s *story) all(number int) string { return strings.Join(s.comments(number), "\n====\n") }

// TestEditedComment: the words of whoever edits somebody's comment are not carried out as that person's.
func TestEditedComment(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.fleet(gated)
		s.start()
		s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
		n := s.greet("step")
		s.says(n, "step")
		release := s.hold(s.comment())
		s.say(n, "mia", "Looks good, thanks!")
		s.rewrite(n, "/sluice freeze prod --reason mal-was-here")
		release()
		s.says(n, "the comment was edited")
		release = s.hold(s.comment())
		s.say(n, "mia", "/sluice freeze prod --reason meant")
		s.rewrite(n, "/sluice freeze prod --reason mal-was-here")
		release()
		s.until("it is refused too", func() bool { return strings.Count(s.all(n), "the comment was edited") == 2 })
		if strings.Contains(s.state(), "mal-was-here") || strings.Contains(s.all(n), "mal-was-here") {
			t.Errorf("mal's words count as mia's: %s", s.state())
		}
		s.say(n, "mia", "/sluice freeze prod --reason herself")
		s.until("her own words count", func() bool { return strings.Contains(s.state(), "herself") })
	})
}

// state is all that the record of promotions says.
func (s *story) state() string {
	if s.ref("sluice/state") == "" {
		return ""
	}
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", filepath.Join(s.dir, "git", repo+".git"), "grep", "-h", "", "refs/heads/sluice/state").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

// stranger is what somebody else's server hears.
func (s *story) stranger() (address string, heard func() string) {
	s.t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r.Method+" "+r.URL.String())
		mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
	}))
	s.t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(all, ", ")
	}
}

// lure makes a branch whose shop is a chart of another server.
func (s *story) lure(branch, address string) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", branch, "origin/main")
	for name, text := range map[string]string{
		"apps/shop/app.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: shop}\nspec:\n  namespace: shop\n  placement: {matchLabels: {tier: core}}\n" +
			"  source:\n    helm: {chart: web, repo: \"" + address + "\", version: 1.0.0}\n",
		"sluice.lock": "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts:\n  - {repo: \"" + address + "\", chart: web, version: 1.0.0, resolved: 1.0.0, digest: \"sha256:" + strings.Repeat("ab", 32) + "\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.commit("another chart")
	s.push(branch)
}

// reader lets somebody read the repository.
func (s *story) reader(login string) {
	if s.hub != nil {
		s.hub.Grant(repo, login, "read")
		return
	}
	s.lab.Grant(repo, login, fakegitlab.Reporter)
}

// TestQuestionsOfStrangers: questions about a merge request that nobody trusts neither render it nor fetch what it names.
func TestQuestionsOfStrangers(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		address, heard := s.stranger()
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.reader("eve")
		s.lure("lure", address)
		n := s.open("lure", "eve")
		s.until("it waits", func() bool { return s.status(s.head(n), "sluice") == "pending" })
		s.say(n, "eve", "/sluice explain shop prod-us-1 .\n/sluice diff")
		s.until("both are refused", func() bool { return strings.Count(s.all(n), "waits for trust: nothing of it is rendered before") == 2 })
		if heard() != "" || len(s.comments(n)) != 1 {
			t.Errorf("the stranger's server heard %q; comments:\n%s", heard(), s.all(n))
		}
		s.branch("patch", "CAD")
		other := s.open("patch", "eve")
		s.until("it waits", func() bool { return s.status(s.head(other), "sluice") == "pending" })
		s.say(other, "eve", "/sluice diff")
		s.says(other, "waits for trust")
		s.trust(other)
		s.says(other, "+  currency: CAD", "is trusted")
		s.say(other, "eve", "/sluice diff --app shop\n/sluice explain shop prod-us-1 config.currency")
		s.until("both are answered", func() bool { return strings.Count(s.all(other), "| answered |") == 2 })
		for _, part := range []string{"+  currency: CAD", "region=us-east-1"} {
			if answers := strings.Join(s.comments(other)[1:], "\n"); !strings.Contains(answers, part) {
				t.Errorf("no answer says %q: %s", part, answers)
			}
		}
	})
}

// trust has ada look at the head, and say so: not within the second in which it was seen, which forges' times do not tell apart.
func (s *story) trust(number int) {
	time.Sleep(1100 * time.Millisecond)
	s.say(number, "ada", "/sluice trust")
}
