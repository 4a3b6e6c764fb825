package chartvalues

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestUnread(t *testing.T) {
	t.Parallel()
	const about = "name: web\ndependencies:\n- {name: db, version: 1, alias: store, condition: useDB.on, tags: [data]}\n"
	for name, c := range map[string]struct {
		defaults, template, values string
		want                       string
	}{
		"misspelled":        {"replicaCount: 1\n", "{{ .Values.replicaCount }}", "replica: 3", "replica (replicaCount)"},
		"nearly":            {"", "{{ .Values.replicas }}", "replica: 3", "replica (replicas)"},
		"nothing similar":   {"", "{{ .Values.replicas }}", "flavour: 3", "flavour ()"},
		"nested":            {"", "{{ .Values.image.tag }}{{ .Values.image.repository }}", "image: {tga: 1}", "image.tga (tag)"},
		"in a condition":    {"", "{{ if .Values.a }}{{ else if $.Values.b }}{{ end }}", "a: 1\nb: 2", ""},
		"whole parent":      {"", "{{ toYaml .Values.pod }}", "pod: {anything: {at: all}}", ""},
		"with":              {"", "{{ with .Values.pod }}{{ .x }}{{ toYaml . }}{{ end }}", "pod: {x: 1, y: 1}\nz: 1", "z ()"},
		"range":             {"", "{{ range $k, $v := .Values.many }}{{ $v }}{{ end }}", "many: {a: 1}", ""},
		"variable":          {"", "{{ $p := .Values.pod }}{{ $p.x }}", "pod: {y: 1}", ""},
		"all":               {"", "{{ toYaml .Values }}", "any: 1", ""},
		"all of the root":   {"", "{{ toYaml $ }}{{ . | toJson }}", "any: 1", ""},
		"index":             {"", `{{ index .Values "a-b" "c" }}`, "a-b: {c: 1, d: 1}\ne: 1", "a-b.d ()|e ()"},
		"dynamic index":     {"", "{{ index .Values .name }}", "any: 1", ""},
		"by name":           {"", `{{ index . "Values" }}`, "any: 1", ""},
		"values passed":     {"", `{{ include "x" .Values }}{{ define "x" }}{{ end }}`, "any: 1", ""},
		"root passed":       {"", `{{ include "x" . }}{{ define "x" }}{{ .Values.a }}{{ end }}`, "a: 1\nb: 1", "b ()"},
		"in a dictionary":   {"", `{{ include "x" (dict "top" $) }}{{ define "x" }}{{ .top.Values.a }}{{ end }}`, "a: 1", ""},
		"unknown template":  {"", `{{ include "of.another.chart" . }}`, "any: 1", ""},
		"tpl":               {"text: '{{ .Values.inner }}'\n", "{{ tpl .Values.text . }}", "inner: 1\nother: 1", "other ()"},
		"tpl of values":     {"", "{{ tpl .Values.text . }}", "text: '{{ .Values.x }}'\nx: 1", ""},
		"tpl of a string":   {"", `{{ tpl (printf "{{ .Values.%s }}" .name) . }}`, "any: 1", ""},
		"declared":          {"a: 1\nb: {}\nc:\n  d: 1\n", "", "a: 2\nb: {x: 1}\nc: {e: 1}", "c.e ()"},
		"comment":           {"a: 1\n# b: 2\n", "", "b: 1", ""},
		"deletes":           {"a: 1\n", "", "b: null", ""},
		"global":            {"a: 1\n", "", "global: {x: 1}", ""},
		"dependency":        {"a: 1\n", "", "db: {x: 1}\nstore: {y: 1}\nuseDB: {on: true}\ntags: {data: true}", ""},
		"library condition": {"a: 1\n", "{{ .Subcharts.db.Values.x }}", "x: 1", ""},
		"call of a chain":   {"", "{{ (.Values.a).b }}{{ (.Values).c }}", "a: {x: 1}\nc: 1", ""},
		"has key":           {"", `{{ hasKey .Values "a" }}{{ get .Values "b" }}`, "a: 1\nb: 1\nc: 1", "c ()"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chart := New([]File{
				{"Chart.yaml", []byte(about)},
				{"values.yaml", []byte(c.defaults)},
				{"templates/x.yaml", []byte(c.template)},
				{"charts/db/Chart.yaml", []byte("name: db\n")},
			})
			var values map[string]any
			if err := yaml.Unmarshal([]byte(c.values), &values); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range chart.Unread(values) {
				got = append(got, fmt.Sprintf("%s (%s)", strings.Join(u.Path, "."), u.Similar))
			}
			if strings.Join(got, "|") != c.want {
				t.Errorf("unread are %q, want %q", got, c.want)
			}
		})
	}
}

func TestSchemaDeclaresValues(t *testing.T) {
	t.Parallel()
	chart := New([]File{
		{"Chart.yaml", []byte("name: web\n")},
		{"values.yaml", []byte("a: 1\n")},
		{"values.schema.json", []byte(`{"properties": {"b": {"type": "object"}, "c": {"properties": {"d": {}}}}}`)},
	})
	got := chart.Unread(map[string]any{"b": map[string]any{"x": 1}, "c": map[string]any{"e": 1}, "f": 1})
	if len(got) != 2 || got[0].Path[1] != "e" || got[1].Path[0] != "f" {
		t.Errorf("unread are %v, want c.e and f", got)
	}
}

// The values of real charts are read by their templates: what the analysis misses without values.yaml is a false alarm.
// CORPUS names the folder.
func TestChartsReadTheirOwnValues(t *testing.T) {
	t.Parallel()
	corpus := os.Getenv("CORPUS")
	if corpus == "" {
		t.Skip("CORPUS is not set")
	}
	names, err := filepath.Glob(filepath.Join(corpus, "charts", "*.tgz"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no charts in %s: %v", corpus, err)
	}
	for _, name := range names {
		files := unpack(t, name)
		var values map[string]any
		var without []File
		for _, f := range files {
			switch f.Path {
			case "values.yaml":
				if err := yaml.Unmarshal(f.Data, &values); err != nil {
					t.Fatal(err)
				}
			case "values.schema.json":
			default:
				without = append(without, f)
			}
		}
		if got := New(files).Unread(values); len(got) > 0 {
			t.Errorf("%s: its own values are unread: %v", filepath.Base(name), got)
		}
		blind := New(without)
		got := blind.Unread(values)
		t.Logf("%s: everything counts as read: %t; unread without values.yaml: %v", filepath.Base(name),
			blind == nil || blind.root.entire, got)
	}
}

func unpack(t *testing.T, name string) []File {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out []File
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, below, _ := strings.Cut(h.Name, "/")
		out = append(out, File{below, text})
	}
}
