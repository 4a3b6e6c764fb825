package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

// gated is a sluice.yaml whose prod needs an approval and green statuses of Flux.
const gated = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: harbour}
spec:
  trunk: main
  layers: [class, environment, region, cluster]
  environments:
    - name: dev
    - name: staging
      after: [dev]
      promotion: {mode: auto}
    - name: prod
      after: [staging]
      promotion:
        mode: manual
        approvers: {count: 1, users: [mia]}
        health: {commitStatuses: ["kustomization/${app}/*"]}
        onFailure: rollback
        rights:
          - {verbs: [promote, approve, freeze, unfreeze, rollback], roles: [write]}
          - {verbs: [now], users: [mia]}
        waves:
          - {name: canary, clusters: {matchLabels: {ring: canary}}}
          - {name: rest}
`

// reports writes the statuses that Flux would write on a cluster branch's tip, one for each app, with the names from
// `sluice bootstrap`.
func (s *story) reports(branch, state string) {
	s.t.Helper()
	sha := s.ref(branch)
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", s.bare(repo), "ls-tree",
		"--name-only", sha).Output()
	apps := strings.Fields(string(out))
	if err != nil || len(apps) < 2 {
		s.t.Fatalf("%s has the apps %v: %v", branch, apps, err)
	}
	for _, app := range apps {
		s.posts(sha, "kustomization/"+app+strings.TrimPrefix(branch, "cluster"), state)
	}
}

// posts writes a status of a commit: success or failure.
func (s *story) posts(sha, name, state string) {
	s.t.Helper()
	if s.tea != nil {
		s.tea.check(s.tea.SetStatus(s.tea.life, repo, sha, "ada", bedtest.GiteaStatus{State: state, Context: name}))
		return
	}
	if s.hub == nil {
		s.lab.SetStatus(repo, sha, "ada", map[string]string{"success": "success", "failure": "failed"}[state], name, "")
		return
	}
	if err := s.hub.SetStatus(repo, fakegithub.Status{SHA: sha, Context: name, State: state}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) greet(text string) int {
	s.t.Helper()
	name := strings.ReplaceAll(text, " ", "-")
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", name, "origin/main")
	file := filepath.Join(work, "apps/shop/layers/global/values.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	for i, l := range lines {
		if strings.HasPrefix(strings.TrimSpace(l), "mind the") {
			lines[i] = "    mind the " + text + "."
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.commit("mind the " + text)
	s.push(name)
	return s.open(name, "ada")
}

// holds reports whether a file of a branch contains a text.
func (s *story) holds(branch, text string) bool {
	if s.ref(branch) == "" {
		return false
	}
	out, err := exec.CommandContext(context.Background(), "git", "-C", s.bare(repo), "grep",
		"-q", text, "refs/heads/"+branch).CombinedOutput()
	if err != nil && len(out) > 0 {
		s.t.Logf("git grep: %s", out)
	}
	return err == nil
}

// Promotes commits from a merge to the last wave of prod, and rolls back when the canary is red.
func TestPromotionByChat(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, "work", "sluice.yaml"), []byte(gated), 0o600); err != nil {
			t.Fatal(err)
		}
		s.commit("gates")
		s.push("main")
		s.start()
		s.until("staging follows by itself", func() bool { return s.ref("env/staging") != "" })

		first := s.greet("first step")
		s.says(first, "first step")
		s.merge(first)
		s.until("staging has it", func() bool { return s.holds("cluster/staging-1", "first step") })
		for _, c := range []string{"cluster/staging-1", "cluster/staging-edge-1"} {
			s.reports(c, "success")
		}
		s.say(first, "eve", "/sluice promote prod")
		s.says(first, "refused")
		s.say(first, "ada", "/sluice promote prod --now --reason hurry")
		s.until("ada may not overtake", func() bool {
			return strings.Count(strings.Join(s.comments(first), ""),
				"refused") > 1
		})
		s.say(first, "ada", "/sluice promote prod")
		s.says(first, "approv")
		if s.ref("env/prod") != "" {
			t.Fatal("prod moved without an approval")
		}
		s.say(first, "mia", "/sluice approve prod")
		s.until("the canary has it", func() bool { return s.holds("cluster/prod-eu-1", "first step") })
		if s.ref("cluster/prod-us-1") != "" {
			t.Error("the rest moved before the canary was well")
		}
		s.reports("cluster/prod-eu-1", "success")
		s.until("the rest has it", func() bool { return s.holds("cluster/prod-us-1", "first step") })
		s.reports("cluster/prod-us-1", "success")
		s.reports("cluster/prod-edge-1", "success")
		s.says(first, "prod", "runs it")
		before := s.ref("cluster/prod-us-1")

		second := s.greet("second step")
		s.merge(second)
		s.until("staging has the second", func() bool { return s.holds("cluster/staging-1", "second step") })
		for _, c := range []string{"cluster/staging-1", "cluster/staging-edge-1"} {
			s.reports(c, "success")
		}
		s.say(second, "mia", "/sluice promote prod --now --reason CVE-2026-1")
		s.say(second, "mia", "/sluice approve prod")
		s.until("the canary has the second", func() bool { return s.holds("cluster/prod-eu-1", "second step") })
		s.reports("cluster/prod-eu-1", "failure")
		s.until("the canary is back", func() bool { return s.holds("cluster/prod-eu-1", "first step") })
		if s.ref("cluster/prod-us-1") != before {
			t.Error("the rest moved, though the canary was red")
		}
		s.tasks("trunk", 2)
		if s.holds("cluster/prod-eu-1", "second step") || !s.holds("env/prod", "first step") {
			t.Error("what failed went in again by itself")
		}
		s.say(second, "ada", "/sluice freeze prod-us-1 --reason incident")
		s.says(second, "freeze prod-us-1")
		s.until("it is in the record", func() bool { return s.ref("sluice/state") != "" })
	})
}

// Sluice opens a merge request, and merging it on the forge is the promotion. Sluice opens another one only for a new
// commit if a person closed it, and none after a merge.
func TestPromotionRequest(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.setFleet("main", strings.Replace(gated, "{mode: auto}", "{mode: request}", 1))
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		first := s.greet("first step")
		s.says(first, "first step")
		s.say(first, "mia", "/sluice promote staging")
		s.until("a command brings the first state", func() bool { return s.ref("env/staging") != "" })
		s.merge(first)
		declined := first + 1
		s.until("there is a request", func() bool {
			return s.head(declined) != "" && s.holds("sluice/promote/staging", "first step") &&
				s.head(declined) == s.ref("sluice/promote/staging")
		})
		s.shut(declined)
		s.says(first, "was closed: staging waits for a newer commit")
		s.tasks("trunk", 3)
		if s.head(declined+1) != "" {
			t.Fatal("a request that a person closed is opened again")
		}

		second := s.greet("second step")
		s.merge(second)
		accepted := second + 1
		s.until("a new commit opens a request", func() bool {
			return s.head(accepted) != "" && s.holds("sluice/promote/staging", "second step") &&
				s.head(accepted) == s.ref("sluice/promote/staging")
		})
		if s.holds("env/staging", "step") {
			t.Fatal("staging moved by itself")
		}
		s.merge(accepted)
		s.until("the clusters follow", func() bool { return s.holds("cluster/staging-1", "second step") })
		s.tasks("trunk", 3)
		if s.head(accepted+1) != "" {
			t.Error("a second request is opened after the merge")
		}

		third := s.greet("third step")
		s.merge(third)
		s.until("there is another request", func() bool {
			return s.head(third+1) != "" &&
				s.holds("sluice/promote/staging", "third step")
		})
		s.shut(third + 1)
		s.says(third, "was closed: staging waits for a newer commit")
		s.say(third, "mia", "/sluice promote staging")
		s.until("a command promotes it", func() bool { return s.holds("cluster/staging-1", "third step") })
	})
}

// tasks waits until the service has finished some more tasks of a kind.
func (s *story) tasks(kind string, more float64) {
	s.t.Helper()
	done := func() float64 { return s.metric("sluice_task_seconds_count", fmt.Sprintf("kind=%q", kind)) }
	until := done() + more
	s.until("there are more tasks of kind "+kind, func() bool { return done() >= until })
}

// failures waits until some more tasks of a kind have failed.
func (s *story) failures(kind string, more float64) {
	s.t.Helper()
	failed := func() float64 {
		return s.metric("sluice_task_seconds_count", fmt.Sprintf(`kind=%q,result="error"`, kind))
	}
	until := failed() + more
	s.until("more tasks of kind "+kind+" have failed", func() bool { return failed() >= until })
}

// idle waits until the service has no more tasks, after a sweep that began later than the call.
func (s *story) idle() {
	s.t.Helper()
	s.tasks("sweep", 2)
	s.drained()
}

// drained waits until the queue is empty: no task waits or is being worked on.
func (s *story) drained() {
	s.t.Helper()
	s.until("the queue is empty", func() bool { return s.metric("sluice_queue_depth", "") == 0 })
}

// From 15 minutes after a cluster moved, the status of prod names the apps that posted no status. The log has the
// command that makes them post again, once.
func TestSilentAppsOfTheService(t *testing.T) {
	s := newStory(t, "github")
	log := &lines{}
	s.options.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s.setFleet("main", regexp.MustCompile(`(?m)^ +approvers: .*\n`).ReplaceAllString(gated, ""))
	s.start()
	s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
	first := s.greet("first step")
	s.says(first, "first step")
	s.merge(first)
	s.until("staging has it", func() bool { return s.holds("cluster/staging-1", "first step") })
	for _, c := range []string{"cluster/staging-1", "cluster/staging-edge-1"} {
		s.reports(c, "success")
	}
	s.say(first, "mia", "/sluice promote prod")
	s.until("the canary has it", func() bool { return s.holds("cluster/prod-eu-1", "first step") })
	description := func() (newest string) {
		for _, one := range s.hub.Statuses(repo, s.ref("main")) {
			if one.Context == "sluice/prod" {
				newest = one.State + " " + one.Description
			}
		}
		return newest
	}
	s.until("prod waits for health", func() bool {
		return strings.HasPrefix(description(),
			"pending prod wave canary, 1 of 2: baking")
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the status is %q; the log:\n%s", description(), log)
		}
	})
	s.later(16 * time.Minute)
	s.until("the status names silent apps", func() bool {
		d := description()
		return strings.HasPrefix(d, "pending prod waits: ") && strings.Contains(d,
			" on prod-eu-1 posted no status kustomization/")
	})
	s.tasks("trunk", 2)
	if n := log.count("flux --context prod-eu-1 reconcile kustomization "); n != 1 {
		t.Errorf("the command is logged %d times, expected 1", n)
	}
	s.reports("cluster/prod-eu-1", "success")
	s.until("the rest has it", func() bool { return s.holds("cluster/prod-us-1", "first step") })
}

// lines is the log of the service.
type lines struct{ stage.Journal }

// count returns the number of occurrences of a text in the log.
func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// None of the hostile comments has an effect.
func TestHostileComments(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.start()
		s.until("staging is there", func() bool { return s.ref("env/dev") != "" })
		n := s.greet("step")
		s.says(n, "step")
		before := map[string]string{}
		branches := []string{"env/dev", "env/staging", "env/prod", "cluster/prod-eu-1", "main"}
		for _, b := range branches {
			before[b] = s.ref(b)
		}
		for i, text := range []string{
			" /sluice promote prod", "> /sluice promote prod", "```\n/sluice promote prod\n```",
			"    /sluice promote prod", "`/sluice promote prod`",
			"/sluice promote prod; rm -rf /", "/sluice promote $(id)", "/sluice promote ../../main",
			"/sluice promote prod --app ../x", "/sluice promote prod --commit main..x",
			"/sluice promote prod --now", "/sluice promote PROD", "/sluice promote prod\u202e",
			"/sluice\u00a0promote prod", "/sluice promote prod --commit -x",
			"/sluice rollback prod --to refs/heads/main", "/sluice freeze prod --until yesterday --reason x",
			"/SLUICE promote prod", "<!-- \n/sluice promote prod\n-->", "/sluice promote prod --yes",
		} {
			s.say(n, "eve", text)
			if i%2 == 0 {
				s.say(n, "ada", text)
			}
		}
		s.say(n, "ada", "/sluice status")
		s.until("status is answered", func() bool {
			return strings.Contains(strings.Join(s.comments(n), ""), "| `/sluice status` | `ada` | answered")
		})
		s.idle()
		for _, b := range branches {
			if s.ref(b) != before[b] {
				t.Errorf("%s moved from %s to %s", b, before[b], s.ref(b))
			}
		}
		if all := s.comments(n); len(all) != 2 { // the review, and the answer to /sluice status
			t.Errorf("%d comments: %s", len(all), all)
		}
	})
}

// The comment of each merged merge request follows its commit to the last environment, even if others were merged
// after it.
func TestRolloutOfEarlierMergeRequests(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.setFleet("main", regexp.MustCompile(`(?m)^ +(health|approvers): .*\n`).ReplaceAllString(gated, ""))
		s.start()
		s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
		first := s.greet("first step")
		s.says(first, "first step")
		s.merge(first)
		s.says(first, "| `staging` | `"+s.ref("main")[:12]+"` | runs it |", "waits for a command")
		second := s.greet("second step")
		s.says(second, "second step")
		s.merge(second)
		tip := s.ref("main")
		s.says(second, "| `staging` | `"+tip[:12]+"` | runs it |")
		s.says(first, "| `staging` | `"+tip[:12]+"` | runs it |")
		s.say(second, "mia", "/sluice promote prod")
		for _, n := range []int{first, second} {
			s.says(n, "| `prod` | `"+tip[:12]+"` | runs it |")
		}
	})
}
