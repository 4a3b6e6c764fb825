package helm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// unshared returns a chart and values that share nothing with other renderings: Helm's engine, which they are for, changes default values.
func unshared(c *Chart, o Options) (*chart.Chart, chartutil.Values, error) {
	in, err := c.prepare(o, false)
	return in.work, in.top, err
}

// reused renders with a chart that reuses results and compares each file with Helm's engine. It returns the numbers of files that were
// rendered and reused.
func reused(t *testing.T, c *Chart, o Options) (files, found int, err error) {
	t.Helper()
	work, top, err := unshared(c, o)
	if err != nil {
		return 0, 0, err
	}
	want, err := engine.Engine{}.Render(work, top)
	again := map[string]string{}
	if work, top, _ = unshared(c, o); err == nil { // some charts print random names
		again, err = engine.Engine{}.Render(work, top)
	}
	before := reusedFiles(c)
	_, out, got := c.attempt(t.Context(), o)
	unchanged(t, c)
	if err != nil {
		if got == nil {
			t.Errorf("only Helm refuses: %v", err)
		}
		return 0, 0, err
	}
	if got != nil {
		t.Errorf("only Helm renders: %v", got)
		return 0, 0, nil
	}
	for name, text := range want {
		if out.files[name].text != text && again[name] == text {
			t.Errorf("%s: got\n%s\nwant\n%s", name, out.files[name].text, text)
		}
		if !out.unstable && again[name] != text {
			t.Errorf("%s: Helm's texts differ, but no call of a function whose result differs each time was seen", name)
		}
	}
	return len(want), reusedFiles(c) - before, nil
}

func reusedFiles(c *Chart) int {
	c.results.mu.Lock()
	defer c.results.mu.Unlock()
	return c.results.found
}

// generator writes random templates, most of which render. Maps have the items m1 and m2, which are maps, and s1 and s2, which are scalars.
type generator struct {
	r         *rand.Rand
	scope     bool // the dot is a scope, not a map with the items ctx, m and s
	variables bool
}

func (g *generator) pick(choices ...func() string) string { return choices[g.r.IntN(len(choices))]() }

func (g *generator) of(texts ...string) string { return texts[g.r.IntN(len(texts))] }

func (g *generator) context(depth int) string {
	if !g.scope {
		return ".ctx"
	}
	if depth > 0 && g.r.IntN(4) == 0 {
		return fmt.Sprintf(`(dict "Values" %s "Release" $.Release "Chart" $.Chart "Template" $.Template "Capabilities" $.Capabilities)`, g.table(depth-1))
	}
	return "$"
}

func (g *generator) table(depth int) string {
	if depth <= 0 {
		if !g.scope && g.r.IntN(2) == 0 {
			return ".m"
		}
		return g.context(0) + ".Values"
	}
	m := func() string { return g.table(depth - 1) }
	s := func() string { return g.scalar(depth - 1) }
	f := func(format string, args ...func() string) func() string {
		return func() string {
			texts := make([]any, len(args))
			for i, arg := range args {
				texts[i] = arg()
			}
			return fmt.Sprintf(format, texts...)
		}
	}
	choices := []func() string{
		f("%s.Values", func() string { return g.context(depth - 1) }), f("%s.Values.m1", func() string { return g.context(depth - 1) }),
		f("(%s).m1", m), f("(%s).m2", m), f(`(get %s "m1")`, m), f(`(index (default (dict) %s) "m2")`, m), f(`(index (default (dict) %s) "m2")`, m), f(`(dig "m1" "m2" (dict) (default (dict) (%s).m1))`, m), f(`(default (dict) %s)`, m),
		f(`(merge (dict) %s)`, m), f(`(merge (dict "s1" %s) %s)`, s, m), f("(deepCopy %s)", m), f(`(omit %s "s1")`, m), f(`(pick %s "m1" "s1")`, m),
		f(`(dict "m1" %s "m2" %s "s1" %s "s2" %s)`, m, m, s, s), f(`(dict %s %s "m1" %s)`, s, s, m), f("(ternary %s %s (not %s))", m, m, s), f("(or %s %s)", m, m), f("(and %s %s)", m, m), f("(fromYaml (toYaml %s))", m),
		f("(index (list %s %s) 1)", m, m), f("(first (list %s %s))", m, m), f("(last (list %s %s))", m, m), f(`(set (dict "s1" %s) "m1" %s)`, s, m), f("(mergeOverwrite (dict) %s)", m),
		f(`(index (dict "x" (list %s)) "x" 0)`, m), f(`(get (dict "k" %s) "k")`, m), f(`(mergeOverwrite (deepCopy %s) %s %s)`, m, m, m),
		f(`(coalesce nil %s)`, m), f(`(required "r" %s)`, m), f(`(index (default (dict) %s) %s)`, m, func() string { return `(print "m" "1")` }),
	}
	if g.variables {
		choices = append(choices, func() string { return "$m" }, func() string { return "$m" }, func() string { return "$n" }, f("$n.m1"))
	}
	if !g.scope {
		choices = append(choices, func() string { return ".m" }, func() string { return ".m.m1" })
	}
	return g.pick(choices...)
}

func (g *generator) scalar(depth int) string {
	if depth <= 0 {
		if !g.scope && g.r.IntN(2) == 0 {
			return "(toString .s)"
		}
		return g.of(`"x"`, `"s1"`, `"s2"`, "("+g.context(0)+".Values.s1 | toString)", "("+g.context(0)+".Values.s2 | toString)")
	}
	m, s := g.table(depth-1), g.scalar(depth-1)
	c := g.context(depth - 1)
	choices := []string{
		fmt.Sprintf("(toString (%s).s1)", m), fmt.Sprintf("(toString (%s).s2)", m), "(toString (" + c + ").Release.Name)", "(" + c + ").Chart.Name", "(toString (" + c + ").Template.Name)",
		"(toString (" + c + ").Capabilities.KubeVersion.Minor)", "(print (" + c + `.Capabilities.APIVersions.Has "x/v1"))`,
		fmt.Sprintf(`(include "h0" %s)`, c), fmt.Sprintf(`(include (print "h" "0") %s)`, c), fmt.Sprintf(`(include "h1" (dict "ctx" %s "m" %s "s" %s))`, c, m, s),
		fmt.Sprintf(`(include "h3" (dict "ctx" %s "m" %s "s" %s))`, c, m, s), fmt.Sprintf("(toJson %s)", m), fmt.Sprintf("(tpl %s %s)", s, c), fmt.Sprintf("(print %s %s)", s, g.scalar(depth-1)),
		fmt.Sprintf("(toString (get %s %s))", m, s), fmt.Sprintf(`(toString (hasKey %s "s1"))`, m), fmt.Sprintf(`(toString (hasKey %s "m1"))`, m), fmt.Sprintf("(toString (index (default (dict) %s) %s))", m, s),
		fmt.Sprintf(`(keys %s | sortAlpha | join ",")`, m), fmt.Sprintf("(kindOf %s)", m), fmt.Sprintf("(upper %s)", s), fmt.Sprintf(`(toJson (dig "m1" "s1" "none" (default (dict) (%s).m2)))`, m), fmt.Sprintf(`(eq %s "1" | toString)`, s),
		fmt.Sprintf(`(tpl "{{ .Values.s2 }}{{ include \"k0\" . }}" %s)`, c), fmt.Sprintf("(default %s (%s).s2 | toString)", s, m), fmt.Sprintf("(typeOf (%s).s2)", m), fmt.Sprintf("(len %s | toString)", m),
	}
	if g.variables {
		choices = append(choices, "$s", "$s", "(toString $m.s1)")
	}
	if g.r.IntN(20) == 0 {
		choices = []string{fmt.Sprintf(`(include (print "k" (len (toString %s.Values.s1) | min 1)) %s)`, c, c)}
	}
	return g.of(choices...)
}

func (g *generator) statements(n, depth int) string {
	var out strings.Builder
	for range n {
		m, s := g.table(depth), g.scalar(depth)
		body := func() string { return g.statements(g.r.IntN(n)+1, depth-1) }
		if depth <= 0 {
			body = func() string { return g.scalar(0) + "{{ " + g.scalar(0) + " }}" }
		}
		choices := []func() string{
			func() string { return "{{ " + s + " }}" }, func() string { return "{{ toJson " + m + " }}" },
			func() string { return "{{ if " + g.of(s, m) + " }}" + body() + "{{ else }}" + body() + "{{ end }}" },
			func() string { return "{{ if eq " + s + ` "1" }}` + body() + "{{ end }}" },
			func() string { return "{{ range $k, $v := " + m + " }}{{ $k }}{{ toJson $v }}{{ end }}" },
			func() string { return "{{ with " + m + " }}{{ .s1 }}{{ toJson .m1 }}{{ else }}" + body() + "{{ end }}" },
			func() string { return `{{ template "h2" ` + g.context(depth) + " }}" },
		}
		if g.variables {
			choices = append(choices, func() string { return "{{ $m = " + m + " }}" }, func() string { return "{{ $s = " + s + " }}" },
				func() string {
					return "{{ range $i := until 2 }}{{ $s }}{{ $s = print $s " + s + " }}{{ $n = $m }}{{ $m = " + m + " }}{{ end }}"
				},
				func() string { return `{{ $n = dict "m1" ` + m + ` "s1" ` + s + ` }}{{ $_ := set $n "s2" ` + s + " }}" })
		}
		out.WriteString(g.pick(choices...) + "\n")
	}
	return out.String()
}

// template returns a template with variables.
func (g *generator) template() string {
	g.variables = false
	start := "{{ $m := " + g.table(1) + " }}{{ $n := dict }}{{ $s := " + g.scalar(1) + " }}"
	g.variables = true
	return start + g.statements(g.r.IntN(3)+1, 2)
}

// chart returns the files of a chart with a subchart.
func (g *generator) chart() []File {
	var helpers strings.Builder
	for i := range 4 {
		g.scope = i%2 == 0
		text := g.template()
		for _, later := range []string{"h0", "h1", "h2", "h3"}[:i+1] { // calls only the ones before, or the execution would not end
			text = strings.ReplaceAll(text, `"`+later+`"`, fmt.Sprintf(`"k%d"`, g.r.IntN(2)))
		}
		fmt.Fprintf(&helpers, `{{ define "h%d" }}%s{{ end }}`, i, strings.ReplaceAll(text, `(print "h" "0")`, `"k0"`))
	}
	helpers.WriteString(`{{ define "k0" }}{{ .Values.s1 }}{{ end }}{{ define "k1" }}{{ if not .m }}{{ .ctx.Values.s2 }}{{ else }}{{ toJson .m }}{{ end }}{{ end }}`)
	g.scope = true
	files := []File{
		{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, condition: sub.on}]\n")},
		{"values.yaml", []byte("s1: a\ns2: b\nm1: {s1: c, m1: {s1: d, m1: {}, m2: {}}, m2: {s2: e}}\nm2: {m1: {}, m2: {}}\nsub: {on: true, m2: {s1: p}}\nglobal: {s1: g}\n")},
		{"templates/_h.tpl", []byte(helpers.String())},
		{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")},
		{"charts/sub/values.yaml", []byte("m1: {s1: q, m1: {}}\ns1: r\ns2: 1\n")},
		{"charts/sub/templates/s.txt", []byte(g.template() + "{{ toJson .Values.global }}")},
	}
	for i := range 3 {
		files = append(files, File{fmt.Sprintf("templates/f%d.txt", i), []byte(g.template())})
	}
	return files
}

// mutation changes random values.
func (g *generator) mutation(values map[string]any) {
	leaf := func() any {
		return []any{"1", "2", int64(1), 1.5, true, false, nil, "", "s1", "s2", "0", "{{ .Values.s1 }}", "{{ include \"k0\" . }}", `{{ $_ := set .Values "s1" "Q" }}`, []any{"s1"}, map[string]any{"s1": "z"}}[g.r.IntN(16)]
	}
	at := values
	for range g.r.IntN(3) {
		key := g.of("m1", "m2", "sub", "global")
		below, ok := at[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[key] = below
		}
		at = below
	}
	switch g.r.IntN(12) {
	case 0:
		delete(at, g.of("m1", "m2", "s1", "s2"))
	case 1:
		at[g.of("m1", "m2")] = leaf()
	case 2:
		at["on"] = g.r.IntN(2) == 0
	default:
		at[g.of("s1", "s2")] = leaf()
	}
}

// seeds renders random charts with changing values.
func seeds(t *testing.T, first, n uint64) (files, found int) {
	t.Helper()
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		g := &generator{r: rand.New(rand.NewPCG(seed, 1))}
		parts := g.chart()
		c, err := Load(parts, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		c.Reuse(NewResults(1 << 20))
		o := options(map[string]any{})
		for range 12 {
			if g.r.IntN(3) > 0 {
				o.Values = copyMap(o.Values)
				g.mutation(o.Values)
			}
			o.ReleaseName = g.of("r", "r", "r", "q")
			o.KubeVersion = g.of("1.33.2", "1.33.2", "1.30.0")
			o.APIVersions = [][]string{nil, {"x/v1"}}[g.r.IntN(2)]
			n, reuses, _ := reused(t, c, o)
			files, found = files+n, found+reuses
			if t.Failed() {
				t.Logf("seed %d: values %v", seed, o.Values)
				for _, f := range parts {
					t.Logf("%s:\n%s", f.Path, f.Data)
				}
				return files, found
			}
		}
	}
	return files, found
}

func TestReuseEqualsHelmOnRandomCharts(t *testing.T) {
	most := uint64(20)
	if testing.Short() {
		most = 15
	}
	first, n := chosenSeeds(t, most)
	files, found := seeds(t, first, n)
	t.Logf("%d files, %d reused", files, found)
	if found*30 < files {
		t.Errorf("only %d of %d files were reused: the test compares nothing", found, files)
	}
}

func TestReuseEqualsHelmOnCorpus(t *testing.T) {
	onCorpus(t, func(t *testing.T, c *Chart, _ map[string]any) {
		t.Helper()
		c.Reuse(NewResults(64 << 20))
		r := rand.New(rand.NewPCG(7, 7))
		n, found, failed := 0, 0, 0
		for i := range 14 {
			o := options(map[string]any{})
			o.SkipSchema = true
			if i > 3 {
				changeValues(r, o.Values, c.chart.Values, 0)
			}
			if i%5 == 4 {
				o.ReleaseName = "other"
			}
			files, reuses, err := reused(t, c, o)
			if err != nil {
				failed++
			}
			n, found = n+files, found+reuses
		}
		t.Logf("%d files, %d reused, %d renderings failed, %v", n, found, failed, programsOf(c))
	})
}

func programsOf(c *Chart) (out []string) {
	for _, p := range c.parsed.programs {
		if p == nil {
			continue
		}
		all := 0
		if p.reads != nil {
			for _, f := range p.reads.files {
				if f.blocks[0].all {
					all++
				}
			}
			out = append(out, fmt.Sprintf("%d files, %d read all", len(p.reads.files), all))
		} else {
			out = append(out, "never")
		}
	}
	return out
}

// changeValues overrides some of the defaults of a chart.
func changeValues(r *rand.Rand, into, defaults map[string]any, depth int) {
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		switch x := defaults[key].(type) {
		case map[string]any:
			if r.IntN(3) == 0 && depth < 6 {
				below := map[string]any{}
				changeValues(r, below, x, depth+1)
				into[key] = below
			}
			continue
		case bool:
			if r.IntN(6) == 0 {
				into[key] = !x
			}
		case string:
			if r.IntN(12) == 0 {
				into[key] = x + "a"
			}
		case nil:
			if r.IntN(20) == 0 {
				into[key] = "v"
			}
		}
		if r.IntN(60) == 0 {
			into[key] = []any{nil, "text", map[string]any{"a": "b"}, []any{"x"}, 3.0}[r.IntN(5)]
		}
	}
}

// reusable loads a chart that reuses results.
func reusable(t *testing.T, files ...File) *Chart {
	t.Helper()
	c, err := Load(files, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	c.Reuse(NewResults(1 << 20))
	return c
}

// A template can fail at a value that it does not print: a scalar and null have no fields.
func TestReuseEqualsHelmThatRefuses(t *testing.T) {
	for _, text := range []string{
		`{{ $y := .Values.a.b }}x`, `{{ $y := .Values.a.b.c }}{{ if .Values.use }}{{ $y }}{{ end }}`, `{{ $y := get .Values.a "b" }}`, `{{ $y := index .Values "a" "b" }}`,
		`{{ include "n" .Values.a.b }}`, `{{ include "n" (dict "v" .Values.a.b) }}`, `{{ template "n" .Values.a.b }}`, `{{ $d := dict "a" .Values.a }}{{ $y := $d.a.b }}`, `{{ include "f" (dict "v" .Values.a "on" .Values.use) }}`,
		`{{ tpl "x" .Values.a.b }}`, `{{ $y := (index (list .Values.a) 0).b }}`, `{{ if hasKey .Values "use" }}{{ $y := .Values.a.b }}{{ end }}`,
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("use: false\n")}, File{"templates/a.txt", []byte(text)},
			File{"templates/_h.tpl", []byte(`{{ define "n" }}n{{ end }}{{ define "f" }}{{ $y := .v.b }}{{ if .on }}{{ $y }}{{ end }}{{ end }}`)})
		found, refused := 0, 0
		table := map[string]any{"b": map[string]any{"c": "1"}}
		for _, a := range []any{table, table, table, nil, "s", []any{"s"}, map[string]any{"b": nil}, table, 1.0} {
			_, reuses, err := reused(t, c, options(map[string]any{"a": a}))
			found += reuses
			if err != nil {
				refused++
			}
			if t.Failed() {
				t.Fatalf("%s with %v", text, a)
			}
		}
		if found == 0 || refused == 0 {
			t.Errorf("%s: %d files reused, %d renderings refused: the test compares nothing", text, found, refused)
		}
	}
}

// Helm takes a dot in the name of a subchart for the separator of a path.
func TestReuseBesideChangesOfDottedChart(t *testing.T) {
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: do.t, version: 1.0.0}]\n")}, File{"values.yaml", []byte("do: {t: {q: {x: d}}}\n")},
		File{"templates/a/b/c/d/e.txt", []byte("{{ toJson .Values.do }}")}, File{"templates/d.txt", []byte("{{ toJson .Values.do }}")},
		File{"charts/dot/Chart.yaml", []byte("apiVersion: v2\nname: do.t\nversion: 1.0.0\n")}, File{"charts/dot/templates/m.txt", []byte(`{{ $_ := set .Values.q "x" (print .Release.Name) }}`)})
	for _, name := range []string{"a", "b", "c"} {
		o := options(map[string]any{})
		o.ReleaseName = name
		if _, _, err := reused(t, c, o); err != nil {
			t.Fatal(err)
		}
	}
}
