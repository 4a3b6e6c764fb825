package diff

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// renamed returns n ConfigMaps, and the same under other names. kind selects how the names differ.
func renamed(tb testing.TB, n int, kind string) (before, after []Object) {
	tb.Helper()
	config := func(name, value string) Object {
		o := manifest.Object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "shop"},
			"data": map[string]any{"a": "one", "b": "two", "c": "three", "d": "four", "e": value},
		}
		return Object{Key: name + value, Object: o}
	}
	for i := range n {
		switch kind {
		case "one base": // web-<hash>, all of one base name
			before = append(before, config(fmt.Sprintf("web-%08x0a", i), "x"))
			after = append(after, config(fmt.Sprintf("web-%08x0b", i), "y"))
		case "bases": // web-12-<hash>
			before = append(before, config(fmt.Sprintf("web-%d-5f7c9d8b6k", i), "x"))
			after = append(after, config(fmt.Sprintf("web-%d-7h2m4t9c8d", i), "y"))
		case "content":
			before = append(before, config(fmt.Sprintf("old%d", i), fmt.Sprint(i)))
			after = append(after, config(fmt.Sprintf("new%d", i), fmt.Sprint(i)))
		case "unlike":
			before = append(before, config(fmt.Sprintf("old%d", i), fmt.Sprint("x", i)))
			after = append(after, config(fmt.Sprintf("new%d", i), fmt.Sprint("y", i)))
		}
	}
	return before, after
}

// 4,000 renamed objects took 28 s and 15,000 more than two minutes. Only renames among few objects may compare
// contents.
func TestRenamesAreLookups(t *testing.T) {
	const n = 15_000
	for kind, pairs := range map[string]int{"one base": n, "bases": n, "content": n, "unlike": 2 * n} {
		before, after := renamed(t, n, kind)
		g := &Builder{}
		if got := g.pairs(before, after); len(got) != pairs {
			t.Errorf("%s: %d pairs, want %d", kind, len(got), pairs)
		}
		if g.work != 0 {
			t.Errorf("%s: %d leaves were compared", kind, g.work)
		}
	}
}

// Many kinds with few objects each share one budget.
func TestLikenessIsBounded(t *testing.T) {
	g := &Builder{}
	var before, after []Object
	for kind := range 800 {
		x, y := renamed(t, 40, "unlike")
		for i := range x {
			x[i].Object["kind"], y[i].Object["kind"] = fmt.Sprint("Kind", kind), fmt.Sprint("Kind", kind)
		}
		before, after = append(before, x...), append(after, y...)
	}
	g.pairs(before, after)
	if g.work > workLimit+leafLimit {
		t.Errorf("%d leaves were compared", g.work)
	}
}

// BenchmarkRenames shows that the time per object is constant up to 50,000 objects: go test ./diff -run xxx
// -bench Renames
func BenchmarkRenames(b *testing.B) {
	for _, kind := range []string{"one base", "bases", "content", "unlike"} {
		for _, n := range []int{1000, 10_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				before, after := renamed(b, n, kind)
				target := Target{App: "shop", Cluster: "c", Environment: "prod", Before: before, After: after}
				for b.Loop() {
					Compare([]Target{target}, nil, []string{"prod"}, noFleet{})
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/object")
			})
		}
	}
}

type noFleet struct{}

func (noFleet) Placed(string) []Cluster { return nil }
