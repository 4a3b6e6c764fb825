package source

import (
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

func TestNewestRef(t *testing.T) {
	refs := map[string]gitstore.Hash{
		"refs/heads/main": {1}, "refs/heads/v9": {2}, "refs/tags/v1.2.0": {3}, "refs/tags/v1.10.0": {4},
		"refs/tags/v1.10.0^{}":  {5},
		"refs/tags/v2.0.0-rc.1": {6}, "refs/tags/web/v1.0.0": {7}, "refs/tags/web/v1.1.0": {8}, "refs/tags/stable": {9},
		"refs/tags/v1.9.0": {10},
	}
	for wanted, want := range map[string]struct {
		name string
		hash gitstore.Hash
	}{
		"refs/heads/main":       {"refs/heads/main", gitstore.Hash{1}},
		"refs/tags/v1.*":        {"refs/tags/v1.10.0", gitstore.Hash{5}}, // the commit of an annotated tag
		"refs/tags/v*":          {"refs/tags/v1.10.0", gitstore.Hash{5}}, // not the pre-release
		"refs/tags/v2.*":        {"refs/tags/v2.0.0-rc.1", gitstore.Hash{6}},
		"refs/tags/web/v*":      {"refs/tags/web/v1.1.0", gitstore.Hash{8}},
		"refs/tags/stable":      {"refs/tags/stable", gitstore.Hash{9}},
		"refs/tags/v1.2.0":      {"refs/tags/v1.2.0", gitstore.Hash{3}},
		"refs/heads/missing":    {},
		"refs/tags/v3.*":        {},
		"refs/tags/sta*":        {}, // no version
		"refs/tags/v1.10.0^{}*": {},
	} {
		name, hash, err := newest(refs, wanted, fetch.Pin{})
		if name != want.name || hash != want.hash || (err == nil) != (want.name != "") {
			t.Errorf("want %s: the name is %s, the hash is %v, the error is %v", wanted, name, hash, err)
		}
	}
}

// Tags of equal versions give one result each time, and the present pin stays while its tag has its commit.
func TestNewestOfEqualVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wanted string
		refs   map[string]gitstore.Hash
		have   string
		want   string
	}{
		{"v1.*", map[string]gitstore.Hash{"v1.4": {1}, "v1.4.0": {2}}, "", "v1.4.0"},
		{"v1.*", map[string]gitstore.Hash{"v1.4": {1}, "v1.4.0": {2}}, "v1.4", "v1.4"},
		{"v1.*", map[string]gitstore.Hash{"v1.4": {3}, "v1.4.0": {2}}, "v1.4", "v1.4.0"}, // the pinned tag has moved
		{"v1.*", map[string]gitstore.Hash{"v1.4": {1}, "v1.4.0": {2}, "v1.4.1": {4}}, "v1.4", "v1.4.1"},
		{"v1*", map[string]gitstore.Hash{"v1.4.0+a": {1}, "v1.4.0+b": {2}}, "", "v1.4.0+b"},
		{"v1*", map[string]gitstore.Hash{"v1.4.0+a": {1}, "v1.4.0+b": {2}}, "v1.4.0+a", "v1.4.0+a"},
		{"*", map[string]gitstore.Hash{"v1.4.0": {1}, "1.4.0": {1}}, "", "v1.4.0"},
		{"*", map[string]gitstore.Hash{"v1.4.0": {1}, "1.4.0": {1}}, "1.4.0", "1.4.0"},
	} {
		refs := map[string]gitstore.Hash{}
		for name, h := range c.refs {
			refs[tagPrefix+name] = h
		}
		have := fetch.Pin{}
		if c.have != "" {
			have = fetch.Pin{Resolved: tagPrefix + c.have, Commit: gitstore.Hash{1}.String()}
		}
		for range 50 { // maps have a random order
			if name, _, err := newest(refs, tagPrefix+c.wanted, have); err != nil || name != tagPrefix+c.want {
				t.Errorf("%s of %v with %q pinned: %s %v", c.wanted, c.refs, c.have, name, err)
				break
			}
		}
	}
}
