package helm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// randomTable returns values whose keys meet often: those of subcharts, globals and a few others, with nulls, lists and tables.
func randomTable(r *rand.Rand, depth int) map[string]any {
	out := map[string]any{}
	for _, key := range []string{"global", "one", "two", "a", "b"} {
		switch n := r.IntN(9); {
		case n < 3:
		case n == 3:
			out[key] = nil
		case n == 4:
			out[key] = []any{float64(r.IntN(3)), map[string]any{"in": "list"}}
		case n == 5 || depth == 0:
			out[key] = fmt.Sprint("v", r.IntN(3))
		default:
			out[key] = randomTable(r, depth-1)
		}
	}
	return out
}

// randomChart returns a chart with subcharts. Its name is one of the keys of randomTable.
func randomChart(r *rand.Rand, name string, depth int) *chart.Chart {
	out := &chart.Chart{Metadata: &chart.Metadata{Name: name}, Values: randomTable(r, 3)}
	if r.IntN(10) == 0 {
		out.Values = nil
	}
	for _, sub := range []string{"one", "two"} {
		if depth > 0 && r.IntN(2) == 0 {
			out.AddDependency(randomChart(r, sub, depth-1))
		}
	}
	return out
}

func TestCoalesceIsHelms(t *testing.T) {
	t.Parallel()
	merged, refused := 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		c, values := randomChart(r, "top", 2), randomTable(r, 3)
		kept := copyMap(c.Values)
		want, helmErr := chartutil.CoalesceValues(c, values)
		got := copyMap(values)
		shared := newDefaults(c)
		if seed%4 == 0 {
			shared = nil
		}
		err := coalesce(c, got, shared)
		if (err != nil) != (helmErr != nil) {
			t.Fatalf("seed %d: %v, but Helm: %v", seed, err, helmErr)
		}
		if err != nil {
			refused++
			continue
		}
		merged++
		if !reflect.DeepEqual(got, want.AsMap()) {
			t.Fatalf("seed %d: chart values %v, values %v\nare merged as %v\nand by Helm as %v", seed, c.Values, values, got, want)
		}
		if c.Values != nil && !reflect.DeepEqual(kept, c.Values) {
			t.Fatalf("seed %d: the defaults of the chart changed", seed)
		}
		if again := copyMap(values); coalesce(c, again, shared) != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("seed %d: the second merge gives %v, not %v", seed, again, got)
		}
	}
	if merged < 200 || refused < 20 {
		t.Errorf("%d merged and %d refused values do not cover both", merged, refused)
	}
}
