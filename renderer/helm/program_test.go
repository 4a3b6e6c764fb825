package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/engine"
)

// sameAsHelm renders with parsed templates twice, the second time with an instance that was used before, and compares
// each file with Helm's engine. It returns the number of files compared.
func sameAsHelm(t *testing.T, c *Chart, o Options) int {
	t.Helper()
	var helms [2]map[string]string
	for i := range helms {
		work, top, err := unshared(c, o)
		if err != nil {
			t.Fatal(err)
		}
		if helms[i], err = (engine.Engine{}).Render(work, top); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for range 2 {
		_, executed, err := c.attempt(t.Context(), o)
		if err != nil {
			t.Fatalf("only Helm renders the chart: %v", err)
		}
		got := texts(executed)
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(helms[0]))) {
			t.Fatalf("got the files %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(helms[0])))
		}
		for name, text := range helms[0] {
			if text != helms[1][name] {
				continue // random
			}
			if n++; got[name] != text {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got[name], text)
			}
		}
	}
	return n
}

func texts(o *outputs) map[string]string {
	out := map[string]string{}
	for name, file := range o.files {
		out[name] = file.text
	}
	return out
}

func TestParsedTemplatesEqualHelmsEngine(t *testing.T) {
	onCorpus(t, func(t *testing.T, c *Chart, values map[string]any) {
		t.Helper()
		o := options(values)
		o.SkipSchema = true
		for _, probe := range []bool{false, true} {
			o.Probe = probe
			if n := sameAsHelm(t, c, o); n < 2 {
				t.Errorf("only %d files were compared", n)
			}
		}
	})
}

// Renders each of Helm's own functions in both engines.
func TestFunctionsEqualHelms(t *testing.T) {
	const values = "map: {b: 1, a: [x, {y: true}], c: null}\nlist: [1, 2.5, text]\ntext: plain\nempty: \"\"\nnum: 12345678901\nfloat: 0.1\n"
	for _, text := range []string{
		`{{ toYaml .Values.map }}{{ toYaml .Values.missing }}{{ toYaml nil }}`, `{{ toYamlPretty .Values.map }}`, `{{ toYaml .Files }}{{ toYaml .Chart }}`,
		`{{ toJson .Values }}{{ toJson nil }}`, `{{ toToml .Values.list }}`, `{{ toToml (dict "a" 1 "b" (dict "c" "d")) }}{{ toToml nil }}`,
		`{{ fromYaml "a: [1, {b: c}]" }}{{ fromYaml "a: [" }}{{ fromYaml "- 1" }}{{ fromYaml "" }}`, `{{ (fromYaml "x: 1").x }}`,
		`{{ fromYamlArray "[1, a]" }}{{ fromYamlArray "a: [" }}{{ fromYamlArray "a: b" }}`,
		`{{ fromJson "{\"a\": [1, 2.5]}" }}{{ fromJson "{" }}{{ fromJson "[]" }}{{ fromJson "null" }}`, `{{ fromJsonArray "[1]" }}{{ fromJsonArray "{" }}{{ fromJsonArray "null" }}`,
		`{{ fromToml "a = 1\n[b]\nc = \"d\"" }}{{ fromToml "=" }}`,
		`{{ required "m" .Values.num }}{{ required "m" 0 }}{{ required "m" false }}{{ required "m" .Values.list }}`,
		`{{ lookup "v1" "Secret" "n" "x" }}{{ lookup "v1" "Secret" "n" "x" | toJson }}{{ getHostByName "localhost" }}`,
		`{{ .Values.missing }}{{ .Values.map.missing }}{{ .Values.map.c }}{{ index .Values.map "q" }}{{ .Missing }}`,
		`{{ include "h" . }}{{ include "h" (dict "Values" .Values) | upper }}{{ template "h" . }}`,
		`{{ tpl "{{ .Values.text }}-{{ include \"h\" . }}" . }}{{ tpl "no template <no value>" . }}{{ tpl "" . }}{{ tpl "{{/* only a comment */}}" . }}`,
		`{{ tpl "{{ define \"n\" }}N{{ .Values.text }}{{ end }}{{ include \"n\" . }}" . }}{{ tpl "{{ tpl \"{{ .Values.text }}\" . }}" . }}`,
		`{{ tpl "{{ define \"h\" }}other{{ end }}{{ include \"h\" . }}" . }}{{ include "h" . }}{{ tpl "{{ include \"h\" . }}" . }}`,
		`{{ tpl "{{ define \"n\" }}1{{ end }}{{ tpl \"{{ include \\\"n\\\" . }}\" . }}" . }}`, `{{ tpl "{{ template \"gotpl\" . }}" . | quote | len | le 0 }}`,
		`{{ range $i, $t := list "{{ 1 }}" "{{ 2 }}" "{{ 1 }}" }}{{ tpl $t $ }}{{ end }}`, `{{ tpl "{{ .Values.missing }}|{{ .x.y }}" (dict "Values" dict "x" dict) }}`,
		`{{ .Files.Get "f.txt" }}{{ .Files.Lines "f.txt" }}{{ (.Files.Glob "*.txt").AsConfig }}{{ (.Files.Glob "*.txt").AsSecrets }}{{ .Files.Get "none" }}{{ typeOf .Files }}`,
		`{{ .Template.Name }}|{{ .Template.BasePath }}|{{ .Chart.Name }}|{{ .Chart.IsRoot }}|{{ typeOf .Chart }}|{{ .Release }}|{{ .Capabilities.KubeVersion }}`,
		`{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ toYaml $d }}|{{ toJson $d }}|{{ include "len" $d }}|{{ toYaml (list $d) }}`, `{{ $_ := set .Values "self" .Values }}{{ toYaml .Values }}{{ include "len" .Values }}`,
		`{{ $_ := set .Values "added" "x" }}{{ .Values.added }}{{ keys . | sortAlpha }}`, `{{ .Subcharts }}{{ len .Subcharts }}`,
		`{{ include (print $.Template.BasePath "/a.txt") . | sha256sum }}`, `{{ env "HOME" | default "none" }}`, `{{ expandenv "$HOME" }}`,
	} {
		c := loaded(t, "values.yaml", values, "f.txt", "one\ntwo\n", "templates/_h.tpl", `{{ define "h" }}h of {{ .Values.text }}{{ end }}{{ define "len" }}{{ len . }}{{ end }}`, "templates/a.txt", "A", "templates/x.txt", text)
		o := options(nil)
		work, top, err := unshared(c, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (engine.Engine{}).Render(work, top); err == nil {
			sameAsHelm(t, c, o)
		} else if _, files, err := c.attempt(t.Context(), o); err == nil {
			t.Errorf("%s: only Helm refuses it, got %q", text, texts(files))
		}
	}
}

// An error after the values were changed has the message of Helm's engine.
func TestErrorsAreHelms(t *testing.T) {
	for _, text := range []string{
		`{{ fail "no" }}`, `{{ required "give a" .Values.a }}`, `{{ $_ := set .Values "seen" (add1 (.Values.seen | default 0)) }}{{ fail (print "seen " .Values.seen) }}`,
		`{{ .Chart.None }}`, `{{ include "none" . }}`, `{{ nofunction }}`, `{{ if }}`, `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
		`{{ tpl "{{ fail \"inner\" }}" . }}`, `{{ tpl "{{" . }}`, `{{ .Values.text.x }}`, `{{ index .Values.list 5 }}`, `{{ tpl 5 . }}`, `{{ env "HOME" }}`, `{{ template "none" }}`,
	} {
		c := loaded(t, "values.yaml", "text: a\nlist: [1]\n", "templates/x.yaml", text)
		work, top, err := unshared(c, options(nil))
		if err != nil {
			t.Fatal(err)
		}
		_, want := engine.Engine{}.Render(work, top)
		if want == nil {
			t.Errorf("%s: Helm renders it", text)
			continue
		}
		_, got := c.Render(t.Context(), options(nil))
		if got == nil || got.Error() != templateError(want).Error() {
			t.Errorf("%s: got %v, want %v", text, got, templateError(want))
		}
	}
}

// Enables and disables subcharts, and renames one, in one Chart.
func TestSubchartSelections(t *testing.T) {
	c, err := Load([]File{
		{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies:\n- {name: one, version: 1.0.0, condition: one.enabled}\n- {name: one, version: 1.0.0, alias: again, condition: again.enabled}\n- {name: lib, version: 1.0.0}\n")},
		{"values.yaml", []byte("one: {enabled: false}\nagain: {enabled: false, text: fromparent}\nglobal: {g: 1}\n")},
		{"templates/a.txt", []byte(`{{ include "lib.n" . }} {{ keys .Subcharts | sortAlpha }} {{ range .Subcharts }}{{ .Chart.Name }}={{ .Values }} {{ end }}`)},
		{"charts/one/Chart.yaml", []byte("apiVersion: v2\nname: one\nversion: 1.0.0\n")},
		{"charts/one/values.yaml", []byte("text: own\n")},
		{"charts/one/file.txt", []byte("of one")},
		{"charts/one/templates/s.txt", []byte(`{{ .Values.text }} {{ .Values.global.g }} {{ .Files.Get "file.txt" }} {{ .Template.Name }} {{ .Chart.IsRoot }} {{ include "lib.n" . }}`)},
		{"charts/lib/Chart.yaml", []byte("apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n")},
		{"charts/lib/templates/_n.tpl", []byte(`{{ define "lib.n" }}{{ .Chart.Name }}{{ end }}`)},
		{"charts/lib/templates/not.txt", []byte(`{{ fail "a library renders nothing" }}`)},
	}, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i := range 4 {
			enabled := func(on bool) map[string]any { return map[string]any{"enabled": on} }
			if n := sameAsHelm(t, c, options(map[string]any{"one": enabled(i&1 > 0), "again": enabled(i&2 > 0)})); n != 2*(1+i&1+i>>1) {
				t.Errorf("%d files were compared", n)
			}
		}
	}
	if len(c.parsed.programs) != 4 {
		t.Errorf("%d programs for 4 selections", len(c.parsed.programs))
	}
}

func TestManyTextsAreNotKept(t *testing.T) {
	c := loaded(t, "templates/x.txt", `{{ range until 500 }}{{ tpl (printf "{{ add %d 1 }} " .) $ }}{{ end }}`)
	sameAsHelm(t, c, options(nil))
	for _, p := range c.parsed.programs {
		if b, ok := p.instances.Get().(*bound); ok && b.execution.texts > maxTexts {
			t.Errorf("%d texts are kept", b.execution.texts)
		}
	}
}

func TestParsedTemplatesConcurrently(t *testing.T) {
	c := loaded(t, "values.yaml", "n: 0\n", "templates/_h.tpl", `{{ define "h" }}{{ tpl "{{ .Values.n }}" . }}{{ end }}`, "templates/x.yaml", `{{ range until 50 }}{{ include "h" $ }},{{ end }}`)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 20 {
				r, err := c.Render(t.Context(), options(map[string]any{"n": int64(i)}))
				if err != nil || string(r.Documents[0].Text) != strings.Repeat(strconv.Itoa(i)+",", 50)+"\n" {
					t.Errorf("%d: %v %v", i, r, err)
				}
			}
		})
	}
	group.Wait()
}

// Compares the names of the functions with those in Helm's source. Fails if a new version of Helm changes the engine:
// compare program.go and functions.go with it, then correct the digests.
func TestFunctionsAreHelms(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "helm.sh/helm/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "pkg/engine")
	names := map[string]bool{}
	for file, want := range map[string]string{
		"engine.go": "d9991d420aba19e44b0491f567979eda2469341a2d3649cd82ee17260af6de99",
		"funcs.go":  "1318205d4e91593b56e44e224cdedb3de38b4ac6127f187f5601696204aba4d6",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s of Helm has the digest %x: compare the change with program.go and functions.go", file, sum)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			var key ast.Expr
			switch x := n.(type) {
			case *ast.KeyValueExpr:
				key = x.Key
			case *ast.IndexExpr:
				key = x.Index
			}
			if literal, ok := key.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if name, err := strconv.Unquote(literal.Value); err == nil && name[0] >= 'a' && name[0] <= 'z' {
					names[name] = true
				}
			}
			return true
		})
	}
	own := functions()
	if len(names) < 15 {
		t.Fatalf("found only %v", names)
	}
	for name := range names {
		if own[name] == nil {
			t.Errorf("Helm has the function %s", name)
		}
	}
}

func TestFilesAreHelms(t *testing.T) {
	c := loaded(t, "a.txt", "1")
	if got := fmt.Sprintf("%T", c.parsed.files(c.chart.Files)); got != "engine.files" {
		t.Error(got)
	}
	if c.parsed.files(nil) == nil || reflect.ValueOf(c.parsed.files(nil)).Len() != 0 {
		t.Error("no files must be an empty set of files")
	}
}

// Renderings share .Files, and mergo changes every kind of map: a chart that merges them gets its own.
func TestTemplatesDoNotChangeFiles(t *testing.T) {
	for _, text := range []string{
		`{{ $_ := merge (dict "f" .Files) (dict "f" .Subcharts.sub.Files) }}`, `{{ $_ := mustMergeOverwrite (dict "f" .Files) (dict "f" .Subcharts.sub.Files) }}`,
		`{{ $c := merge (dict "a" 1) . }}{{ $_ := mergeOverwrite $c (dict "Files" .Subcharts.sub.Files) }}`, `{{ tpl "{{ $_ := merge . .Subcharts.sub }}" . }}`,
	} {
		for _, sharing := range []bool{true, false} {
			c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("a: {}\n")}, File{"own.txt", []byte("own")}, File{"both.txt", []byte("own")},
				File{"templates/b.txt", []byte(text + `{{ .Files.Get "sub.txt" }}`)}, File{"templates/z.txt", []byte(`{{ .Files.Get "sub.txt" }}{{ .Files.Get "both.txt" }}`)},
				File{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")}, File{"charts/sub/sub.txt", []byte("sub")}, File{"charts/sub/both.txt", []byte("sub")})
			defaultsOf(t, c).off.Store(!sharing)
			for i := range 3 {
				in, err := c.prepare(options(nil), false)
				if err != nil {
					t.Fatal(err)
				}
				want, err := engine.Engine{}.Render(in.work, in.top)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.Render(t.Context(), options(nil))
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range got.Documents {
					if strings.TrimSpace(string(d.Text)) != want[d.Source] {
						t.Errorf("%s, rendering %d: %s is %q, want %q", text, i, d.Source, d.Text, want[d.Source])
					}
				}
			}
		}
	}
}
