package helm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestIncludes compares files that include the same templates with Helm's engine. The files read different values, so that
// some are executed and others reused.
func TestIncludes(t *testing.T) {
	const helpers = `{{ define "v" }}{{ .Values.a }}{{ if .Values.on }}{{ .Values.b }}{{ end }}{{ end }}{{ define "name" }}{{ .Template.Name }}{{ end }}{{ define "base" }}{{ .Template.BasePath }}{{ end }}
{{ define "set" }}{{ $_ := set .m "n" .v }}{{ .v }}{{ end }}{{ define "deep" }}{{ include "set" (dict "m" .Values.tree "v" .Values.a) }}{{ end }}{{ define "text" }}{{ tpl .t .ctx }}{{ end }}
{{ define "chance" }}{{ if .ctx.Values.on }}{{ randAlphaNum 3 | trunc 0 }}{{ end }}{{ .ctx.Values.b }}{{ end }}{{ define "tree" }}{{ toJson .Values.tree }}{{ end }}{{ define "all" }}{{ .t }}{{ typeOf .t }}{{ end }}
{{ define "own" }}{{ $d := dict "a" .Values.a }}{{ $_ := set $d "b" .Values.b }}{{ $_ := mergeOverwrite $d .Values.tree }}{{ toJson $d }}{{ end }}{{ define "below" }}{{ $_ := set (index .l 0) "n" .v }}{{ .v }}{{ end }}
{{ define "into" }}{{ $_ := mergeOverwrite .m (dict "n" (dict "v" .v)) }}{{ .v }}{{ end }}{{ define "listed" }}{{ (index . 0).Values.b }}{{ index . 1 }}{{ end }}{{ define "chart" }}{{ .Chart.Name }}{{ .Values.a }}{{ end }}{{ define "chart of" }}{{ .ctx.Chart.Name }}{{ .ctx.Values.a }}{{ end }}
{{ define "file" }}{{ include "x/templates/f.txt" . }}{{ end }}{{ define "json" }}{{ toJson . }}{{ end }}{{ define "again" }}{{ if .Values.on }}{{ include "x/templates/a.txt" (dict "Values" (dict "stop" true "b" .Values.b)) }}{{ end }}{{ end }}`
	for name, texts := range map[string][3]string{
		"values":                  {`{{ include "v" . }}{{ include "v" $ }}{{ .Values.c }}`, `{{ include "v" . }}`, `{{ include "v" (dict "Values" (dict "a" 1 "on" false)) }}`},
		"subchart":                {`{{ include "v" . }}{{ .Values.c }}`, `{{ include "v" .Subcharts.sub }}`, `{{ include "v" (dict "Values" .Values) }}`},
		"name of the file":        {`{{ include "name" . }}{{ .Values.c }}`, `{{ include "name" $ }}`, `{{ include "name" (dict "Template" .Template) }}`},
		"path of the files":       {`{{ include "base" . }}{{ .Values.c }}`, `{{ include "base" $ }}`, `{{ include "base" (dict "Template" .Template) }}`},
		"changes of the argument": {`{{ $d := dict }}{{ include "set" (dict "m" $d "v" .Values.b) }}{{ toJson $d }}{{ .Values.c }}`, `{{ $d := dict }}{{ include "set" (dict "m" $d "v" .Values.b) }}{{ toJson $d }}`, `{{ $d := dict }}{{ include "set" (dict "m" $d "v" .Values.b) }}{{ $d.n }}`},
		"changes of its own maps": {`{{ include "own" . }}{{ .Values.c }}`, `{{ include "own" . }}{{ include "own" . }}`, `{{ include "own" $ }}{{ .Values.c }}`},
		"changes below a list":    {`{{ $d := dict }}{{ include "below" (dict "l" (list $d) "v" .Values.b) }}{{ toJson $d }}{{ .Values.c }}`, `{{ $d := dict }}{{ include "below" (dict "l" (list $d) "v" .Values.b) }}{{ toJson $d }}`, `{{ .Values.c }}`},
		"changes by a merge":      {`{{ $n := dict }}{{ include "into" (dict "m" (dict "n" $n) "v" .Values.b) }}{{ toJson $n }}{{ .Values.c }}`, `{{ $n := dict }}{{ include "into" (dict "m" (dict "n" $n) "v" .Values.b) }}{{ toJson $n }}`, `{{ .Values.c }}`},
		"lists with the scope":    {`{{ include "listed" (list . "x") }}{{ .Values.c }}`, `{{ include "listed" (list . "y") }}{{ include "listed" (list $ .Values.a) }}`, `{{ include "listed" (list . .Values.c) }}`},
		"charts":                  {`{{ include "chart" . }}{{ include "chart of" (dict "ctx" .) }}{{ .Values.c }}`, `{{ include "chart" . }}{{ .Values.c }}`, `{{ include "chart of" (dict "ctx" .) }}{{ .Values.c }}`},
		"changes of the scope":    {`{{ include "tree" . }}{{ include "deep" . }}{{ include "tree" . }}{{ .Values.c }}`, `{{ include "tree" . }}{{ include "deep" . }}`, `{{ include "tree" $ }}`},
		"texts":                   {`{{ include "text" (dict "t" "{{ .Values.b }}" "ctx" .) }}{{ .Values.c }}`, `{{ include "text" (dict "t" "{{ define \"v\" }}other{{ end }}{{ include \"v\" . }}" "ctx" .) }}{{ include "v" . }}`, `{{ include "v" . }}{{ include "text" (dict "t" "{{ include \"v\" . }}" "ctx" $) }}`},
		"texts in two files":      {`{{ include "text" (dict "t" "{{ .Values.b }}" "ctx" .) }}`, `{{ include "text" (dict "t" "{{ .Values.b }}" "ctx" .) }}`, `{{ include "text" (dict "t" "{{ .Values.b }}" "ctx" .) }}`},
		"a text, then a template": {`{{ tpl "{{ .Values.b }}" . }}{{ include "all" (dict "t" 1) }}`, `{{ tpl "{{ .Values.b }}" . }}{{ include "v" . }}`, `{{ .Values.c }}{{ include "all" (dict "t" 1) }}`},
		"chance":                  {`{{ include "chance" (dict "ctx" .) }}{{ .Values.c }}`, `{{ include "chance" (dict "ctx" .) }}`, `{{ include "chance" (dict "ctx" $) }}`},
		"types":                   {`{{ include "all" (dict "t" 1) }}{{ include "all" (dict "t" "1") }}{{ include "all" (dict "t" 1.0) }}{{ .Values.c }}`, `{{ include "all" (dict "t" nil) }}{{ include "all" (dict "t" (list)) }}{{ include "all" (dict "t" (dict)) }}{{ include "all" (dict "t" "") }}`, `{{ include "all" (dict "t" (int64 1)) }}{{ include "all" (dict "t" (list 1 (list 2))) }}{{ include "all" (dict "t" (list 1 2)) }}{{ .Values.b }}`},
		"null":                    {`{{ include "json" (list) }}{{ include "json" (fromJsonArray "null") }}{{ .Values.c }}`, `{{ include "json" (dict "a" (fromYaml "null")) }}{{ include "json" (dict "a" dict) }}{{ .Values.c }}`, `{{ include "json" (fromYaml "null") }}{{ include "json" dict }}{{ .Values.b }}`},
		"files":                   {`{{ include "file" . }}{{ .Values.c }}`, `{{ include "x/templates/f.txt" . | sha256sum }}`, `{{ include "file" . }}{{ include "x/templates/f.txt" $ }}`},
		"a file that is included": {`{{ if .Values.stop }}{{ .Values.b }}{{ else }}{{ include "again" (dict "Values" .Values) }}{{ end }}`, `{{ include "again" (dict "Values" (dict "on" .Values.on "b" .Values.b)) }}{{ .Values.c }}`, `{{ include "again" (dict "Values" (dict "on" true "b" .Values.b)) }}{{ .Values.c }}`},
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0}]\n")}, File{"values.yaml", []byte("a: v\ntree: {k: v}\nsub: {b: own, a: s, tree: {q: r}}\n")},
			File{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")}, File{"charts/sub/templates/s.txt", []byte(texts[0])},
			File{"templates/_h.tpl", []byte(helpers)}, File{"templates/f.txt", []byte(`{{ if .Values.on }}{{ .Values.b }}{{ else }}{{ .Values.a }}{{ end }}`)},
			File{"templates/a.txt", []byte(texts[0])}, File{"templates/b.txt", []byte(texts[1])}, File{"templates/c.txt", []byte(texts[2])})
		found := 0
		for i := range 48 {
			values := map[string]any{"on": i%2 == 0, "a": fmt.Sprint("a", i/2%2), "b": fmt.Sprint("b", i/4%2), "c": fmt.Sprint("c", i/3%4)}
			_, reuses, err := reused(t, c, options(values))
			if found += reuses; t.Failed() || err != nil {
				t.Fatalf("%s, rendering %d: %v", name, i, err)
			}
		}
		if found == 0 {
			t.Errorf("%s: no file was reused", name)
		}
	}
}

// TestIncludesOfOtherRenderings counts the texts that a later rendering takes from an earlier one.
func TestIncludesOfOtherRenderings(t *testing.T) {
	const helpers = `{{ define "a" }}{{ .Values.a }}{{ end }}{{ define "b" }}{{ .Values.b }}{{ end }}{{ define "a of" }}{{ .ctx.Values.a }}{{ .name }}{{ end }}{{ define "named" }}{{ include .name .ctx }}{{ end }}{{ define "all" }}{{ toJson .Values }}{{ end }}{{ define "this" }}{{ .Template.Name }}{{ end }}`
	const setters = `{{ define "own" }}{{ $d := dict }}{{ $_ := set $d "a" .Values.a }}{{ toJson $d }}{{ end }}{{ define "set" }}{{ $_ := set .d "a" .v }}{{ end }}` // then names in a dict are not known
	for text, want := range map[string]int{
		`{{ include "a" . }}`: 1,
		`{{ include "b" . }}`: 0,
		`{{ include "a of" (dict "ctx" . "name" "n") }}{{ include "a of" (dict "ctx" $ "name" "m") }}`: 2,
		`{{ include "a of" (dict "ctx" . "name" .Values.b) }}`:                                         0,
		`{{ include "named" (dict "ctx" . "name" "a") }}`:                                              1, // the inner one
		`{{ include "named" (dict "ctx" . "name" "b") }}`:                                              0,
		`{{ include "own" . }}`: 1,
		`{{ $d := dict }}{{ include "set" (dict "d" $d "v" "v") }}{{ $d.a }}`: 0,
		`{{ include "all" . }}`:                                                                               0,
		`{{ include "this" . }}`:                                                                              0,
		`{{ include "x/templates/f.txt" . | sha256sum }}`:                                                     1,
		`{{ $_ := set .Values "a" "other" }}{{ include "a" . }}`:                                              0,
		`{{ include "a" (dict "Values" (dict "a" 1)) }}`:                                                      1,
		`{{ include "a" (dict "Values" (dict "a" (list 1 2 (dict "b" .Values.tree)))) }}`:                     1,
		`{{ range $i := until 5 }}{{ include "a of" (dict "ctx" $ "name" "n") }}{{ include "a" $ }}{{ end }}`: 2,
	} {
		named := helpers
		if !strings.Contains(text, "named") {
			named += setters
		}
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("a: v\ntree: {k: v}\n")},
			File{"templates/_h.tpl", []byte(named)}, File{"templates/f.txt", []byte(`{{ .Values.a }}`)}, File{"templates/a.txt", []byte(text + `{{ .Values.b }}`)})
		for i := range 6 {
			before := c.results.texts
			if _, _, err := reused(t, c, options(map[string]any{"b": fmt.Sprint("b", i)})); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if got := c.results.texts - before; i > 1 && got != want { // the first rendering analyses nothing, the second one keeps
				t.Errorf("%s: rendering %d took %d texts from others, want %d", text, i, got, want)
			}
		}
	}
}

// TestIncludesOfSubchartsWithOneName has two scopes below the same path.
func TestIncludesOfSubchartsWithOneName(t *testing.T) {
	const text = `{{ include "version" . }}{{ .Values.global.b }}`
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"templates/_h.tpl", []byte(`{{ define "version" }}{{ .Chart.Version }}{{ end }}`)},
		File{"charts/one/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")}, File{"charts/one/templates/one.txt", []byte(text)},
		File{"charts/two/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 2.0.0\n")}, File{"charts/two/templates/two.txt", []byte(text)})
	for i := range 6 {
		if _, _, err := reused(t, c, options(map[string]any{"global": map[string]any{"b": fmt.Sprint("b", i)}})); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIncludesThatNestTooDeeply renders with numbers whose texts of smaller ones are known. Helm refuses a template that is nested in itself
// more than 1,001 times, and so does a rendering that could take the inner texts from an earlier one, or from an earlier line.
func TestIncludesThatNestTooDeeply(t *testing.T) {
	const helpers = `{{ define "down" }}{{ if gt .n 0 }}{{ include "down" (dict "n" (sub .n 1 | int)) }}{{ end }}{{ .n }}{{ end }}{{ define "other" }}{{ include "down" . }}{{ end }}`
	for text, numbers := range map[string][]int{
		`{{ include "down" (dict "n" (int .Values.n)) }}`:                                     {400, 800, 1000, 999, 1001, 1200, 1600, 1000},
		`{{ include "down" (dict "n" 600) }}{{ include "down" (dict "n" (int .Values.n)) }}`:  {1, 700, 1000, 1001, 1200, 999},
		`{{ include "other" (dict "n" 600) }}{{ include "down" (dict "n" (int .Values.n)) }}`: {1, 700, 1000, 1001, 1200, 999},
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"templates/_h.tpl", []byte(helpers)}, File{"templates/a.txt", []byte(text)})
		for _, n := range append([]int{1, 1}, numbers...) { // the first renderings keep nothing
			if _, _, err := reused(t, c, options(map[string]any{"n": n})); (err != nil) != (n > 1000) || t.Failed() {
				t.Fatalf("%s with %d: %.200v", text, n, err)
			}
		}
		if c.results.texts == 0 {
			t.Errorf("%s: no text was reused", text)
		}
	}
}

// TestFormsAreBounded has values that give each include other keys, and templates whose analysis takes long.
func TestFormsAreBounded(t *testing.T) {
	var items []any
	for i := range 100 {
		items = append(items, map[string]any{fmt.Sprint("key", i): []any{map[string]any{"k": i}}})
	}
	long := `{{ define "long" }}{{ if .Values.never }}` + strings.Repeat("{{ .Values.a.b }}", 5000) + "{{ end }}{{ end }}"
	calls := ""
	for i := range 40 {
		long += fmt.Sprintf(`{{ define "t%d" }}{{ include "long" . }}{{ end }}`, i)
		calls += fmt.Sprintf(`{{ include "t%d" . }}`, i)
	}
	for text, want := range map[string]int{
		`{{ range .Values.items }}{{ include "a of" (dict "ctx" $ "name" "n" "item" . "list" (list 1 .)) }}{{ end }}`:                                                                                        1,
		`{{ range .Values.items }}{{ include "a of" . }}{{ end }}`:                                                                                                                                           1,
		`{{ include "a of" (dict "ctx" .) }}{{ include "a of" (list .) }}{{ include "a of" (list 1 .) }}{{ include "a of" (dict "ctx" (list .)) }}{{ include "a of" (dict "ctx" (dict "ctx" .) "name" .) }}`: 5,
		calls: 27, // all of them together have 200,000 commands
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"templates/_h.tpl", []byte(`{{ define "a of" }}x{{ end }}` + long)},
			File{"templates/a.txt", []byte(text + `{{ .Values.b }}`)})
		for i := range 4 {
			if _, _, err := reused(t, c, options(map[string]any{"items": items, "b": i})); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range c.parsed.programs {
			if got := len(p.reads.included); got != want {
				t.Errorf("%.200s: %d forms, want %d", text, got, want)
			}
		}
	}
}

// TestTheAnalysisPrintsLittle has names of included templates that no execution computes, because they would not fit into memory.
func TestTheAnalysisPrintsLittle(t *testing.T) {
	doubled := `{{ $a0 := "xxxxxxxx" }}`
	for i := range 24 {
		doubled += fmt.Sprintf(`{{ $a%d := print $a%d $a%d }}`, i+1, i, i)
	}
	wide := ""
	for range 20 {
		wide += `{{ $a := printf "` + strings.Repeat("%1000000s", 10) + `" "x" }}{{ $_ := include $a . }}`
	}
	for _, text := range []string{doubled, wide} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"templates/a.txt", []byte(`{{ if .Values.never }}` + text + `{{ end }}`)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 3 {
			if _, err := c.Render(t.Context(), options(nil)); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 10<<20 {
			t.Errorf("%.200s: %d MiB were allocated", text, n>>20)
		}
	}
	const helpers = `{{ define "x-y" }}{{ .Values.a }}{{ end }}`
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"templates/_h.tpl", []byte(helpers)},
		File{"templates/a.txt", []byte(`{{ include (printf "%s-%s" "x" "y") . }}{{ include (print "x-" "y") . }}`)}, File{"templates/b.txt", []byte(`{{ .Values.b }}`)})
	for i := range 4 {
		_, found, err := reused(t, c, options(map[string]any{"b": i}))
		if err != nil || i > 1 && found != 1 {
			t.Errorf("rendering %d: %d files reused, want 1, %v", i, found, err)
		}
	}
}
