package helm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// randomRequests gives a chart random dependencies, with conditions, tags, an alias or imported values.
func randomRequests(r *rand.Rand, c *chart.Chart) {
	of := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	for _, name := range []string{"one", "two"} {
		if r.IntN(4) == 0 {
			continue
		}
		request := &chart.Dependency{Name: name, Version: of("", "1.0.0", "1.0.0", ">1"), Tags: [][]string{nil, {"a"}, {"a", "b"}, {"b"}}[r.IntN(4)]}
		request.Condition = of("", "a", "a.b", "one.a", "one.a.b,b", "two.b, a", "global.a", "one.global.a,two.global.b", " two.a ", "a,,b", "global.one.a,one.one.a", "one", "tags.a")
		request.Alias = of("", "", "", "b", "two")
		request.ImportValues = [][]any{nil, nil, nil, {"a"}, {map[string]any{"child": "a", "parent": "b"}}}[r.IntN(5)]
		c.Metadata.Dependencies = append(c.Metadata.Dependencies, request)
	}
}

// flags replaces some of the texts by booleans, of which conditions are made.
func flags(r *rand.Rand, values map[string]any) {
	for key, value := range values {
		switch x := value.(type) {
		case string:
			if r.IntN(3) > 0 {
				values[key] = x != "v0"
			}
		case map[string]any:
			flags(r, x)
		}
	}
}

type processed struct {
	Metadata chart.Metadata
	Values   map[string]any
	Below    []processed
}

func processedOf(c *chart.Chart) processed {
	out := processed{Metadata: *c.Metadata, Values: c.Values}
	for _, d := range c.Dependencies() {
		out.Below = append(out.Below, processedOf(d))
	}
	return out
}

func TestSelectedIsHelms(t *testing.T) {
	t.Parallel()
	decided, kept, choices := 0, 0, map[string]bool{}
	for seed := range uint64(250) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := randomChart(r, "top", 1+r.IntN(8)/7)
		randomRequests(r, c)
		for _, d := range append(c.Dependencies(), c) {
			d.Metadata.Version = "1.0.0"
			flags(r, d.Values)
		}
		ours := &Chart{chart: c}
		for range 6 {
			values := randomTable(r, 3)
			if r.IntN(2) == 0 {
				delete(values, "one")
				delete(values, "two")
			}
			values["tags"] = []any{nil, map[string]any{"a": r.IntN(2) == 0, "b": "text"}, map[string]any{"a": r.IntN(2) == 0, "b": r.IntN(2) == 0}}[r.IntN(3)]
			flags(r, values)
			before := copyMap(values)
			want := copyChart(c)
			helmErr := chartutil.ProcessDependenciesWithMerge(want, copyMap(values))
			known := len(ours.selections.charts)
			got, _, err := ours.selected(values)
			if (err != nil) != (helmErr != nil) {
				t.Fatalf("seed %d: %v, but Helm: %v", seed, err, helmErr)
			}
			if err != nil {
				continue
			}
			if !reflect.DeepEqual(processedOf(got), processedOf(want)) {
				t.Fatalf("seed %d: values %v\ngive  %+v\nHelm: %+v", seed, values, processedOf(got), processedOf(want))
			}
			if !reflect.DeepEqual(values, before) {
				t.Fatalf("seed %d: the values changed", seed)
			}
			if choice, ok := ours.choice(values); ok {
				decided++
				choices[choice] = true
				if known == len(ours.selections.charts) {
					kept++
				}
			}
		}
	}
	t.Logf("%d decided, %d of them kept, %d choices", decided, kept, len(choices))
	if decided < 400 || kept < 200 || len(choices) < 6 {
		t.Errorf("%d decided, %d of them kept, %d choices: the test compares nothing", decided, kept, len(choices))
	}
}

// What a template changes of its chart does not reach the next rendering.
func TestTemplatesChangeNoChart(t *testing.T) {
	c, err := Load([]File{
		{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\nkeywords: [b, a]\nsources: [d, c]\nannotations: {k: v}\nmaintainers: [{name: m}, {name: n}]\ndependencies: [{name: sub, version: 1.0.0, tags: [f, e], import-values: [{child: a, parent: b}]}]\n")},
		{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\nannotations: {q: r}\n")},
		{"charts/sub/values.yaml", []byte("a: {b: c}\n")},
		{"templates/z.txt", []byte(`{{ toJson .Chart }}{{ toJson .Subcharts.sub.Chart }}{{ toJson .Values }}`)},
		{"templates/a.txt", []byte(`{{ $_ := mergeOverwrite (dict "a" .Chart.Annotations) (dict "a" (split "," .Release.Name)) }}{{ $_ := mergeOverwrite (dict "a" .Subcharts.sub.Chart.Annotations) (dict "a" (split "," .Release.Name)) }}
{{ $_ := mergeOverwrite (dict "a" (index .Chart.Maintainers 0)) (dict "a" (index .Chart.Maintainers 1)) }}{{ $_ := sortAlpha .Chart.Keywords }}{{ $_ := sortAlpha .Chart.Sources }}{{ $_ := sortAlpha (index .Chart.Dependencies 0).Tags }}
{{ $_ := set .Values.b "b" .Release.Name }}{{ $_ := set .Values.sub.a "b" .Release.Name }}`)},
	}, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	c.Reuse(NewResults(1 << 20))
	var first string
	for i := range 4 {
		o := options(nil)
		o.ReleaseName = fmt.Sprint("r", i)
		result, err := c.Render(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		text := string(result.Documents[len(result.Documents)-1].Text)
		if i == 0 {
			first = text
		} else if text != first {
			t.Errorf("rendering %d: got\n%s\nwant\n%s", i, text, first)
		}
	}
}

func TestSelectedIsHelmsOnCorpus(t *testing.T) {
	onCorpus(t, func(t *testing.T, c *Chart, needed map[string]any) {
		t.Helper()
		for i := range 1 + len(c.chart.Metadata.Dependencies) {
			values := merged(nil, needed)
			for j, d := range c.chart.Metadata.Dependencies {
				leaf{strings.Split(strings.TrimSpace(strings.Split(d.Condition, ",")[0]), "."), i != j}.set(values)
			}
			for range 2 {
				want := copyChart(c.chart)
				if err := chartutil.ProcessDependenciesWithMerge(want, copyMap(values)); err != nil {
					t.Fatal(err)
				}
				got, _, err := c.selected(values)
				if err != nil || !reflect.DeepEqual(processedOf(got), processedOf(want)) {
					t.Errorf("%v: %v, %+v, want %+v", values, err, processedOf(got), processedOf(want))
				}
			}
		}
		if c.selections.asked != nil && len(c.selections.charts) == 0 {
			t.Error("no choice was kept")
		}
	})
}

// A template can change the maps of .Chart with mergo, which changes maps of all kinds. Other renderings do not see that.
func TestTemplatesDoNotChangeImports(t *testing.T) {
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, import-values: [{child: m, parent: moved}, data]}]\n")},
		File{"templates/b.txt", []byte(`{{ toJson .Chart.Dependencies }}`)},
		File{"templates/a.txt", []byte(`{{ $i := (first .Chart.Dependencies).ImportValues }}{{ $_ := mergeOverwrite (dict "a" (first $i)) (dict "a" (last $i)) }}{{ toJson $i }}`)},
		File{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")}, File{"charts/sub/values.yaml", []byte("m: {s: t}\nexports: {data: {u: v}}\n")})
	for i := range 3 {
		result, err := c.Render(t.Context(), options(nil))
		if err != nil || len(result.Documents) != 2 {
			t.Fatalf("%d documents: %v", len(result.Documents), err)
		}
		for _, d := range result.Documents {
			if text := string(d.Text); strings.HasSuffix(d.Source, "b.txt") != strings.Contains(text, `"child":"m"`) {
				t.Errorf("rendering %d: %s has %s", i, d.Source, text)
			}
		}
	}
}
