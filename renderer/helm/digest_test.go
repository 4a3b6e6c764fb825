package helm

import (
	"bytes"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// TestDigestsBelowSharedTables compares digests that renderings keep with computed ones. The same table is at two depths of one path.
func TestDigestsBelowSharedTables(t *testing.T) {
	shared := map[string]any{"b": map[string]any{"b": "x"}, "s": "y"}
	other := map[string]any{"b": "z"}
	d := newDefaults(&chart.Chart{Metadata: &chart.Metadata{Name: "x"}, Values: map[string]any{"shared": shared, "other": other}})
	if d.table(shared) == nil || d.table(other) == nil {
		t.Fatal("the tables are not shared")
	}
	values := func(v any) map[string]any { return map[string]any{"Values": map[string]any{"a": v}} }
	scopes := []map[string]any{
		values(shared), values(map[string]any{"b": shared}), values(other), values(map[string]any{"b": other}), values(map[string]any{"b": map[string]any{"b": shared}}),
		values(map[string]any{"b": "own"}), values(nil),
		{},
		values(map[string]any{}),
	}
	for _, keys := range [][]string{{"Values"}, {"Values", "a"}, {"Values", "a", "b"}, {"Values", "a", "b", "b"}, {"Values", "a", "b", kindKey}, {"Values", "a", "b", "b", kindKey}, {"Values", "a", "b", "s"}} {
		paths := []scopePath{{keys, &atomic.Pointer[keptDigest]{}}}
		for range 2 {
			for i, scope := range scopes {
				one := &digests{scope: scope, sums: &sums{shared: d}}
				got, _ := one.appendTo(nil, 0, paths)
				want, _ := (&digests{scope: scope, sums: &sums{shared: d}}).appendTo(nil, 0, []scopePath{{keys, &atomic.Pointer[keptDigest]{}}})
				if !bytes.Equal(got, want) {
					t.Errorf("%q of scope %d: got %q, want %q", keys, i, got, want)
				}
			}
		}
	}
}
