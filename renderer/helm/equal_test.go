package helm_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/helm"
)

func TestChartsEqualHelm(t *testing.T) {
	onCorpus(t, func(t *testing.T, in input, values map[string]any) {
		t.Helper()
		c := in.load(t)
		o := options(values)
		in.compare(t, c, o)
		// some schemas refer to others on the network
		o.SkipSchema, o.ReleaseName, o.APIVersions = true, "other", []string{"monitoring.coreos.com/v1"}
		if n, rendered := in.compare(t, c, o); n == 0 || !rendered {
			t.Errorf("%d templates were compared, want at least 1", n)
		}
	})
}

// Renders each of Helm's own functions, and what only Helm has in the scope.
func TestFunctionsEqualHelms(t *testing.T) {
	const values = "map: {b: 1, a: [x, {y: true}], c: null}\nlist: [1, 2.5, text]\ntext: plain\nempty: \"\"\nnum: 12345678901\nfloat: 0.1\n"
	for _, text := range []string{
		`{{ toYaml .Values.map }}{{ toYaml .Values.missing }}{{ toYaml nil }}`, `{{ toYamlPretty .Values.map }}`,
		`{{ toYaml .Files }}{{ toYaml .Chart }}`,
		`{{ toJson .Values }}{{ toJson nil }}`, `{{ toToml .Values.list }}`,
		`{{ toToml (dict "a" 1 "b" (dict "c" "d")) }}{{ toToml nil }}`,
		`{{ fromYaml "a: [1, {b: c}]" }}{{ fromYaml "a: [" }}{{ fromYaml "- 1" }}{{ fromYaml "" }}`,
		`{{ (fromYaml "x: 1").x }}`,
		`{{ fromYamlArray "[1, a]" }}{{ fromYamlArray "a: [" }}{{ fromYamlArray "a: b" }}`,
		`{{ fromJson "{\"a\": [1, 2.5]}" }}{{ fromJson "{" }}{{ fromJson "[]" }}{{ fromJson "null" }}`,
		`{{ fromJsonArray "[1]" }}{{ fromJsonArray "{" }}{{ fromJsonArray "null" }}`,
		`{{ fromToml "a = 1\n[b]\nc = \"d\"" }}{{ fromToml "=" }}`,
		`{{ required "m" .Values.num }}{{ required "m" 0 }}{{ required "m" false }}{{ required "m" .Values.list }}`,
		`{{ lookup "v1" "Secret" "n" "x" }}{{ lookup "v1" "Secret" "n" "x" | toJson }}{{ getHostByName "localhost" }}`,
		`{{ .Values.missing }}{{ .Values.map.missing }}{{ .Values.map.c }}{{ index .Values.map "q" }}{{ .Missing }}`,
		`{{ include "h" . }}{{ include "h" (dict "Values" .Values) | upper }}{{ template "h" . }}`,
		`{{ tpl "{{ .Values.text }}-{{ include \"h\" . }}" . }}{{ tpl "no template <no value>" . }}{{ tpl "" . }}{{ tpl "{{/* only a comment */}}" . }}`,
		`{{ tpl "{{ define \"n\" }}N{{ .Values.text }}{{ end }}{{ include \"n\" . }}" . }}{{ tpl "{{ tpl \"{{ .Values.text }}\" . }}" . }}`,
		`{{ tpl "{{ define \"h\" }}other{{ end }}{{ include \"h\" . }}" . }}{{ include "h" . }}{{ tpl "{{ include \"h\" . }}" . }}`,
		`{{ tpl "{{ define \"n\" }}1{{ end }}{{ tpl \"{{ include \\\"n\\\" . }}\" . }}" . }}`,
		`{{ tpl "{{ template \"gotpl\" . }}" . | quote | len | le 0 }}`,
		`{{ range $i, $t := list "{{ 1 }}" "{{ 2 }}" "{{ 1 }}" }}{{ tpl $t $ }}{{ end }}`,
		`{{ tpl "{{ .Values.missing }}|{{ .x.y }}" (dict "Values" dict "x" dict) }}`,
		`{{ .Files.Get "f.txt" }}{{ .Files.Lines "f.txt" }}{{ (.Files.Glob "*.txt").AsConfig }}{{ (.Files.Glob "*.txt").AsSecrets }}{{ .Files.Get "none" }}{{ typeOf .Files }}`,
		`{{ .Template.Name }}|{{ .Template.BasePath }}|{{ .Chart.Name }}|{{ .Chart.IsRoot }}|{{ typeOf .Chart }}|{{ .Release }}|{{ .Capabilities.KubeVersion }}`,
		`{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ toYaml $d }}|{{ toJson $d }}|{{ include "len" $d }}|{{ toYaml (list $d) }}`, `{{ $_ := set .Values "self" .Values }}{{ toYaml .Values }}{{ include "len" .Values }}`,
		`{{ $_ := set .Values "added" "x" }}{{ .Values.added }}{{ keys . | sortAlpha }}`,
		`{{ .Subcharts }}{{ len .Subcharts }}`,
		`{{ include (print $.Template.BasePath "/a.txt") . | sha256sum }}`, `{{ env "HOME" | default "none" }}`,
		`{{ expandenv "$HOME" }}`,
	} {
		in := chartOf("values.yaml", values, "f.txt", "one\ntwo\n", "templates/_h.tpl",
			`{{ define "h" }}h of {{ .Values.text }}{{ end }}{{ define "len" }}{{ len . }}{{ end }}`, "templates/a.txt",
			"A", "templates/x.txt", text)
		for _, v := range versions() {
			in.of(v).compare(t, in.of(v).load(t), options(nil))
			if t.Failed() {
				t.Fatalf("Helm %d with %s", v, text)
			}
		}
	}
}

// An error after the values were changed has the message of Helm's engine.
func TestErrorsAreHelms(t *testing.T) {
	for _, text := range []string{
		`{{ fail "no" }}`, `{{ required "give a" .Values.a }}`,
		`{{ $_ := set .Values "seen" (add1 (.Values.seen | default 0)) }}{{ fail (print "seen " .Values.seen) }}`,
		`{{ .Values.text.None }}`, `{{ include "none" . }}`, `{{ nofunction }}`, `{{ if }}`,
		`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
		`{{ tpl "{{ fail \"inner\" }}" . }}`, `{{ tpl "{{" . }}`, `{{ .Values.text.x }}`, `{{ index .Values.list 5 }}`,
		`{{ tpl 5 . }}`, `{{ env "HOME" }}`, `{{ template "none" }}`,
	} {
		for _, v := range versions() {
			errorIsHelms(t, chartOf("values.yaml", "text: a\nlist: [1]\n", "templates/x.yaml", text).of(v), text)
		}
	}
}

func errorIsHelms(t *testing.T, in input, text string) {
	t.Helper()
	_, want := in.reference(t, options(nil))
	if want == nil {
		t.Errorf("Helm %d renders %s", in.version, text)
		return
	}
	_, got := in.load(t).Render(t.Context(), options(nil))
	if got == nil {
		t.Errorf("%s: Sluice renders it, Helm %d says: %v", text, in.version, want)
		return
	}
	if strings.Contains(got.Error(), "\n") || !strings.HasPrefix(got.Error(), "x/templates/x.yaml:1") {
		t.Errorf("%s with Helm %d: got %q, want one line that begins with the place", text, in.version, got)
	}
	for part := range strings.FieldsFuncSeq(strings.ReplaceAll(want.Error(), ": ", "\n"),
		func(r rune) bool { return r == '\n' }) {
		// The place is in front of the message, and the rest in it.
		if message := strings.Trim(part, ": "); !strings.Contains(message, "x/templates/x.yaml") &&
			!strings.HasPrefix(message, "error calling") && !strings.Contains(got.Error(), message) &&
			!strings.HasPrefix(message, "executing") && message != "template" {
			t.Errorf("%s with Helm %d: got %v, want the message %q of %v", text, in.version, got, message, want)
		}
	}
}

// Enables and disables subcharts, and renames one, in one Chart.
func TestSubchartSelections(t *testing.T) {
	in := chartOf(
		"Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies:\n- {name: one, version: 1.0.0, condition: one.enabled}\n- {name: one, version: 1.0.0, alias: again, condition: again.enabled}\n- {name: lib, version: 1.0.0}\n",
		"values.yaml", "one: {enabled: false}\nagain: {enabled: false, text: fromparent}\nglobal: {g: 1}\n",
		"templates/a.txt", `{{ include "lib.n" . }} {{ keys .Subcharts | sortAlpha }} {{ range .Subcharts }}{{ .Chart.Name }}={{ .Values }}{{ kindOf .Capabilities }} {{ end }}{{ typeOf . }}{{ typeOf .Values }}{{ typeOf .Subcharts }}`,
		"charts/one/Chart.yaml", "apiVersion: v2\nname: one\nversion: 1.0.0\n",
		"charts/one/values.yaml", "text: own\n",
		"charts/one/file.txt", "of one",
		"charts/one/templates/s.txt",
		`{{ .Values.text }} {{ .Values.global.g }} {{ .Files.Get "file.txt" }} {{ .Template.Name }} {{ .Chart.IsRoot }} {{ include "lib.n" . }}`,
		"charts/lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
		"charts/lib/templates/_n.tpl", `{{ define "lib.n" }}{{ .Chart.Name }}{{ end }}`,
		"charts/lib/templates/not.txt", `{{ fail "a library renders nothing" }}`,
	)
	for _, v := range versions() {
		in := in.of(v)
		c := in.load(t)
		for range 2 {
			for i := range 4 {
				enabled := func(on bool) map[string]any { return map[string]any{"enabled": on} }
				o := options(map[string]any{"one": enabled(i&1 > 0), "again": enabled(i&2 > 0)})
				if n, _ := in.compare(t, c, o); n != 1+i&1+i>>1 {
					t.Errorf("selection %d: %d templates were compared, want %d", i, n, 1+i&1+i>>1)
				}
			}
		}
	}
}

// Two subcharts of one name have two scopes below the same path.
func TestSubchartsWithOneName(t *testing.T) {
	in := chartOf(
		"charts/one/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "charts/one/templates/one.txt",
		"{{ .Chart.Version }}",
		"charts/two/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 2.0.0\n", "charts/two/templates/two.txt",
		"{{ .Chart.Version }}",
	)
	for _, v := range versions() {
		in := in.of(v)
		for range 10 { // Helm loads subcharts in random order
			if n, _ := in.compare(t, in.load(t), options(nil)); n != 2 {
				t.Fatalf("%d templates were compared, want 2", n)
			}
		}
	}
}

// Helm refuses a template that is nested in itself more than 1,001 times.
func TestIncludesThatNestTooDeeply(t *testing.T) {
	in := chartOf("templates/_h.tpl",
		`{{ define "down" }}{{ if gt .n 0 }}{{ include "down" (dict "n" (sub .n 1 | int)) }}{{ end }}{{ .n }}{{ end }}`,
		"templates/a.txt", `{{ include "down" (dict "n" 600) }}{{ include "down" (dict "n" (int .Values.n)) }}`)
	for _, v := range versions() {
		in := in.of(v)
		c := in.load(t)
		for _, n := range []int{1, 700, 1000, 1001, 1200, 999} {
			if _, rendered := in.compare(t, c, options(map[string]any{"n": n})); rendered != (n <= 1000) || t.Failed() {
				t.Fatalf("nested %d times: rendered: %v, want %v", n, rendered, n <= 1000)
			}
		}
	}
}

func TestConcurrentRenderings(t *testing.T) {
	c := chartOf("values.yaml", "n: 0\n", "templates/_h.tpl", `{{ define "h" }}{{ tpl "{{ .Values.n }}" . }}{{ end }}`,
		"templates/x.yaml", `{{ range until 50 }}{{ include "h" $ }},{{ end }}`).load(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 20 {
				r, err := c.Render(t.Context(), options(map[string]any{"n": int64(i)}))
				if err != nil || string(r.Documents[0].Text) != strings.Repeat(strconv.Itoa(i)+",", 50)+"\n" {
					t.Errorf("rendering of %d: got %v, %v", i, r, err)
				}
			}
		})
	}
	group.Wait()
}

// What a template changes of the scope, its chart, its files and its values reaches the templates that follow, and no
// other rendering.
func TestChangesStayInTheRendering(t *testing.T) {
	for _, text := range []string{
		`{{ $_ := set .Values.a "x" .Release.Name }}`, `{{ $_ := set .Values.a.b.c "x" .Release.Name }}`,
		`{{ $_ := unset .Values.a "b" }}`, `{{ $_ := set (first .Values.list) "x" .Release.Name }}`,
		`{{ range .Values.list }}{{ $_ := set . "x" $.Release.Name }}{{ end }}`,
		`{{ $_ := set (index .Values.deep 0 0) "x" .Release.Name }}`,
		`{{ $_ := merge .Values.a (dict "b" (dict "c" (dict "y" .Release.Name))) }}`,
		`{{ $_ := mergeOverwrite .Values (dict "a" (dict "b" (dict "s" .Release.Name))) }}`,
		`{{ $m := merge (dict) .Values.a }}{{ $_ := mergeOverwrite $m (dict "b" (dict "s" .Release.Name)) }}`,
		`{{ $_ := set .Values.global.g "x" .Release.Name }}`, `{{ $_ := set .Values.sub.m "x" .Release.Name }}`,
		`{{ $_ := set .Values.sub.global.g "x" .Release.Name }}`,
		`{{ tpl "{{ $_ := set .Values.a \"x\" .Release.Name }}" . }}`, `{{ $_ := set . "x" .Release.Name }}`,
		`{{ $_ := set .Subcharts "x" .Release.Name }}`, `{{ $_ := set .Release "x" .Release.Name }}`,
		`{{ $_ := mergeOverwrite (dict "a" .Chart.Annotations) (dict "a" (split "," .Release.Name)) }}`,
		`{{ $_ := mergeOverwrite (dict "a" (index .Chart.Maintainers 0)) (dict "a" (index .Chart.Maintainers 1)) }}`,
		`{{ $_ := sortAlpha .Chart.Keywords }}{{ $_ := sortAlpha .Chart.Sources }}{{ $_ := sortAlpha .Capabilities.APIVersions }}{{ $_ := sortAlpha (index .Chart.Dependencies 0).Tags }}`,
		`{{ $i := (first .Chart.Dependencies).ImportValues }}{{ $_ := mergeOverwrite (dict "a" (first $i)) (dict "a" (last $i)) }}`,
		`{{ $_ := merge (dict "f" .Files) (dict "f" .Subcharts.sub.Files) }}`,
		`{{ $c := merge (dict "a" 1) . }}{{ $_ := mergeOverwrite $c (dict "Files" .Subcharts.sub.Files) }}`,
	} {
		in := chartOf(
			"Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\nkeywords: [b, a]\nsources: [d, c]\nannotations: {k: v}\nmaintainers: [{name: m}, {name: n}]\n"+
				"dependencies: [{name: sub, version: 1.0.0, tags: [f, e], import-values: [{child: m, parent: moved}, data]}]\n",
			"values.yaml", "a: {s: t, b: {s: u, c: {s: v}}}\nlist: [{s: w}, {s: x}]\ndeep: [[{s: p}]]\nempty: {}\nglobal: {g: {s: z}}\nsub: {m: {t: 1}}\n", "own.txt", "own", "both.txt", "own",
			"templates/b.txt", text+"{{ toJson .Values }}",
			"templates/a.txt", `{{ toJson .Values }}{{ toJson .Chart }}{{ .Capabilities.APIVersions }}{{ toJson .Release }}{{ keys . | sortAlpha }}{{ .Files.Get "sub.txt" }}{{ .Files.Get "both.txt" }}`,
			"charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\nannotations: {q: r}\n",
			"charts/sub/values.yaml", "m: {s: q, o: {s: r}}\nexports: {data: {u: v}}\nglobal: {g: {t: 1}, h: {}}\n",
			"charts/sub/sub.txt", "sub", "charts/sub/both.txt", "sub", "charts/sub/templates/s.txt",
			"{{ toJson .Values }}",
		)
		var c *helm.Chart
		for i, name := range []string{"p", "q", "p", "p", "q", "p"} {
			if i%3 == 0 { // each version in turn
				in = in.of(versions()[i/3])
				c = in.load(t)
			}
			o := options([]map[string]any{
				{},
				{"a": map[string]any{"own": map[string]any{}}},
				{"sub": map[string]any{"m": map[string]any{"o": nil}}},
			}[i%3])
			o.ReleaseName = name
			if n, _ := in.compare(t, c, o); n != 3 || t.Failed() {
				t.Fatalf("rendering %d with %s: %d templates were compared, want 3", i, text, n)
			}
		}
	}
}

// Random charts with subcharts, conditions, tags, aliases, imported values, nulls and templates that change values.
func TestRandomChartsEqualHelm(t *testing.T) {
	rendered, refused, compared := 0, 0, 0
	for seed := range uint64(randomCharts(t)) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		in := input{files: g.chart("x", 2)}.of(versions()[seed%2])
		c := in.load(t)
		for range 4 {
			o := options(g.table(3))
			o.ReleaseName = g.of("r", "q")
			n, ok := in.compare(t, c, o)
			if compared += n; ok {
				rendered++
			} else {
				refused++
			}
			if t.Failed() {
				t.Logf("seed %d: values %v", seed, o.Values)
				for _, f := range in.files {
					t.Logf("%s:\n%s", f.Path, f.Data)
				}
				return
			}
		}
	}
	t.Logf("%d rendered and %d refused by both, %d templates compared", rendered, refused, compared)
	if rendered < 3*refused || compared < 3*rendered {
		t.Errorf("%d rendered and %d refused by both, %d templates compared: most charts must render", rendered,
			refused, compared)
	}
}

// chart returns a chart with up to two levels of subcharts below it.
func (g generator) chart(name string, depth int) []helm.File {
	head := fmt.Sprintf("apiVersion: v2\nname: %s\nversion: 1.0.0\n", name)
	var out []helm.File
	if depth > 0 {
		head += "dependencies:\n"
		for _, sub := range []string{"one", "two"} {
			if g.r.IntN(4) > 0 {
				head += g.request(sub)
			}
			for _, f := range g.chart(sub, depth-1-g.r.IntN(2)) {
				out = append(out, helm.File{Path: "charts/" + sub + "/" + f.Path, Data: f.Data})
			}
		}
	}
	file := func(path, text string) { out = append(out, helm.File{Path: path, Data: []byte(text)}) }
	file("Chart.yaml", head)
	file("values.yaml", g.json(g.table(3)))
	file("templates/_h.tpl",
		`{{ define "w" }}{{ $_ := set . "a" "w" }}{{ end }}{{ define "r" }}{{ toJson . }}{{ end }}`)
	for _, base := range []string{"a", "b", "c"} {
		file("templates/"+base+".txt", g.template())
	}
	return out
}
