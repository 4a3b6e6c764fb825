package explain_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func mustLoad(tb testing.TB, files map[string]string) *fleet.Fleet {
	tb.Helper()
	f, problems := fleet.Load(tb.Context(), fleettest.NewTree(files), nil)
	if f == nil {
		tb.Fatalf("the fleet does not load:\n%v", problems)
	}
	return f
}

// target returns the target of the app web on a cluster.
func target(tb testing.TB, f *fleet.Fleet, cluster string) fleet.Target {
	tb.Helper()
	a, ok := f.App("web")
	c, ok2 := f.Cluster(cluster)
	if !ok || !ok2 {
		tb.Fatalf("no web or %s", cluster)
	}
	return fleet.Target{App: a, Cluster: c}
}

// The last origin of every chain is the merged value, and every merged value has a chain.
func TestExplanationsAgreeWithValues(t *testing.T) {
	checked := 0
	for _, files := range []map[string]string{fleettest.Small(), fleettest.Foreign(), fleettest.Tiny(map[string]string{
		"apps/web/layers/global/values.yaml":    "a: {b: {c: 1, d: [1, {x: 2}]}, e: null, dotted.key: {f: 1}}\nm: ${cluster.vars.m:={}}\nn: 1e3\no: yes\n010: octal\n1.50: float\n\"on\": quoted\n",
		"apps/web/layers/cluster/a/values.yaml": "a: {b: 5, e: {g: 1}, dotted.key: {f: null, h: 2}}\nbase: &b {p: 1, q: 2}\nover: {<<: *b, q: 3}\n",
		"apps/web/layers/region/r1/values.yaml": "a: {b: {i: 1}}\nn: {now: a map}\nm: {x: 5}\n",
	})} {
		f := mustLoad(t, files)
		for _, tgt := range f.Targets() {
			resolved, err := f.Resolve(tgt)
			if err != nil {
				t.Fatalf("resolve %s: %v", tgt, err)
			}
			for _, source := range resolved.Sources {
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

func agree(t *testing.T, f *fleet.Fleet, tgt fleet.Target, source string) int {
	t.Helper()
	values, err := f.Values(tgt, source)
	if err != nil {
		t.Fatal(err)
	}
	chains, err := explain.Values(f, tgt, source, "", explain.Defaults{})
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

func TestExplain(t *testing.T) {
	f := mustLoad(t, fleettest.Small())
	chains, err := explain.Values(f, target(t, f, "b"), "", "m.b", explain.Defaults{File: "charts/web/values.yaml", Data: []byte("m:\n  b: 0\n")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range chains[0].Origins {
		got = append(got, fmt.Sprintf("%s %s:%d %v %v %v", o.Layer, o.File, o.Line, o.Set, o.Deletes, o.Winner))
	}
	want := []string{
		"defaults charts/web/values.yaml:2 0 false false",
		"global apps/web/layers/global/values.yaml:4 2 false false",
		"environment apps/web/layers/environment/prod/values.yaml:1 <nil> true true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the result is %q\nwant %q", got, want)
	}
	all, err := explain.Values(f, target(t, f, "a"), "", "", explain.Defaults{})
	if err != nil || len(all) != 7 {
		t.Errorf("%d chains %v", len(all), err)
	}
	if _, err := explain.Values(f, target(t, f, "a"), "", "nothing.at.all", explain.Defaults{}); err == nil ||
		strings.Contains(err.Error(), "did you mean") {
		t.Errorf("nothing sets it: %v", err)
	}
	for wrong, want := range map[string]string{"replica": "replicas", "global.evn": "global.env", "globl": "global"} {
		if _, err := explain.Values(f, target(t, f, "a"), "", wrong, explain.Defaults{}); err == nil ||
			!strings.Contains(err.Error(), "did you mean "+want+"?") {
			t.Errorf("%s: the error is %v, want %s", wrong, err, want)
		}
	}
}

func TestExplainOfSelfReference(t *testing.T) {
	f := mustLoad(t, fleettest.Tiny(map[string]string{"apps/web/layers/global/values.yaml": "a: &a {b: *a}\n"}))
	if _, err := explain.Values(f, target(t, f, "a"), "", "a.b.b", explain.Defaults{}); err == nil {
		t.Error("refuse it")
	}
	if testing.Short() {
		return
	}
	if _, err := explain.Values(f, target(t, f, "a"), "", "", explain.Defaults{}); err == nil {
		t.Error("refuse it")
	}
}

func TestExplainMergeKeysAndMappings(t *testing.T) {
	f := mustLoad(t, fleettest.Tiny(map[string]string{
		"apps/web/layers/global/values.yaml":          "base: &b {x: 1, z: 2}\nm:\n  <<: *b\n  z: 3\n",
		"apps/web/layers/cluster/a/values.yaml":       "m: {x: !typed \"${cluster.vars.uid}\"}\n",
		"apps/web/layers/environment/dev/values.yaml": "m: null\n",
	}))
	chains, err := explain.Values(f, target(t, f, "a"), "", "m", explain.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range chains {
		for _, o := range c.Origins {
			got = append(got, fmt.Sprintf("%s %s:%d %v %s %v", c.Path, o.Layer, o.Line, o.Set, o.Raw, o.Winner))
		}
	}
	want := []string{
		"m global:3 map[x:1 z:3]  false", "m environment:1 <nil>  false", "m cluster:1 map[x:1.00068e+09]  true",
		"m.x global:1 1  false", "m.x environment:1 <nil>  false", "m.x cluster:1 1.00068e+09 ${cluster.vars.uid} true",
		"m.z global:4 3  false", "m.z environment:1 <nil>  true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("\nthe result is %s", strings.Join(got, "\n"))
	}
}

// A quoted reference is a text, one with the tag !typed has the type of its variable.
func TestExplainQuotedReferences(t *testing.T) {
	t.Parallel()
	files := fleettest.Small()
	files["apps/web/layers/global/values.yaml"] = "double: \"${cluster.vars.size}\"\nflow: {typed: !typed \"${cluster.vars.size}\"}\n"
	f := mustLoad(t, files)
	for path, want := range map[string]any{"double": "3", "flow.typed": 3.0} {
		chains, err := explain.Values(f, target(t, f, "a"), "", path, explain.Defaults{})
		if err != nil || len(chains) != 1 {
			t.Fatalf("%s: got %d chains (%v), want 1", path, len(chains), err)
		}
		if set := chains[0].Origins[0].Set; set != want {
			t.Errorf("%s: explained as %#v, want %#v", path, set, want)
		}
	}
}

// A file whose whole text is one value, and a file that a layer puts below a key, are positions of their values.
func TestExplainFilesBelowKeys(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, fleettest.Everyday())
	chains, err := explain.Values(f, target(t, f, "b"), "main", "image.tag", explain.Defaults{})
	if err != nil || len(chains) != 1 || chains[0].Origins[0].File != "image-tags/prod/web" ||
		chains[0].Origins[0].Set != any("1.9") || !chains[0].Origins[0].Winner {
		t.Errorf("image.tag: %+v, %v", chains, err)
	}
	chains, err = explain.Values(f, target(t, f, "b"), "main", "resources.limits.cpu", explain.Defaults{})
	if err != nil || len(chains) != 1 || chains[0].Origins[0].File != "limits/prod.yaml" ||
		chains[0].Origins[0].Line != 1 {
		t.Errorf("resources.limits.cpu: %+v, %v", chains, err)
	}
}

// A value behind a symbolic link has the position of the link.
func TestExplainLinks(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, fleettest.Linked())
	chains, err := explain.Values(f, target(t, f, "b"), "", "m.d", explain.Defaults{})
	if err != nil || len(chains) != 1 || chains[0].Origins[0].File != "apps/web/layers/region/us/values.yaml" {
		t.Errorf("explain: %+v, %v", chains, err)
	}
}

func TestExplainBomb(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, fleettest.Tiny(map[string]string{"apps/web/layers/global/values.yaml": fleettest.Bomb()}))
	done := make(chan error, 1)
	go func() { _, err := explain.Values(f, target(t, f, "a"), "", "", explain.Defaults{}); done <- err }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("explain takes it")
		}
	case <-time.After(2 * time.Minute):
		t.Error("explain does not end")
	}
}

func BenchmarkExplainLargeChart(b *testing.B) {
	var defaults strings.Builder
	for i := range 500 {
		fmt.Fprintf(&defaults, "section%d:\n", i)
		for j := range 10 {
			fmt.Fprintf(&defaults, "  key%d: {a: 1, b: x}\n", j)
		}
	}
	f := mustLoad(b, fleettest.Small())
	tgt := target(b, f, "b")
	for b.Loop() {
		chains, err := explain.Values(f, tgt, "", "", explain.Defaults{File: "values.yaml", Data: []byte(defaults.String())})
		if err != nil || len(chains) < 10_000 {
			b.Fatal(len(chains), err)
		}
	}
}
