package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// deployments returns the deployments as `environment sha state`, in GitHub's words.
func (s *story) deployments() []string {
	if s.hub != nil {
		return fakegithub.Deployments(s.hub, repo)
	}
	var out []string
	for _, d := range fakegitlab.Deployments(s.lab, repo) {
		d = strings.Replace(d, " running", " in_progress", 1)
		out = append(out, strings.Replace(d, " failed", " failure", 1))
	}
	return out
}

// A deployment follows each environment: it runs while waves are left, succeeds, and fails when the commit is rolled
// back. A service that begins anew shows the same ones and no other.
func TestDeployments(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, "work", "sluice.yaml"), []byte(gated), 0o600); err != nil {
			t.Fatal(err)
		}
		s.commit("gates")
		s.push("main")
		s.config = strings.Replace(s.config, "secrets: [", "settings: {deployments: true}, secrets: [", 1)
		shows := func(environment, sha, state string) {
			t.Helper()
			s.until(environment+" shows "+state, func() bool {
				return slices.Contains(s.deployments(), environment+" "+sha+" "+state)
			})
		}
		s.start()
		first := s.greet("first step")
		s.says(first, "first step")
		s.merge(first)
		one := s.ref("main")
		shows("dev", one, "success")
		s.until("staging has it", func() bool { return s.holds("cluster/staging-1", "first step") })
		for _, c := range []string{"cluster/staging-1", "cluster/staging-edge-1"} {
			s.reports(c, "success")
		}
		shows("staging", one, "success")
		s.say(first, "ada", "/sluice promote prod")
		s.says(first, "approv")
		s.say(first, "mia", "/sluice approve prod")
		s.until("the canary has it", func() bool { return s.holds("cluster/prod-eu-1", "first step") })
		shows("prod", one, "in_progress")
		s.end()
		s.start()
		s.reports("cluster/prod-eu-1", "success")
		s.until("the rest has it", func() bool { return s.holds("cluster/prod-us-1", "first step") })
		s.reports("cluster/prod-us-1", "success")
		s.reports("cluster/prod-edge-1", "success")
		shows("prod", one, "success")

		second := s.greet("second step")
		s.merge(second)
		two := s.ref("main")
		s.until("staging has the second", func() bool { return s.holds("cluster/staging-1", "second step") })
		for _, c := range []string{"cluster/staging-1", "cluster/staging-edge-1"} {
			s.reports(c, "success")
		}
		s.say(second, "mia", "/sluice promote prod --now --reason CVE-2026-1")
		s.say(second, "mia", "/sluice approve prod")
		s.until("the canary has the second", func() bool { return s.holds("cluster/prod-eu-1", "second step") })
		shows("prod", two, "in_progress")
		s.reports("cluster/prod-eu-1", "failure")
		s.until("the canary is back", func() bool { return s.holds("cluster/prod-eu-1", "first step") })
		shows("prod", two, "failure")
		s.reports("cluster/prod-eu-1", "success")
		shows("prod", one, "success")
		s.end()
		before := s.deployments()
		s.start()
		s.tasks("trunk", 3)
		if after := s.deployments(); !slices.Equal(after, before) {
			t.Errorf("deployments after a restart: got %q, want %q", after, before)
		}
		seen := map[string]bool{}
		for _, d := range before {
			key := strings.Join(strings.Fields(d)[:2], " ")
			if seen[key] {
				t.Errorf("two deployments of one commit and environment: %q", before)
			}
			seen[key] = true
		}
		page := ""
		if s.hub != nil {
			page = fakegithub.DeploymentPage(s.hub, repo, "prod")
		} else {
			page = fakegitlab.EnvironmentPage(s.lab, repo, "prod")
		}
		if !strings.HasPrefix(page, s.forge.URL+"/"+repo+"/") || !strings.HasSuffix(page, "tree/env/prod") {
			t.Errorf("the page of prod: got %q, want that of its branch", page)
		}
	})
}
