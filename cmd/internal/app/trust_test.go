package app_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
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

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
	"github.com/sluice-gitops/sluice/service/config"
)

// hold keeps webhooks of an event back until release is called, which delivers them.
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
	switch {
	case s.hub != nil:
		s.hub.SetOnEvent(take)
	case s.tea != nil:
		s.tea.take = take
	default:
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

// commentEvent returns the name of the event of a new comment.
func (s *story) commentEvent() string {
	if s.hub != nil || s.tea != nil {
		return "issue_comment"
	}
	return "Note Hook"
}

// editLast edits the last comment of a merge request as mal, whom the forge allows to edit the comments of others.
func (s *story) editLast(number int, text string) {
	s.t.Helper()
	var r *http.Request
	var err error
	if s.hub != nil {
		_, token := s.hub.AddUser("mal")
		s.hub.Grant(repo, "mal", "write")
		all := s.hub.Comments(repo, number)
		r, err = http.NewRequestWithContext(s.t.Context(), http.MethodPatch,
			fmt.Sprintf("%s/repos/%s/issues/comments/%d", s.forge.URL, repo, all[len(all)-1].ID),
			strings.NewReader(fmt.Sprintf(`{"body":%q}`, text)))
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	} else {
		s.lab.AddUser("mal", "token-of-mal", false)
		s.lab.Grant(repo, "mal", fakegitlab.Maintainer)
		all := s.lab.Notes(repo, number)
		r, err = http.NewRequestWithContext(s.t.Context(), http.MethodPut,
			fmt.Sprintf("%s/api/v4/projects/%s/merge_requests/%d/notes/%d", s.forge.URL, url.PathEscape(repo), number,
				all[len(all)-1].ID), strings.NewReader(fmt.Sprintf(`{"body":%q}`, text)))
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

// A command that one person writes into the comment of another is refused: it does not run with the rights of the
// comment's author.
func TestEditedComment(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.setFleet("main", gated)
		s.reload("sweep: 5s", "sweep: 1h") // otherwise a sweep can find the comment before it is edited
		s.start()
		s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
		n := s.greet("step")
		s.says(n, "step")
		s.drained() // a review under way would find the comment
		release := s.hold(s.commentEvent())
		s.say(n, "mia", "Looks good, thanks!")
		s.editLast(n, "/sluice freeze prod --reason mal-was-here")
		release()
		s.says(n, "the comment was edited")
		s.drained()
		release = s.hold(s.commentEvent())
		s.say(n, "mia", "/sluice freeze prod --reason meant")
		s.editLast(n, "/sluice freeze prod --reason mal-was-here")
		release()
		s.until("it is refused too", func() bool { return strings.Count(s.all(n), "the comment was edited") == 2 })
		if strings.Contains(s.promotionRecord(), "mal-was-here") || strings.Contains(s.all(n), "mal-was-here") {
			t.Errorf("mal's words count as mia's: %s", s.promotionRecord())
		}
		s.say(n, "mia", "/sluice freeze prod --reason herself")
		s.until("her own words count", func() bool { return strings.Contains(s.promotionRecord(), "herself") })
	})
}

// promotionRecord returns the text of all files on the branch sluice/state; "" if the branch does not exist.
func (s *story) promotionRecord() string {
	if s.ref("sluice/state") == "" {
		return ""
	}
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", s.bare(repo), "grep", "-h",
		"", "refs/heads/sluice/state").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

// chartServer starts a server that records requests and answers 404: at once if let is nil, otherwise after let is
// closed.
func (s *story) chartServer(let <-chan struct{}) (address string, heard func() string) {
	s.t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r.Method+" "+r.URL.String())
		mu.Unlock()
		if let != nil {
			select {
			case <-let:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	s.t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(all, ", ")
	}
}

// useChartOf pushes a branch on which the app shop is a chart of the server at an address.
func (s *story) useChartOf(branch, address string) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", branch, "origin/main")
	for name, text := range map[string]string{
		"apps/shop/app.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: shop}\nspec:\n  namespace: shop\n  placement: {matchLabels: {tier: core}}\n" +
			"  source:\n    helm: {chart: web, repo: \"" + address + "\", version: 1.0.0}\n",
		"sluice.lock": "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts:\n  - {repo: \"" + address +
			"\", chart: web, version: 1.0.0, resolved: 1.0.0, digest: \"sha256:" + strings.Repeat("ab", 32) + "\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.commit("another chart")
	s.push(branch)
}

// grantRead lets a user read the repository.
func (s *story) grantRead(login string) {
	if s.hub != nil {
		s.hub.Grant(repo, login, "read")
		return
	}
	s.lab.Grant(repo, login, fakegitlab.Reporter)
}

// Sluice refuses /sluice diff and /sluice explain on a merge request that waits for trust. It renders nothing of it and
// sends no request to the chart repository that it names.
func TestQuestionsOfStrangers(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		address, heard := s.chartServer(nil)
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.grantRead("eve")
		s.useChartOf("lure", address)
		n := s.open("lure", "eve")
		s.until("it waits", func() bool { return s.status(s.head(n), "sluice") == "pending" })
		s.say(n, "eve", "/sluice explain shop prod-us-1 .\n/sluice diff")
		s.until("both are refused", func() bool {
			return strings.Count(s.all(n),
				"waits for trust: somebody with write access") == 2
		})
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
		s.until("both are answered", func() bool { return len(s.comments(other)) == 3 })
		for _, part := range []string{"+  currency: CAD", "region=us-east-1"} {
			if answers := strings.Join(s.comments(other)[1:], "\n"); !strings.Contains(answers, part) {
				t.Errorf("no answer says %q: %s", part, answers)
			}
		}
	})
}

// trust comments /sluice trust as ada, who has write access. It moves the clock first, because the times of forges have
// seconds: a comment within the second of the push would not be later than the head.
func (s *story) trust(number int) {
	s.later(2 * time.Second)
	s.say(number, "ada", "/sluice trust")
}

// A comment /sluice trust is for the head that the merge request had when the comment was written. It does not trust a
// head that was pushed afterwards, not even an earlier one that returns.
func TestTrustOfAnotherHead(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.reload("sweep: 5s", "sweep: 1h") // otherwise a sweep can find the comment before the push
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.branch("patch", "CAD")
		n := s.open("patch", "eve")
		s.until("it waits", func() bool { return s.status(s.head(n), "sluice") == "pending" })
		first := s.head(n)
		s.drained() // a review under way would find the comment
		release := s.hold(s.commentEvent())
		s.trust(n)
		s.set("EVIL")
		s.commit("evil")
		s.push("patch")
		s.pushed(n)
		release()
		s.says(n, "came after the comment")
		s.until("the other head waits", func() bool {
			return s.head(n) != first &&
				s.status(s.head(n), "sluice") == "pending"
		})
		s.until("the comment says so", func() bool { return strings.Contains(s.all(n), "head "+s.head(n)) })
		s.drop = func(event string) bool { return event != s.commentEvent() }
		s.drained()
		release = s.hold(s.commentEvent())
		s.trust(n)
		s.run(filepath.Join(s.dir, "work"), "push", "-qf", "origin", first+":patch")
		s.pushed(n)
		release()
		s.until("the old head is not taken for the new one", func() bool {
			return strings.Count(s.all(n),
				"came after the comment") == 2
		})
		if all := s.all(n); strings.Contains(all, "EVIL") || strings.Contains(all, "currency: CAD") {
			t.Errorf("a head was rendered that nobody looked at: %s", all)
		}
		s.trust(n)
		s.says(n, "+  currency: CAD", "is trusted")
		if strings.Contains(s.all(n), "is not rendered") {
			t.Errorf("it still waits: %s", s.all(n))
		}
	})
}

// A head that waits for trust gets one status and one comment. Sweeps repeat neither, not even after a restart.
func TestWaitingIsSaidOnce(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.branch("patch", "CAD")
	n := s.open("patch", "eve")
	s.until("it waits", func() bool { return s.status(s.head(n), "sluice") == "pending" })
	s.end()
	s.start() // what it remembered is gone
	s.idle()
	count := 0
	for _, one := range s.hub.Statuses(repo, s.head(n)) {
		if one.Context == "sluice" {
			count++
		}
	}
	if all := s.comments(n); count != 1 || len(all) != 1 {
		t.Errorf("%d statuses, %d comments", count, len(all))
	}
}

// A GitHub App reports that a head waits for trust in a check run, and completes the same check run with the verdict.
func TestPendingCheckEnds(t *testing.T) {
	s := newStory(t, "github")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	s.hub.AddApp(fakegithub.App{ID: 77, Slug: "sluice-app", Key: &key.PublicKey})
	s.hub.Install(77, "acme")
	s.config = strings.Replace(s.config, "token: {env: TOKEN}", "app: {id: 77, key: {env: KEY}}", 1)
	getenv := s.options.Env.Getenv
	s.options.Load = func() (*config.Config, error) {
		return config.Parse("config.yaml", []byte(s.config), config.Sources{
			Read: os.ReadFile,
			Getenv: func(name string) string {
				if name == "KEY" {
					return private
				}
				return getenv(name)
			},
		})
	}
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.branch("patch", "CAD")
	n := s.open("patch", "eve")
	check := func() string {
		all := s.hub.Checks(repo, s.head(n))
		if len(all) == 0 {
			return ""
		}
		return all[len(all)-1].Status + " " + all[len(all)-1].Conclusion
	}
	s.until("it waits", func() bool { return check() == "queued " })
	s.trust(n)
	s.until("it is checked", func() bool { return check() == "completed success" })
	if got := s.status(s.head(n), "sluice"); got != "" || len(s.hub.Checks(repo, s.head(n))) != 1 {
		t.Errorf("there is a commit status besides, which is %s; checks: %+v", got, s.hub.Checks(repo, s.head(n)))
	}
}

// refusePushes makes the Git server refuse pushes, or accept them again.
func (s *story) refusePushes(refuse bool) {
	s.run(s.bare(repo), "config", "http.receivepack", fmt.Sprint(!refuse))
}

// gatedStep starts the service with the fleet whose prod has gates, and returns a merge request that is reviewed.
func (s *story) gatedStep() int {
	s.setFleet("main", gated)
	s.start()
	s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
	n := s.greet("step")
	s.says(n, "step")
	return n
}

// A command is answered once, even if another command of the same comment fails and the service retries the comment.
func TestAnswersOnce(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		n := s.gatedStep()
		s.refusePushes(true)
		s.say(n, "mia", "/sluice help\n/sluice diff\n/sluice freeze prod --reason slow")
		s.until("it is answered", func() bool { return len(s.comments(n)) > 2 })
		s.failures("comment", 2)
		s.refusePushes(false)
		s.until("the last one is done", func() bool { return strings.Contains(s.all(n), "freeze prod --reason") })
		if all := s.comments(n); len(all) != 3 {
			t.Errorf("%d comments, not the review and two answers:\n%s", len(all), s.all(n))
		}
	})
}

// The service reports a command that fails repeatedly, and `/sluice retry` repeats it.
func TestParkedCommand(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.options.Retry = 10 * time.Millisecond
		n := s.gatedStep()
		s.refusePushes(true)
		s.say(n, "mia", "/sluice freeze prod --reason stuck")
		s.says(n, "failed repeatedly")
		s.refusePushes(false)
		s.say(n, "ada", "/sluice retry")
		s.until("it is done after all", func() bool { return strings.Contains(s.promotionRecord(), "stuck") })
		s.says(n, "a new review starts; parked tasks to retry: 1")
		s.until("the log says both", func() bool {
			return strings.Count(s.all(n),
				"`/sluice freeze prod --reason") == 2
		})
	})
}

// If the credential may not read a team, the command that needs it fails without a retry, and the comment says so.
func TestForbiddenCommand(t *testing.T) {
	s := newStory(t, "github")
	s.setFleet("main", strings.Replace(gated, "{verbs: [now], users: [mia]}", "{verbs: [halt], teams: [acme/on-call]}",
		1))
	s.start()
	s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
	n := s.greet("step")
	s.says(n, "step")
	s.hub.Fail(fakegithub.Fault{Kind: fakegithub.Denied, Path: "/teams/", Times: 1000})
	s.say(n, "mia", "/sluice halt prod\n/sluice help")
	s.until("the rest is answered", func() bool { return len(s.comments(n)) == 2 })
	s.until("the failure is told", func() bool {
		return strings.Contains(s.comments(n)[0], "failed: ") && strings.Contains(s.comments(n)[0], "answered")
	})
}

// A comment that was edited while the service was down is refused.
func TestLostEditedCommand(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		n := s.gatedStep()
		s.end()
		s.say(n, "mia", "hello")
		s.later(2 * time.Second) // forges' times have seconds
		s.editLast(n, "/sluice freeze prod --reason mal-was-here")
		s.start()
		s.says(n, "the comment was edited")
		if strings.Contains(s.promotionRecord(), "mal-was-here") {
			t.Error("mal's words count as mia's")
		}
	})
}

// Commands run while a review of the same repository hangs: a person with write access freezes an environment and
// cancels the review. A canceled review starts again only with /sluice retry.
func TestCommandsDoNotWait(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		let := make(chan struct{})
		address, heard := s.chartServer(let)
		defer close(let)
		other := s.gatedStep()
		s.grantRead("eve")
		s.useChartOf("slow", address)
		n := s.open("slow", "ada")
		s.until("the review takes its time", func() bool { return heard() != "" })
		s.say(other, "mia", "/sluice freeze prod --reason fire")
		s.until("a freeze does not wait", func() bool { return strings.Contains(s.promotionRecord(), "fire") })
		asked := func() int { return strings.Count(heard(), "GET") }
		before := asked()
		s.say(n, "eve", "/sluice cancel")
		s.says(n, "refused")
		if asked() != before || strings.HasPrefix(s.status(s.head(n), "sluice"), "fail") {
			t.Errorf("a reader interrupts the review: %s", s.all(n))
		}
		s.say(n, "mia", "/sluice cancel")
		s.says(n, "the review was stopped")
		s.until("the status says so", func() bool { return strings.HasPrefix(s.status(s.head(n), "sluice"), "fail") })
		before = asked()
		s.idle()
		if asked() != before {
			t.Error("what was stopped began again by itself")
		}
		s.say(n, "mia", "/sluice retry")
		s.until("it begins again", func() bool { return asked() > before })
	})
}

// The commit of a merge queue's group gets a status with the verdict, and the merge requests get no comment.
func TestMergeQueue(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.says(n, "+  currency: CAD")
	before := s.all(n)
	s.run(filepath.Join(s.dir, "work"), "commit", "-q", "--allow-empty", "-m", "Merge pull request")
	branch := fmt.Sprintf("gh-readonly-queue/main/pr-%d-%s", n, s.ref("main"))
	s.push(branch)
	group := func(action, ref string) {
		s.deliver("merge_group",
			fmt.Appendf(nil, `{"action":%q,"merge_group":{"head_sha":%q,"head_ref":%q,"base_sha":%q,"base_ref":"refs/heads/main"},"repository":{"full_name":%q}}`,
				action, s.ref(branch), ref, s.ref("main"), repo))
	}
	group("checks_requested", "refs/heads/gh-readonly-queue/main/pr-9-0123456789") // gone meanwhile
	group("checks_requested", "refs/heads/"+branch)
	s.until("the group has a verdict", func() bool { return s.status(s.ref(branch), "sluice") == "success" })
	if s.all(n) != before {
		t.Errorf("somebody was told: %s", s.all(n))
	}
	s.run(filepath.Join(s.dir, "work"), "commit", "-q", "--allow-empty", "-m", "another")
	broken := filepath.Join(s.dir, "work", "apps/shop/app.yaml")
	if err := os.WriteFile(broken, []byte("kind: Nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.commit("broken")
	branch = fmt.Sprintf("gh-readonly-queue/main/pr-%d-%s", n+1, s.ref(branch))
	s.push(branch)
	group("checks_requested", "refs/heads/"+branch)
	s.until("a broken group is red", func() bool { return s.status(s.ref(branch), "sluice") == "failure" })
}

// chats returns gated with two changes: everybody with write access may also halt and resume prod, and prod needs no
// statuses of Flux.
func chats() string {
	text := strings.Replace(gated, "freeze, unfreeze, rollback]", "freeze, unfreeze, rollback, halt, resume]", 1)
	return strings.Replace(text, `health: {commitStatuses: ["kustomization/${app}/*"]}`, "health: {}", 1)
}

// Every question in a comment is answered, and every command has its effect on the environment.
func TestChat(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.setFleet("main", chats())
		s.start()
		s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
		first := s.greet("first step")
		s.says(first, "first step")
		said := 0
		ask := func(number int, text string, parts ...string) {
			t.Helper()
			said = len(s.comments(number))
			s.say(number, "mia", text)
			s.until(text+" is answered with "+strings.Join(parts, ", "), func() bool {
				all := s.comments(number)
				if len(all) != said+1 {
					return false
				}
				for _, p := range parts {
					if !strings.Contains(all[said], p) {
						return false
					}
				}
				return true
			})
		}
		logs := func(number int, text string, is func() bool) {
			t.Helper()
			before := strings.Count(s.comments(number)[0], "`"+text+"`")
			s.say(number, "mia", text)
			s.until(text+" is logged", func() bool {
				return strings.Count(s.comments(number)[0], "`"+text+
					"`") == before+1
			})
			s.until(text+" is done", is)
		}
		ask(first, "/sluice help", "/sluice rollback ENV")
		ask(first, "/sluice diff --env prod", "mind the first step")
		ask(first, "/sluice explain shop prod-us-1 config.currency", "region=us-east-1", "USD")
		logs(first, "/sluice retry", func() bool { return strings.Contains(s.all(first), "a new review starts") })
		s.merge(first)
		s.until("staging has it", func() bool { return s.holds("cluster/staging-1", "first step") })
		logs(first, "/sluice promote prod", func() bool { return strings.Contains(s.comments(first)[0], "approv") })
		ask(first, "/sluice status", "dev runs", "it follows the trunk", "prod runs nothing", "gate     approvals",
			"waits    ")
		logs(first, "/sluice halt prod", func() bool { return strings.Contains(s.promotionRecord(), "halt") })
		logs(first, "/sluice approve prod", func() bool { return true })
		s.tasks("trunk", 2)
		if s.ref("env/prod") != "" {
			t.Error("prod moved though it is halted")
		}
		ask(first, "/sluice status", "halted   by mia since")
		logs(first, "/sluice resume prod", func() bool { return s.holds("cluster/prod-us-1", "first step") })
		ask(first, "/sluice status", "wave     canary: ", "wave     rest: ")
		logs(first, "/sluice freeze prod --reason x", func() bool {
			return strings.Contains(s.promotionRecord(),
				"freeze")
		})
		second := s.greet("second step")
		s.says(second, "second step")
		s.merge(second)
		s.until("staging has the second", func() bool { return s.holds("cluster/staging-1", "second step") })
		ask(second, "/sluice status", "prod runs", "1 commit behind the trunk")
		logs(second, "/sluice promote prod", func() bool { return true })
		logs(second, "/sluice approve prod", func() bool { return true })
		s.tasks("trunk", 2)
		if s.holds("env/prod", "second step") {
			t.Error("prod moved though it is frozen")
		}
		logs(second, "/sluice unfreeze prod", func() bool { return s.holds("cluster/prod-us-1", "second step") })
		logs(second, "/sluice rollback prod", func() bool {
			return s.holds("cluster/prod-us-1", "first step") && s.holds("cluster/prod-eu-1", "first step") &&
				s.holds("env/prod", "first step")
		})
	})
}
