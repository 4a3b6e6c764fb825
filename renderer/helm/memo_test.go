package helm

import (
	"fmt"
	"testing"
)

// TestIncludesOfOneRendering compares files that include the same templates with Helm's engine. The files read different values, so that
// some are executed and others reused.
func TestIncludesOfOneRendering(t *testing.T) {
	const helpers = `{{ define "v" }}{{ .Values.a }}{{ if .Values.on }}{{ .Values.b }}{{ end }}{{ end }}{{ define "name" }}{{ .Template.Name }}{{ end }}{{ define "base" }}{{ .Template.BasePath }}{{ end }}
{{ define "set" }}{{ $_ := set .m "n" .v }}{{ .v }}{{ end }}{{ define "deep" }}{{ include "set" (dict "m" .Values.tree "v" .Values.a) }}{{ end }}{{ define "text" }}{{ tpl .t .ctx }}{{ end }}
{{ define "chance" }}{{ if .ctx.Values.on }}{{ randAlphaNum 3 | trunc 0 }}{{ end }}{{ .ctx.Values.b }}{{ end }}{{ define "tree" }}{{ toJson .Values.tree }}{{ end }}{{ define "all" }}{{ .t }}{{ typeOf .t }}{{ end }}
{{ define "file" }}{{ include "x/templates/f.txt" . }}{{ end }}{{ define "json" }}{{ toJson . }}{{ end }}{{ define "again" }}{{ if .Values.on }}{{ include "x/templates/a.txt" (dict "Values" (dict "stop" true "b" .Values.b)) }}{{ end }}{{ end }}`
	for name, texts := range map[string][3]string{
		"values":                  {`{{ include "v" . }}{{ include "v" $ }}{{ .Values.c }}`, `{{ include "v" . }}`, `{{ include "v" (dict "Values" (dict "a" 1 "on" false)) }}`},
		"subchart":                {`{{ include "v" . }}{{ .Values.c }}`, `{{ include "v" .Subcharts.sub }}`, `{{ include "v" (dict "Values" .Values) }}`},
		"name of the file":        {`{{ include "name" . }}{{ .Values.c }}`, `{{ include "name" $ }}`, `{{ include "name" (dict "Template" .Template) }}`},
		"path of the files":       {`{{ include "base" . }}{{ .Values.c }}`, `{{ include "base" $ }}`, `{{ include "base" (dict "Template" .Template) }}`},
		"changes of the argument": {`{{ $d := dict }}{{ include "set" (dict "m" $d "v" .Values.b) }}{{ toJson $d }}{{ .Values.c }}`, `{{ $d := dict }}{{ include "set" (dict "m" $d "v" .Values.b) }}{{ toJson $d }}`, `{{ $d := dict }}{{ include "set" (dict "m" $d "v" .Values.b) }}{{ $d.n }}`},
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
