package gitlab_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// As on GitLab, the most permissive of the rules that match a branch decides.
func TestProtectedPatterns(t *testing.T) {
	for _, c := range []struct {
		name, branch string
		push         int
		also         string // another rule, which lets Developers push
		want         bool
	}{
		{"env/*", "env/prod", fakegitlab.Maintainer, "", true},
		{"env/*", "env/prod/eu", fakegitlab.Maintainer, "", true},
		{"*", "env/prod", 0, "", true},
		{"*/state", "sluice/state", fakegitlab.Maintainer, "", true},
		{"env/*-eu-*", "env/prod-eu-1", fakegitlab.Maintainer, "", true},
		{"env/*-eu-*", "env/prod-us-1", fakegitlab.Maintainer, "", false},
		{"env/prod", "env/prod-2", fakegitlab.Maintainer, "", false},
		{"env/*", "env/prod", fakegitlab.Developer, "", false},
		{"env/*", "env/prod", fakegitlab.Maintainer, "env/p*", false},
		{"env/*", "env/prod", fakegitlab.Maintainer, "env/x*", true},
	} {
		w := newWorld(t)
		repo := w.Repository(t, "acme/fleet")
		w.server.Protect(repo.Path, c.name, c.push)
		if c.also != "" {
			w.server.Protect(repo.Path, c.also, fakegitlab.Developer)
		}
		if got, err := w.forge.Protected(t.Context(), repo, c.branch); err != nil || got != c.want {
			t.Errorf("%s of %s (%d), also %q: %t, %v", c.branch, c.name, c.push, c.also, got, err)
		}
	}
}
