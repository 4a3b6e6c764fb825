package bot

import (
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/compare"
)

// TestCompareLinkNamesTheRepositoryOfTheCommits: with spec.output.repository the commits of a preview exist only there.
func TestCompareLinkNamesTheRepositoryOfTheCommits(t *testing.T) {
	p := &compare.PreviewResult{Base: "aaa", Head: "bbb"}
	for _, tc := range []struct{ url, source, output, want string }{
		{"https://github.com/acme/fleet/pull/7", "acme/fleet", "acme/fleet", "https://github.com/acme/fleet/compare/aaa...bbb"},
		{"https://github.com/acme/fleet/pull/7", "acme/fleet", "acme/rendered", "https://github.com/acme/rendered/compare/aaa...bbb"},
		{"https://git.example.com/gitlab/acme/sub/fleet/-/merge_requests/7", "acme/sub/fleet", "ops/rendered", "https://git.example.com/gitlab/ops/rendered/-/compare/aaa...bbb"},
		{"https://git.example.com/other/fleet/-/merge_requests/7", "acme/fleet", "acme/rendered", ""},
		{"https://git.example.com/acme/fleet/issues/7", "acme/fleet", "acme/rendered", ""},
	} {
		if got := compareLink(tc.url, tc.source, tc.output, p); got != tc.want {
			t.Errorf("%s in %s: %q, want %q", tc.url, tc.output, got, tc.want)
		}
	}
}
