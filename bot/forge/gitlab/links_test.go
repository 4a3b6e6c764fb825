package gitlab_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/gitlab"
)

// The address names the repository that has the commits, below the path where people reach the forge.
func TestCompareURL(t *testing.T) {
	for _, c := range []struct{ url, source, repo, want string }{
		{
			"https://git.example.com/gitlab/acme/sub/fleet/-/merge_requests/7", "acme/sub/fleet", "ops/rendered",
			"https://git.example.com/gitlab/ops/rendered/-/compare/aaa...bbb",
		},
		{
			"https://gitlab.com/acme/fleet/-/merge_requests/7", "acme/fleet", "acme/fleet",
			"https://gitlab.com/acme/fleet/-/compare/aaa...bbb",
		},
		{"https://git.example.com/other/fleet/-/merge_requests/7", "acme/fleet", "acme/rendered", ""},
	} {
		got := (&gitlab.Forge{}).CompareURL(&forge.MergeRequest{URL: c.url}, forge.Repository{Path: c.source},
			forge.Repository{Path: c.repo}, "aaa", "bbb")
		if got != c.want {
			t.Errorf("%s in %s: %q, want %q", c.url, c.repo, got, c.want)
		}
	}
}
