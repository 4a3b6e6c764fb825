package fleet

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The last origin of every chain is the merged value, and every merged value has a chain.
func TestExplanationsAgreeWithValues(t *testing.T) {
	checked := 0
	for _, files := range []map[string]string{small(), foreignFleet(), tiny(map[string]string{
		"apps/web/layers/global/values.yaml":    "a: {b: {c: 1, d: [1, {x: 2}]}, e: null, dotted.key: {f: 1}}\nm: ${cluster.vars.m:={}}\nn: 1e3\no: yes\n010: octal\n1.50: float\n\"on\": quoted\n",
		"apps/web/layers/cluster/a/values.yaml": "a: {b: 5, e: {g: 1}, dotted.key: {f: null, h: 2}}\nbase: &b {p: 1, q: 2}\nover: {<<: *b, q: 3}\n",
		"apps/web/layers/region/r1/values.yaml": "a: {b: {i: 1}}\nn: {now: a map}\nm: {x: 5}\n",
	})} {
		f := mustLoad(t, files, NewCache())
		for _, tgt := range f.Targets() {
			for _, source := range tgt.App.SourcesIn(tgt.Cluster.Environment) {
				if source.Helm == nil {
					continue
				}
				checked += agree(t, f, tgt, source.Name)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d values were checked", checked)
	}
}

func agree(t *testing.T, f *Fleet, tgt Target, source string) int {
	t.Helper()
	values, err := f.Values(tgt, source)
	if err != nil {
		t.Fatal(err)
	}
	chains, err := f.Explain(tgt, source, "", Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	won := map[string]any{}
	for _, c := range chains {
		last := c.Origins[len(c.Origins)-1]
		if !last.Winner {
			t.Errorf("%s: the last of %s does not win", tgt, c.Path)
		}
		if !last.Deletes {
			won[c.Path] = last.Set
		}
	}
	merged := map[string]any{}
	flatten(values, nil, merged)
	for path, v := range merged {
		got, ok := won[path]
		if v == nil && !ok {
			continue // null deletes
		}
		if !ok || !reflect.DeepEqual(got, v) {
			t.Errorf("%s: %s is %#v, explained as %#v", tgt, path, v, got)
		}
	}
	return len(merged)
}

// flatten returns every value other than mappings, by its path.
func flatten(v any, p []string, out map[string]any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		if len(p) > 0 {
			out[strings.Join(p, ".")] = v
		}
		return
	}
	for k, inner := range m {
		flatten(inner, append(slices.Clip(p), k), out)
	}
}
