package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
)

// setFleet pushes a commit that replaces sluice.yaml to a branch.
func (s *story) setFleet(branch, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "work", "sluice.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.commit("another fleet")
	s.push(branch)
}

// statuses returns how often a status of a commit was written. Only the fake GitHub keeps them all.
func (s *story) statuses(sha, context string) int {
	n := 0
	for _, one := range s.hub.Statuses(repo, sha) {
		if one.Context == context {
			n++
		}
	}
	return n
}

// Each status is written once: tasks of the trunk that find no change do not repeat it, not even after a restart.
func TestStatusesAreWrittenOnce(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	s.until("dev is hydrated", func() bool { return s.status(s.ref("main"), "sluice/dev") == "success" })
	rendered := s.ref("env/dev")
	s.until("the rendered commit has a status", func() bool { return s.status(rendered, "sluice/dev") == "success" })
	s.branch("patch", "CAD")
	n := s.open("patch", "eve")
	s.until("it waits", func() bool { return s.status(s.head(n), "sluice") == "pending" })
	s.tasks("trunk", 2)
	s.end()
	s.start()
	s.until("it was looked at", func() bool { return s.metric("sluice_task_seconds_count", `kind="trunk"`) >= 1 })
	s.tasks("trunk", 2)
	for _, one := range []struct{ sha, context string }{
		{s.ref("main"), "sluice/dev"},
		{rendered, "sluice/dev"},
		{s.head(n), "sluice"},
	} {
		if n := s.statuses(one.sha, one.context); n != 1 {
			t.Errorf("%s was written %d times on %s", one.context, n, one.sha)
		}
	}
}

// A forge that refuses every status does not hold up a promotion.
func TestPromotionsGoOnWithoutStatuses(t *testing.T) {
	s := newStory(t, "github")
	s.setFleet("main", strings.Replace(gated, "promotion: {mode: auto}", "promotion: {mode: auto, bake: 8s}", 1))
	s.hub.Fail(fakegithub.Fault{Kind: fakegithub.TooLong, Method: "POST", Path: "/statuses/", Times: 1 << 30})
	s.start()
	s.until("staging has it", func() bool { return s.ref("env/staging") != "" })
	if list := s.hub.Statuses(repo, ""); len(list) > 0 {
		t.Errorf("the test is void: %v", list)
	}
}

// gateway opens a merge request that changes every cluster of staging.
func (s *story) gateway() int {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", "gateway", "origin/main")
	file := filepath.Join(work, "apps/gateway/layers/global/values.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(data), "5.2", "5.3")), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.commit("a newer gateway")
	s.push("gateway")
	return s.open("gateway", "ada")
}

// A promoted environment has statuses on the source commit and on the rendered one, as an environment that follows the
// trunk has.
func TestPromotedEnvironmentsHaveStatuses(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.setFleet("main", strings.Replace(gated, "promotion: {mode: auto}",
			"promotion: {mode: auto, waves: [{name: one, clusters: {matchLabels: {class: core}}, bake: 2h}, {name: two}]}", 1))
		s.start()
		s.until("staging has its first state", func() bool { // which does not bake
			return s.status(s.ref("main"), "sluice/staging") == "success"
		})
		s.merge(s.gateway())
		s.until("staging has it", func() bool { return s.holds("env/staging", "gateway:5.3") })
		s.until("it is on its way", func() bool { return s.status(s.ref("main"), "sluice/staging") == "pending" })
		if s.holds("cluster/staging-edge-1", "gateway:5.3") {
			t.Error("the second wave has it while the first bakes")
		}
		s.later(3 * time.Hour)
		for _, sha := range []string{s.ref("main"), s.ref("env/staging")} {
			s.until("the status is green", func() bool { return s.status(sha, "sluice/staging") == "success" })
		}
		if !s.holds("cluster/staging-edge-1", "gateway:5.3") {
			t.Error("green before all clusters had it")
		}
		if got := s.status(s.ref("main"), "sluice/prod"); got != "" {
			t.Errorf("prod runs nothing and has a status %s", got)
		}
	})
}
