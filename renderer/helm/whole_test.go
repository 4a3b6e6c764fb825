package helm

import (
	"fmt"
	"testing"
)

// umbrella returns a chart with two subcharts, of which every template prints what it sees.
func umbrella(t *testing.T, values, root, sub string) *Chart {
	t.Helper()
	const see = "{{ toJson .Values }}{{ .Values.m | toYaml }}{{ .Values.one | toYaml }}{{ .Values.global | toYaml }}" +
		`{{ toJson .Release }}{{ .Capabilities.KubeVersion.Version }}{{ .Capabilities.APIVersions.Has "x/v1" }}`
	return reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies:\n- {name: one, version: 1.0.0, condition: one.on, import-values: [{child: m, parent: moved}]}\n- {name: two, version: 1.0.0, tags: [t]}\n")},
		File{"values.yaml", []byte(values)}, File{"templates/b.txt", []byte(root + see)}, File{"templates/a.txt", []byte(see)},
		File{"charts/one/Chart.yaml", []byte("apiVersion: v2\nname: one\nversion: 1.0.0\n")}, File{"charts/one/values.yaml", []byte("m: {s: q, o: {s: r}}\nnum: 1\nglobal: {g: {t: 1, u: {v: 1}}, own: {p: q}}\n")},
		File{"charts/one/templates/s.txt", []byte(sub + see)}, File{"charts/one/templates/r.txt", []byte(see)}, File{"charts/one/templates/d/before.txt", []byte(see)},
		File{"charts/two/Chart.yaml", []byte("apiVersion: v2\nname: two\nversion: 1.0.0\n")}, File{"charts/two/values.yaml", []byte("m: {s: 2}\n")}, File{"charts/two/templates/s.txt", []byte(sub + see)})
}

// Subcharts of which the values say nothing share their merged values until a template changes them, the globals of both charts among them.
func TestSubchartsWithoutValues(t *testing.T) {
	texts := []string{
		"", `{{ $_ := set .Values "x" .Release.Name }}`, `{{ $_ := unset .Values "m" }}`, `{{ $_ := set .Values.m "x" .Release.Name }}`, `{{ $_ := set .Values.global "x" .Release.Name }}`,
		`{{ with .Values.global.g }}{{ $_ := set . "x" $.Release.Name }}{{ end }}`, `{{ with (.Values.global.g).u }}{{ $_ := set . "x" $.Release.Name }}{{ end }}`,
		`{{ range $k, $v := .Values.global }}{{ range (kindIs "slice" $v | ternary $v list) }}{{ $_ := set . "x" $.Release.Name }}{{ end }}{{ end }}`,
		`{{ with (.Values.one).m }}{{ $_ := set . "x" $.Release.Name }}{{ end }}`, `{{ with .Subcharts.one }}{{ $_ := set .Values "x" $.Release.Name }}{{ end }}`,
		`{{ if eq .Chart.Name "two" }}{{ $_ := set .Release "x" (toJson .Values.m) }}{{ end }}`, `{{ $_ := set .Release "x" .Release.Name }}{{ $_ := set .Values "x" 1 }}`,
		`{{ $_ := mergeOverwrite .Values (dict "m" (dict "x" .Release.Name)) }}`, `{{ $_ := set .Values "y" .Values.global }}{{ $_ := set .Values.y "z" .Release.Name }}`,
	}
	whole, parts := 0, 0
	for _, values := range []string{
		"own: 1\n", "global: {g: {s: z}}\n", "global: {g: {u: {s: z}}, k: v}\none: {on: true}\n", "global: {g: [{s: z}], k: [1]}\none: {m: null, num: 2}\n", "global: text\n", "global: {own: null, h: {l: [{s: z}]}}\ntwo: {m: {s: null, t: 3}, global: {g: 1}}\n",
	} {
		for i := range 2 * len(texts) {
			root, sub := texts[i/2], ""
			if i%2 == 1 {
				root, sub = "", texts[i/2]
			}
			c := umbrella(t, values, root, sub)
			for i, own := range []map[string]any{
				{}, {}, {"own": 2.0}, {"one": map[string]any{"num": nil}}, {}, {"global": map[string]any{"g": nil}}, {"global": map[string]any{}}, {"two": map[string]any{"m": map[string]any{"s": 5.0}}}, {"two": map[string]any{"m": map[string]any{"s": 6.0}}}, {"two": nil}, {"one": map[string]any{"on": false}}, {"tags": map[string]any{"t": false}}, {"own": nil}, {"one": map[string]any{}},
			} {
				o := options(own)
				o.ReleaseName, o.KubeVersion = fmt.Sprint("r", (i+1)/2%2), []string{"1.33.2", "1.30.0"}[i/5%2]
				if i%5 == 4 {
					o.APIVersions = []string{"x/v1"}
				}
				_, _, _ = reused(t, c, o)
				if t.Failed() {
					t.Fatalf("values %s%v, root %s, sub %s", values, own, root, sub)
				}
			}
			for _, s := range c.selections.charts {
				whole += len(s.defaults.whole)
				for _, w := range s.defaults.whole {
					if w.known.copied.Load() {
						parts++
					}
				}
			}
		}
	}
	if parts == 0 || parts*4 > 3*whole {
		t.Errorf("of %d subcharts, %d share nothing: the test compares nothing", whole, parts)
	}
}

// Schemas see the merged values.
func TestSchemasOfSubchartsWithoutValues(t *testing.T) {
	for schema, valid := range map[string]bool{`{"properties": {"num": {"type": "string"}}}`: false, `{"properties": {"num": {"type": "integer"}, "global": {"type": "object"}}, "required": ["global"]}`: true} {
		c := umbrella(t, "own: 1\n", "", "")
		for _, sub := range c.chart.Dependencies() {
			if sub.Name() == "one" {
				sub.Schema = []byte(schema)
			}
		}
		for range 3 {
			if _, err := c.Render(t.Context(), options(map[string]any{})); (err == nil) != valid {
				t.Errorf("%s: %v", schema, err)
			}
		}
	}
}

// A template that changes the merged values of every subchart is no reason to share nothing at all.
func TestChangesOfMergedValuesAreNoRestarts(t *testing.T) {
	files := []File{{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, {"values.yaml", []byte("m: {}\n")}, {"templates/a.txt", []byte("{{ toJson .Values }}")}}
	for i := range 2 * maxRestarts {
		at := fmt.Sprintf("charts/s%d/", i)
		files = append(files, File{at + "Chart.yaml", fmt.Appendf(nil, "apiVersion: v2\nname: s%d\nversion: 1.0.0\n", i)}, File{at + "values.yaml", []byte("m: {}\n")},
			File{at + "templates/a.txt", []byte(`{{ $_ := set .Values "x" .Release.Name }}`)})
	}
	c := reusable(t, files...)
	for range 4 {
		if _, _, err := reused(t, c, options(map[string]any{})); err != nil {
			t.Fatal(err)
		}
	}
	if d := defaultsOf(t, c); d.off.Load() || d.restarts.Load() > 0 {
		t.Errorf("off %t after %d restarts", d.off.Load(), d.restarts.Load())
	}
}
