package helm

import (
	"maps"
	"slices"
	"sort"
	"testing"

	"helm.sh/helm/v3/pkg/releaseutil"
	releaseutil4 "helm.sh/helm/v4/pkg/release/v1/util"
)

// FuzzSplitManifests compares the split with Helm's.
func FuzzSplitManifests(f *testing.F) {
	for _, seed := range []string{
		"", " ", "---", "a", "a: 1\n---\nb: 2\n", "--- a\n--- b", "\n\n---\n---\n---\na", "a\n \t\r\n---\n\n---b\n",
		"----\n---", "a---\nb\n---", "\u00a0\n---\n\u00a0",
		"a: |\n  ---\n  b\n", "a\r\n---\r\nb", "a\n---\n\v---\nb", "\ufeff---\na", "---\n---", "x\n---\n\f\n---y",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries := releaseutil.SplitManifests(text)
		keys := slices.Collect(maps.Keys(entries))
		sort.Sort(releaseutil.BySplitManifestsOrder(keys))
		var want []string
		for _, key := range keys {
			want = append(want, entries[key])
		}
		if got := splitManifests(text); !slices.Equal(got, want) {
			t.Errorf("%q\ngot  the result of splitManifests is %q\nwant %q", text, got, want)
		}
	})
}

// FuzzSplitManifests4 compares the split with Helm 4's.
func FuzzSplitManifests4(f *testing.F) {
	for _, seed := range []string{
		"", " ", "---", "a", "a: 1\n---\nb: 2\n", "--- a\n--- b", "\n\n---\n---\n---\na", "a\n \t\r\n---\n\n---b\n",
		"----\n---", "a---\nb\n---", "\u00a0\n---\n\u00a0",
		"a: |\n  ---\n  b\n\n", "a\r\n---\r\nb", "a\n---\n\v---\nb", "\ufeff---\na", "---\n---", "x\n---\n\f\n---y",
		"---- ---\n---\t \n--- ---\nx", "------\n", "--- \n---",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries := releaseutil4.SplitManifests(text)
		keys := slices.Collect(maps.Keys(entries))
		sort.Sort(releaseutil4.BySplitManifestsOrder(keys))
		var want []string
		for _, key := range keys {
			want = append(want, entries[key])
		}
		if got := splitManifests4(text); !slices.Equal(got, want) {
			t.Errorf("%q\ngot  the result of splitManifests4 is %q\nwant %q", text, got, want)
		}
	})
}
