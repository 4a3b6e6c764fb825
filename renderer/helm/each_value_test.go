package helm

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// leaf is a value of a chart that is no map, and the way to it.
type leaf struct {
	path  []string
	value any
}

func leavesOf(values map[string]any, path []string) (out []leaf) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := append(slices.Clip(path), key)
		if below, ok := values[key].(map[string]any); ok && len(below) > 0 {
			out = append(out, leavesOf(below, at)...)
			continue
		}
		out = append(out, leaf{at, values[key]})
	}
	return out
}

// other returns another value of the same kind, or one that charts often ask for.
func (l leaf) other(r *rand.Rand) any {
	switch x := l.value.(type) {
	case bool:
		return !x
	case string:
		return x + "z"
	case []any:
		return append(slices.Clone(x), []any{"item", map[string]any{"name": "n", "value": "v", "key": "k"}}[r.IntN(2)])
	case map[string]any:
		return map[string]any{"key": "text"}
	case nil:
		return []any{"text", true, map[string]any{"key": "text"}}[r.IntN(3)]
	}
	return 7.0
}

// set writes the value.
func (l leaf) set(values map[string]any) {
	for _, key := range l.path[:len(l.path)-1] {
		below, ok := values[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			values[key] = below
		}
		values = below
	}
	values[l.path[len(l.path)-1]] = l.value
}

// TestReuseEqualsHelmForEachValue changes the values of real charts one by one: each file that reads the value must be executed again.
// Half of the values are changed from the defaults, half with some of what the chart can switch on. SLUICE_REUSE_VALUES is the number of
// values of each chart.
func TestReuseEqualsHelmForEachValue(t *testing.T) {
	most := 8
	if testing.Short() {
		most = 2
	}
	most = countOf(t, "SLUICE_REUSE_VALUES", most)
	onCorpus(t, func(t *testing.T, c *Chart, needed map[string]any) {
		t.Helper()
		c.Reuse(NewResults(256 << 20))
		e := &each{t: t, chart: c, needed: needed, r: rand.New(rand.NewPCG(3, uint64(most)))}
		leaves := e.leaves(most)
		half := len(leaves) / 2
		e.change(leaves[:half])
		for _, l := range leaves {
			on := leaf{l.path, true}
			if l.value == false && e.r.IntN(2) == 0 && e.render(e.values(on)) {
				e.on = append(e.on, on)
			}
		}
		e.change(leaves[half:])
		t.Logf("%d values, %d files, %d reused, %d renderings failed", len(leaves), e.files, e.found, e.failed)
	})
}

// each changes one value of a chart after the other.
type each struct {
	t      *testing.T
	chart  *Chart
	needed map[string]any
	r      *rand.Rand
	on     []leaf // what is switched on

	files, found, failed int
}

// leaves returns some of the chart's values, its subcharts' among them.
func (e *each) leaves(most int) []leaf {
	all := map[string]any{}
	for _, dep := range e.chart.chart.Dependencies() {
		all[dep.Name()] = dep.Values
	}
	out := leavesOf(merged(all, e.chart.chart.Values), nil)
	e.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(len(out), most)]
}

// values returns values with what is switched on and a few more.
func (e *each) values(more ...leaf) map[string]any {
	out := merged(nil, e.needed)
	for _, l := range append(slices.Clip(e.on), more...) {
		l.set(out)
	}
	return out
}

func (e *each) change(leaves []leaf) {
	for i, l := range leaves {
		e.render(e.values(leaf{l.path, l.other(e.r)}))
		if i%4 == 0 {
			e.render(e.values())
		}
		if e.t.Failed() {
			e.t.Fatalf("after %v", l.path)
		}
	}
}

func (e *each) render(values map[string]any) bool {
	o := options(values)
	o.SkipSchema = true
	files, reuses, err := reused(e.t, e.chart, o)
	e.files, e.found = e.files+files, e.found+reuses
	if err != nil {
		e.failed++
	}
	return err == nil
}

// merged returns a copy of a map with the items of another, in maps below too.
func merged(into, from map[string]any) map[string]any {
	out := maps.Clone(into)
	if out == nil {
		out = map[string]any{}
	}
	for key, v := range from {
		if below, ok := v.(map[string]any); ok {
			old, _ := out[key].(map[string]any)
			v = merged(old, below)
		}
		out[key] = v
	}
	return out
}
