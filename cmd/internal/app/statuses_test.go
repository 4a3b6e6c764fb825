package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
)

// gates makes the trunk's sluice.yaml another one.
func (s *story) gates(text string) { s.sets("main", text) }

// sets makes a branch's sluice.yaml another one.
func (s *story) sets(branch, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "work", "sluice.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.commit("gates")
	s.push(branch)
}

// statuses counts how often a context of a commit was written; on GitHub alone.
func (s *story) statuses(sha, context string) int {
	n := 0
	for _, one := range s.hub.Statuses(repo, sha) {
		if one.Context == context {
			n++
		}
	}
	return n
}

// looks waits for more looks at what promotions wait for.
func (s *story) looks(more float64) {
	s.t.Helper()
	const all = "sluice_task_seconds_count"
	before := s.metric(all, `kind="trunk"`)
	s.until("there were more looks", func() bool { return s.metric(all, `kind="trunk"`) >= before+more })
}

// TestStatusesAreWrittenOnce: looks that find nothing new write nothing, nor does a service that was started again.
func TestStatusesAreWrittenOnce(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	s.until("dev is hydrated", func() bool { return s.status(s.ref("main"), "sluice/dev") == "success" })
	rendered := s.ref("env/dev")
	s.until("the rendered commit has a status", func() bool { return s.status(rendered, "sluice/dev") == "success" })
	s.branch("patch", "CAD")
	n := s.open("patch", "eve")
	s.until("it waits", func() bool { return s.status(s.head(n), "sluice") == "pending" })
	s.looks(2)
	s.end()
	s.start()
	s.until("it was looked at", func() bool { return s.metric("sluice_task_seconds_count", `kind="trunk"`) >= 1 })
	s.looks(2)
	for _, one := range []struct{ sha, context string }{{s.ref("main"), "sluice/dev"}, {rendered, "sluice/dev"}, {s.head(n), "sluice"}} {
		if n := s.statuses(one.sha, one.context); n != 1 {
			t.Errorf("%s was written %d times on %s", one.context, n, one.sha)
		}
	}
}

// TestPromotionsGoOnWithoutStatuses: a forge that takes no status any more holds up nothing.
func TestPromotionsGoOnWithoutStatuses(t *testing.T) {
	s := newStory(t, "github")
	s.gates(strings.Replace(gated, "promotion: {mode: auto}", "promotion: {mode: auto, bake: 8s}", 1))
	s.hub.Fail(fakegithub.Fault{Kind: fakegithub.TooLong, Method: "POST", Path: "/statuses/", Times: 1 << 30})
	s.start()
	s.until("staging has it", func() bool { return s.ref("env/staging") != "" })
	if list := s.hub.Statuses(repo, ""); len(list) > 0 {
		t.Errorf("the test is void: %v", list)
	}
}

// TestPromotedEnvironmentsHaveStatuses on the source commit and on the rendered one, like those that follow the trunk.
func TestPromotedEnvironmentsHaveStatuses(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.gates(strings.Replace(gated, "promotion: {mode: auto}", "promotion: {mode: auto, waves: [{name: one, clusters: {matchLabels: {class: core}}, bake: 2h}, {name: two}]}", 1))
		s.start()
		s.until("staging has it", func() bool { return s.ref("env/staging") != "" })
		s.until("it is on its way", func() bool { return s.status(s.ref("main"), "sluice/staging") == "pending" })
		if s.ref("cluster/staging-edge-1") != "" {
			t.Error("the second wave has it while the first bakes")
		}
		s.later(3 * time.Hour)
		for _, sha := range []string{s.ref("main"), s.ref("env/staging")} {
			s.until("the status is green", func() bool { return s.status(sha, "sluice/staging") == "success" })
		}
		if s.ref("cluster/staging-edge-1") == "" {
			t.Error("green before all clusters had it")
		}
		if got := s.status(s.ref("main"), "sluice/prod"); got != "" {
			t.Errorf("prod runs nothing and has a status %s", got)
		}
	})
}
