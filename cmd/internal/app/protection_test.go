package app_test

import (
	"strings"
	"testing"
)

// If anybody with write access can push to Sluice's branches, the service hydrates and reviews, but promotes nothing
// and reports the reason. The configuration can turn the check off.
func TestUnprotectedBranches(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		switch {
		case s.hub != nil:
			s.hub.ClearRules(repo)
		case s.tea != nil:
			s.tea.unprotect(repo)
		default:
			s.lab.Unprotect(repo)
		}
		s.setFleet("main", gated)
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		n := s.greet("step")
		s.says(n, "step")
		s.say(n, "mia", "/sluice promote prod")
		s.says(n, "refused", "not protected on the forge", "branchProtection")
		s.say(n, "mia", "/sluice freeze prod --reason safety")
		s.until("a freeze works", func() bool { return strings.Contains(s.promotionRecord(), "safety") })
		if s.ref("env/staging") != "" {
			t.Error("staging was promoted")
		}
		s.reload("repositories: ["+repo+"]", "repositories: ["+repo+"], settings: {branchProtection: off}")
		s.until("the configuration allows it", func() bool { return s.ref("env/staging") != "" })
	})
}
