package helm

import (
	"fmt"
	"testing"
)

// TestReuseOfLoopsAndChance renders templates that call themselves, and templates that can call a function whose result differs each time.
func TestReuseOfLoopsAndChance(t *testing.T) {
	const helpers = `{{ define "walk" }}{{ range $k, $v := .tree }}{{ $k }}{{ if kindIs "map" $v }}({{ include "walk" (dict "tree" $v) }}){{ else }}={{ $v }}{{ end }}{{ end }}{{ end }}
{{ define "even" }}{{ if .n }}{{ include "odd" (dict "n" (sub .n 1 | int) "ctx" .ctx) }}{{ else }}even{{ end }}{{ end }}{{ define "odd" }}{{ if .n }}{{ include "even" (dict "n" (sub .n 1 | int) "ctx" .ctx) }}{{ else }}odd {{ .ctx.b }}{{ end }}{{ end }}
{{ define "named" }}{{ if .next }}{{ include .do .ctx }}{{ include "named" (dict "do" .next "ctx" .ctx) }}{{ end }}{{ end }}{{ define "p" }}{{ .a }}{{ end }}{{ define "q" }}{{ .b }}{{ end }}
{{ define "late" }}{{ if .more }}{{ include "late" (dict "more" false "v" .v "ctx" .ctx) }}{{ else if .ctx.on }}{{ len (randAlphaNum 4) }}{{ uuidv4 | trunc 0 }}{{ end }}{{ .v }}{{ end }}
{{ define "x" }}{{ if .deep }}{{ include "y" . }}{{ end }}{{ .v }}{{ end }}{{ define "y" }}{{ include "x" (dict "deep" false "v" .ctx.a) }}{{ include "z" .ctx }}{{ end }}{{ define "z" }}{{ .b }}{{ include "x" (dict "deep" false "v" .on) }}{{ end }}
{{ define "grow" }}{{ if lt (len .path) 9 }}{{ $_ := set .out .path .v }}{{ include "grow" (dict "path" (print .path "x") "v" .v "out" .out) }}{{ else }}{{ toJson .out }}{{ end }}{{ end }}`
	for text, least := range map[string]int{
		`{{ include "walk" (dict "tree" .Values.tree) }}`:                                                             20,
		`{{ include "walk" (dict "tree" .Values) }}`:                                                                  5,
		`{{ include "even" (dict "n" 5 "ctx" .Values) }}{{ include "odd" (dict "n" (len .Values.a) "ctx" .Values) }}`: 5,
		`{{ include "named" (dict "do" "p" "next" "q" "ctx" .Values) }}`:                                              0, // the names are not known
		`{{ include "late" (dict "more" true "v" .Values.a "ctx" (dict "on" .Values.on)) }}`:                          10,
		`{{ include "x" (dict "deep" true "v" .Values.a "ctx" .Values) }}`:                                            5,
		`{{ include "y" (dict "ctx" .Values) }}{{ include "z" .Values }}`:                                             5,
		`{{ include "grow" (dict "path" "p" "v" .Values.a "out" (dict)) }}`:                                           20,
		`{{ if .Values.on }}{{ uuidv4 | len }}{{ end }}{{ .Values.a }}`:                                               10,
		`{{ if .Values.on }}{{ $_ := set .Values "a" (uuidv4 | len) }}{{ end }}{{ .Values.a }}`:                       10,
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("a: v\ntree: {b: {c: d, e: {f: g}}}\n")},
			File{"templates/_h.tpl", []byte(helpers)}, File{"templates/z.txt", []byte(text)})
		found := 0
		for i := range 48 {
			values := map[string]any{"on": i%2 == 0, "a": fmt.Sprint("a", i/2%2), "b": fmt.Sprint("b", i/4%2), "tree": map[string]any{"b": map[string]any{"e": map[string]any{"f": fmt.Sprint("f", i/8%2)}}}}
			_, reuses, err := reused(t, c, options(values))
			if found += reuses; t.Failed() || err != nil {
				t.Fatalf("%s, rendering %d: %v", text, i, err)
			}
		}
		if found < least {
			t.Errorf("%s: only %d files reused, want %d", text, found, least)
		}
	}
}
