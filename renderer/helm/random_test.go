package helm_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// randomCharts returns how many random charts a test renders: SLUICE_RANDOM_CHARTS, or some.
func randomCharts(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SLUICE_RANDOM_CHARTS")
	if text == "" {
		return 25
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SLUICE_RANDOM_CHARTS=%q is no number above 0", text)
	}
	return n
}

// generator makes random charts and values. Their keys meet often: those of subcharts, globals and a few others.
type generator struct{ r *rand.Rand }

func (g generator) of(texts ...string) string { return texts[g.r.IntN(len(texts))] }

// table returns values with nulls, lists and tables. Values of subcharts are mostly tables: Helm refuses the others.
func (g generator) table(depth int) map[string]any {
	out := map[string]any{}
	for _, key := range []string{"global", "one", "two", "a", "b", "tags"} {
		if key == "one" || key == "two" || key == "global" {
			switch n := g.r.IntN(400); {
			case n == 0:
				out[key] = nil
			case n == 1:
				out[key] = "text"
			case n < 200 && depth > 0:
				out[key] = g.table(depth - 1)
			}
			continue
		}
		switch n := g.r.IntN(10); {
		case n < 3:
		case n == 3:
			out[key] = nil
		case n == 4:
			out[key] = []any{float64(g.r.IntN(3)), map[string]any{"in": "list"}}
		case n == 5:
			out[key] = g.r.IntN(2) == 0
		case n == 6 || depth == 0:
			out[key] = fmt.Sprint("v", g.r.IntN(3))
		default:
			out[key] = g.table(depth - 1)
		}
	}
	return out
}

func (generator) json(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // of plain values
	}
	return string(out)
}

// request is an entry of the dependencies in Chart.yaml.
func (g generator) request(name string) string {
	entry := map[string]any{"name": name, "version": g.of("1.0.0", "1.0.0", ">0.1")}
	if g.r.IntN(2) == 0 {
		entry["condition"] = g.of("a", "a.b", "one.a", "one.a.b,b", "two.b, a", "global.a", "one.global.a,two.global.b",
			" two.a ", "a,,b", "one", "tags.a")
	}
	if g.r.IntN(3) == 0 {
		entry["tags"] = [][]string{{"a"}, {"a", "b"}, {"b"}}[g.r.IntN(3)]
	}
	if g.r.IntN(4) == 0 {
		entry["alias"] = g.of("b", "other", "third") + name[:1]
	}
	if g.r.IntN(3) == 0 {
		entry["import-values"] = [][]any{
			{"a"},
			{map[string]any{"child": "a", "parent": "b"}},
			{map[string]any{"child": "b.a", "parent": "."}},
		}[g.r.IntN(3)]
	}
	return "- " + g.json(entry) + "\n"
}

// part is an expression that can be a table of the values, or an empty one.
func (g generator) part() string {
	table := func(text string) string { return "(ternary " + text + ` (dict) (kindIs "map" ` + text + "))" }
	part := table(g.of("$.Values", "$.Values.a", "$.Values.b", "$.Values.global", "$.Values.one", "$.Values.two",
		"$.Values.tags"))
	if g.r.IntN(3) == 0 {
		part = table("(get " + part + ` "a")`)
	}
	return strings.ReplaceAll(g.of("T", "T", "T", "(default (dict) T)", "(omit T \"z\")", "(merge (dict) T)",
		"(deepCopy T)", "(first (list T))", `(get (dict "k" T) "k")`, "(required \"r\" T)"), "T", part)
}

// template reads values, and sometimes changes them. The texts of those that change them say what the following ones
// see.
func (g generator) template() string {
	var out strings.Builder
	for range 1 + g.r.IntN(4) {
		p, s := g.part(), g.of(`"x"`, `"y"`, "$.Release.Name", "$.Chart.Name")
		out.WriteString(g.of(
			"{{ toJson $.Values }}", "{{ toYaml "+p+" }}", "{{ "+p+".a }}", `{{ include "r" `+p+" }}",
			"{{ if "+p+".a }}a{{ else }}b{{ end }}", "{{ len "+p+" }}", `{{ hasKey `+p+` "a" }}`,
			"{{ range $k, $v := "+p+" }}{{ $k }}={{ kindOf $v }}{{ end }}", "{{ toToml (dict \"a\" "+s+") }}",
			"{{ keys $.Subcharts | sortAlpha }}", "{{ $.Template.Name }}{{ $.Chart.IsRoot }}",
			"{{ typeOf $.Values }}{{ typeOf . }}",
			"{{ printf \"%v\" "+p+".b }}", "{{ tpl \"{{ .Values.a }}{{ include \\\"r\\\" .Chart.Name }}\" $ }}",
			"---\n{{ "+s+" }}\n---\n\n", "a: |\n  {{ "+s+" }}\n\n",
			`{{ $_ := set `+p+` "a" `+s+` }}`, `{{ $_ := unset `+p+` "b" }}`, `{{ include "w" `+p+` }}`,
			`{{ $_ := mergeOverwrite `+p+` (dict "a" `+s+` "b" (dict "a" `+s+`)) }}`,
			`{{ $_ := merge `+p+` (dict "b" (dict "a" `+s+`)) }}`,
		) + "\n")
	}
	return out.String()
}
