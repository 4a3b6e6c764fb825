package github_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/github"
)

// The address names the repository that has the commits, on the host where people reach the forge.
func TestCompareURL(t *testing.T) {
	for _, c := range []struct{ url, source, repo, want string }{
		{
			"https://github.com/acme/fleet/pull/7", "acme/fleet", "acme/fleet",
			"https://github.com/acme/fleet/compare/aaa...bbb",
		},
		{
			"https://github.com/acme/fleet/pull/7", "acme/fleet", "acme/rendered",
			"https://github.com/acme/rendered/compare/aaa...bbb",
		},
		{"https://github.com/other/fleet/pull/7", "acme/fleet", "acme/rendered", ""},
		{"https://github.com/acme/fleet/issues/7", "acme/fleet", "acme/rendered", ""},
	} {
		got := (&github.Forge{}).CompareURL(&forge.MergeRequest{URL: c.url}, forge.Repository{Path: c.source},
			forge.Repository{Path: c.repo}, "aaa", "bbb")
		if got != c.want {
			t.Errorf("%s in %s: %q, want %q", c.url, c.repo, got, c.want)
		}
	}
}
