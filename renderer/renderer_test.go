package renderer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// TestMain lets the test binary act as the child process of its own pools.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		if err := worker.Serve(context.Background(), os.Stdin, os.Stdout, Jobs()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func pool(tb testing.TB, timeout time.Duration) *Pool {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := NewPool(PoolOptions{
		Command: []string{self, "render-child"}, Size: 1, Timeout: timeout,
		MemoryLimit: 256 << 20,
	})
	tb.Cleanup(p.Close)
	return p
}

func chart(templates map[string]string) Content {
	c := Content{Name: "charts/x", Files: []File{
		{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")},
		{"values.yaml", []byte("a: 1\ngone: default\n")},
	}}
	digest := ""
	for name, text := range templates {
		c.Files = append(c.Files, File{"templates/" + name, []byte(text)})
		digest += name + text
	}
	c.Digest = digest
	return c
}

func helmBundle(values string, templates map[string]string) *Bundle {
	return &Bundle{Namespace: "ns", KubeVersion: "1.33.0", Sources: []Source{{Helm: &HelmSource{
		Release: "r",
		Chart:   chart(templates), Values: []byte(values),
	}}}}
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  v: %s\n"

func render(t *testing.T, r Renderer, b *Bundle) *Rendering {
	t.Helper()
	out, err := r.Render(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEngineAndPoolAgree(t *testing.T) {
	b := helmBundle(`{"a": 2, "gone": null}`, map[string]string{
		"a.yaml":    fmt.Sprintf(configMap, "{{ .Release.Name }}-a", `"{{ .Values.a }} {{ .Values.gone }}"`),
		"hook.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n",
	})
	b.Components = []Component{{Files: Content{Name: "apps/x/layers/c", Digest: "c", Files: []File{
		{"kustomization.yaml", []byte("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: ConfigMap}\n  patch: |-\n    - {op: add, path: /data/extra, value: \"on\"}\n")},
	}}}}
	b.Sources = append(b.Sources, Source{Manifests: &ManifestsSource{Files: Content{
		Name: "m", Digest: "m",
		Files: []File{{"n.yaml", []byte("{apiVersion: v1, kind: Namespace, metadata: {name: ns}}")}},
	}}})
	in := render(t, NewEngine(DefaultLimits()), b)
	p := pool(t, time.Minute)
	for range 2 { // the second time, the child holds all contents
		out := render(t, p, b)
		if len(in.Objects) != 3 || len(out.Objects) != 3 {
			t.Fatalf("%d and %d objects", len(in.Objects), len(out.Objects))
		}
		for i := range in.Objects {
			if string(in.Objects[i].YAML) != string(out.Objects[i].YAML) || in.Objects[i].ID != out.Objects[i].ID {
				t.Errorf("%s\nand\n%s", in.Objects[i].YAML, out.Objects[i].YAML)
			}
		}
	}
	if got := string(in.Objects[0].YAML); !strings.Contains(got, "v: '2 '") && !strings.Contains(got, `v: "2 "`) ||
		!strings.Contains(got, `extra: "on"`) {
		t.Errorf("\nthe YAML is %s", got)
	}
	b.Sources[0].Helm.DropHooks = true
	if got := render(t, p, b); len(got.Objects) != 2 {
		t.Errorf("%d objects without hooks", len(got.Objects))
	}
}

func TestEmptyRenderingCrossesTheWire(t *testing.T) {
	got := render(t, pool(t, time.Minute),
		helmBundle(`{}`, map[string]string{"a.yaml": "{{ if .Values.no }}x{{ end }}"}))
	if len(got.Objects) != 0 {
		t.Errorf("the objects are %v", got.Objects)
	}
}

func TestHostileTemplatesStayInTheirTarget(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	p := pool(t, 20*time.Second)
	good := helmBundle(`{}`, map[string]string{"a.yaml": fmt.Sprintf(configMap, "a", "b")})
	for name, c := range map[string]struct {
		template string
		want     error
	}{
		"recursion": {`{{ define "x" }}{{ include "x" . }}{{ end }}{{ template "y" . }}{{ define "y" }}{{ template "y" . }}{{ end }}`, nil},
		"tpl":       {`{{ $t := "{{ tpl .Values.t . }}" }}{{ tpl .Values.t . }}`, nil},
		"memory":    {`{{ repeat 2000000000 "xxxxxxxx" | len }}`, ErrMemory},
		"many":      {`{{ $l := list }}{{ range untilStep 0 100000000 1 }}{{ $l = append $l (repeat 1000 "x") }}{{ end }}`, nil},
	} {
		start := time.Now()
		_, err := p.Render(t.Context(), helmBundle(`{"t": "{{ tpl .Values.t . }}"}`,
			map[string]string{"a.yaml": c.template}))
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if took := time.Since(start); took > 5*time.Minute {
			t.Errorf("%s took %s", name, took)
		}
		if got := render(t, p, good); len(got.Objects) != 1 {
			t.Errorf("after %s: %d objects", name, len(got.Objects))
		}
	}
}

func TestTimeout(t *testing.T) {
	_, err := pool(t, 300*time.Millisecond).Render(t.Context(), helmBundle(`{}`, map[string]string{
		"a.yaml": `{{ range $a := until 30000 }}{{ range $b := until 30000 }}{{ $c := sha256sum "x" }}{{ end }}{{ end }}`,
	}))
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("the error is %v", err)
	}
}

func TestCancelledContextFreesTheChild(t *testing.T) {
	p := pool(t, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := p.Render(ctx, helmBundle(`{}`,
		map[string]string{"a.yaml": `{{ range $a := until 30000 }}{{ range $b := until 30000 }}{{ $c := sha256sum "x" }}{{ end }}{{ end }}`}))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	render(t, p, helmBundle(`{}`, map[string]string{"a.yaml": fmt.Sprintf(configMap, "a", "b")}))
}

func TestUnstableFieldsAreNamed(t *testing.T) {
	e := NewEngine(DefaultLimits())
	for name, c := range map[string]struct {
		template string
		want     string
	}{
		"random":  {fmt.Sprintf(configMap, "a", `{{ randAlphaNum 20 | quote }}`), "data.v"},
		"by day":  {fmt.Sprintf(configMap, "a", `{{ now | date "2006-01-02" | quote }}`), "data.v"},
		"in name": {fmt.Sprintf(configMap, `a-{{ randNumeric 12 }}`, "x"), "object"},
		"helper": {
			`{{ define "pw" }}{{ uuidv4 }}{{ end }}` + fmt.Sprintf(configMap, "a", `{{ include "pw" . }}`),
			"data.v",
		},
		"values":  {fmt.Sprintf(configMap, "a", `{{ tpl .Values.t . }}`), "data.v"},
		"dated":   {fmt.Sprintf(configMap, "a", `{{ tpl "{{ now | date \"2006-01-02\" }}" . | quote }}`), "data.v"},
		"default": {fmt.Sprintf(configMap, "a", `{{ date "2006-01-02" "no time" | quote }}`), "data.v"},
		"missing": {fmt.Sprintf(configMap, "a", `{{ date "2006-01-02" .Values.missing | quote }}`), "data.v"},
		"round":   {fmt.Sprintf(configMap, "a", `{{ durationRound "25h" | quote }}`), ""},
		"in zone": {fmt.Sprintf(configMap, "a", `{{ htmlDateInZone "no time" "UTC" | quote }}`), "data.v"},
		"ago":     {fmt.Sprintf(configMap, "a", `{{ ago (toDate "2006-01-02" "2020-01-02") | quote }}`), "data.v"},
		"rounded": {
			fmt.Sprintf(configMap, "a", `{{ durationRound (toDate "2006-01-02" "2020-01-02") | quote }}`),
			"data.v",
		},
		"seconds": {fmt.Sprintf(configMap, "a", `{{ htmlDate 1700000000 | quote }} # {{ now }}`), ""},
		"nested": {`{{ define "pw" }}{{ uuidv4 }}{{ end }}` + fmt.Sprintf(configMap, "a",
			`{{ tpl "{{ include \"pw\" . }}" . }}`), "data.v"},
		"skipped": {
			`{{ if .Values.missing }}{{ uuidv4 }}{{ end }}` + fmt.Sprintf(configMap, "a", `{{ tpl "x" . }}`),
			"",
		},
		"stable": {fmt.Sprintf(configMap, "a", `{{ "x" | sha256sum }}`), ""},
		"unused": {`{{ define "pw" }}{{ uuidv4 }}{{ end }}` + fmt.Sprintf(configMap, "a", "x"), ""},
	} {
		out := render(t, e, helmBundle(`{"t": "{{ uuidv4 }}"}`, map[string]string{"a.yaml": c.template}))
		got := ""
		for _, f := range out.Unstable {
			if got = strings.Join(f.Path, "."); f.Path == nil {
				got = "object"
			}
		}
		if got != c.want {
			t.Errorf("%s: the result is %q, want %q", name, got, c.want)
		}
	}
}

func TestBundleDigest(t *testing.T) {
	base := func() *Bundle { return helmBundle(`{"a": 1}`, map[string]string{"a.yaml": "x"}) }
	seen := map[string]string{base().Digest(): "base"}
	for name, change := range map[string]func(*Bundle){
		"release":             func(b *Bundle) { b.Sources[0].Helm.Release = "q" },
		"namespace":           func(b *Bundle) { b.Namespace = "q" },
		"version":             func(b *Bundle) { b.KubeVersion = "1.34.0" },
		"apis":                func(b *Bundle) { b.APIVersions = []string{"a/v1"} },
		"release's namespace": func(b *Bundle) { b.Sources[0].Helm.Namespace = "q" },
		"chart's version":     func(b *Bundle) { b.Sources[0].Helm.KubeVersion = "1.34.0" },
		"chart's apis":        func(b *Bundle) { b.Sources[0].Helm.APIVersions = []string{"a/v1"} },
		"values":              func(b *Bundle) { b.Sources[0].Helm.Values = []byte(`{"a": 2}`) },
		"chart":               func(b *Bundle) { b.Sources[0].Helm.Chart.Digest = "q" },
		"crds":                func(b *Bundle) { b.Sources[0].Helm.IncludeCRDs = true },
		"hooks":               func(b *Bundle) { b.Sources[0].Helm.DropHooks = true },
		"schema":              func(b *Bundle) { b.Sources[0].Helm.SkipSchema = true },
		"dependency":          func(b *Bundle) { b.Sources[0].Helm.Dependencies = []Dependency{{Name: "d"}} },
		"component":           func(b *Bundle) { b.Components = []Component{{Files: Content{Digest: "c"}}} },
		"source":              func(b *Bundle) { b.Sources = append(b.Sources, Source{Manifests: &ManifestsSource{}}) },
	} {
		b := base()
		change(b)
		if other, ok := seen[b.Digest()]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[b.Digest()] = name
	}
}

const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.example.com, annotations: {helm.sh/hook: crd-install}}\n" +
	"spec: {group: example.com, scope: Cluster, names: {kind: X, plural: xs}}\n"

// Helm applies hook rules only to templates. It installs a file in crds/ whatever its annotations are.
func TestHookAnnotationsInCRDsFolderAreIgnored(t *testing.T) {
	for _, drop := range []bool{false, true} {
		b := helmBundle(`{}`, map[string]string{"job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: crd-install}}\n"})
		h := b.Sources[0].Helm
		h.Chart.Files = append(h.Chart.Files, File{"crds/x.yaml", []byte(crd)})
		h.Chart.Digest += "crds"
		h.IncludeCRDs, h.DropHooks = true, drop
		got := render(t, NewEngine(DefaultLimits()), b)
		if len(got.Objects) != 1 || got.Objects[0].Defines == nil {
			t.Errorf("drop %t: got %v, want the definition alone", drop, got.Objects)
		}
	}
}

// Two objects of one identity: equal ones are merged; for different ones, the error names both files.
func TestObjectsOfOneIdentity(t *testing.T) {
	b := func(second string) *Bundle {
		out := helmBundle(`{}`, map[string]string{"a.yaml": fmt.Sprintf(configMap, "same", "x")})
		out.Sources = append(out.Sources, Source{Manifests: &ManifestsSource{Files: Content{
			Name: "apps/x/extra", Digest: "m" + second, Files: []File{{
				"n.yaml",
				fmt.Appendf(nil, configMap, "same", second),
			}},
		}}})
		return out
	}
	got := render(t, NewEngine(DefaultLimits()), b("x"))
	if len(got.Objects) != 1 || len(got.Notes) != 1 {
		t.Fatalf("%d objects, notes %v", len(got.Objects), got.Notes)
	}
	for _, want := range []string{"ConfigMap same", "charts/x/templates/a.yaml", "apps/x/extra/n.yaml"} {
		if !strings.Contains(got.Notes[0], want) {
			t.Errorf("the note %q lacks %q", got.Notes[0], want)
		}
	}
	_, err := NewEngine(DefaultLimits()).Render(t.Context(), b("y"))
	for _, want := range []string{"ConfigMap same", "charts/x/templates/a.yaml", "apps/x/extra/n.yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v lacks %q", err, want)
		}
	}
}

func TestErrorsNameTheirPlace(t *testing.T) {
	helper := "{{ define \"h\" }}\n\n{{ .Values.b.c.d }}{{ end }}"
	for name, c := range map[string]struct {
		templates map[string]string
		want      InputError
	}{
		"value": {
			map[string]string{"a.yaml": "x: {{ .Values.b.c }}"},
			InputError{File: "charts/x/templates/a.yaml", Line: 1, Column: 13, Message: "nil pointer"},
		},
		"helper": {
			map[string]string{"a.yaml": "\nx: {{ include \"h\" . }}", "_h.tpl": helper},
			InputError{
				File: "charts/x/templates/_h.tpl", Line: 3, Column: 10,
				Message: "called from charts/x/templates/a.yaml:2",
			},
		},
		"parse": {
			map[string]string{"a.yaml": "\n\nx: {{ if }}"},
			InputError{File: "charts/x/templates/a.yaml", Line: 3, Message: "missing value for if"},
		},
		"refused": {
			map[string]string{"a.yaml": "x: {{ required \"need b\" .Values.b }}"},
			InputError{
				File: "charts/x/templates/a.yaml", Line: 1, Column: 6,
				Message: "need b (the template refuses these values)",
			},
		},
		"yaml": {map[string]string{"a.yaml": "a: b: c"}, InputError{
			File:    "charts/x/templates/a.yaml",
			Message: "document 1",
		}},
		"tpl": {
			map[string]string{"a.yaml": "\nx: {{ tpl \"{{ .Values.b.c }}\" . }}"},
			InputError{File: "charts/x/templates/a.yaml", Line: 2, Column: 6, Message: "nil pointer"},
		},
		"forged": {
			map[string]string{"a.yaml": "x: {{ fail \"template: etc/passwd:1:2: no\" }}"},
			InputError{File: "charts/x/templates/a.yaml", Line: 1, Column: 6, Message: "template: etc/passwd:1:2: no"},
		},
	} {
		_, err := NewEngine(DefaultLimits()).Render(t.Context(), helmBundle(`{}`, c.templates))
		got, ok := errors.AsType[*InputError](err)
		if !ok || got.File != c.want.File || got.Line != c.want.Line || got.Column != c.want.Column ||
			!strings.Contains(got.Message, c.want.Message) {
			t.Errorf("%s: the result of AsType is %#v, the error is %v", name, got, err)
		}
	}
	b := helmBundle(`{"image": {"tag": 5}}`, map[string]string{"a.yaml": "x"})
	b.Sources[0].Helm.Chart.Files = append(b.Sources[0].Helm.Chart.Files,
		File{"values.schema.json", []byte(`{"properties": {"image": {"properties": {"tag": {"type": "string"}}}}}`)})
	_, err := NewEngine(DefaultLimits()).Render(t.Context(), b)
	if got, ok := errors.AsType[*InputError](err); !ok || len(got.Values) != 1 ||
		strings.Join(got.Values[0], ".") != "image.tag" || !strings.Contains(got.Message,
		"image.tag: got number, want string") {
		t.Errorf("schema: %#v", err)
	}
}

func TestErrorsAreSafeToShow(t *testing.T) {
	message := "no\x1b[31m\n::add-mask::x\n##[error]y \u202egnp\x00 " + strings.Repeat("long ", 5000)
	b := helmBundle(`{}`, map[string]string{"a.yaml": "{{ fail .Values.m }}", "b-\x1b.yaml": "{{ fail .Values.m }}"})
	values, err := json.Marshal(map[string]string{"m": message})
	if err != nil {
		t.Fatal(err)
	}
	b.Sources[0].Helm.Values = values
	_, err = NewEngine(DefaultLimits()).Render(t.Context(), b)
	if err == nil {
		t.Fatal("no error")
	}
	for _, bad := range []string{"\x1b", "\x00", "\u202e", "\n::", "##["} {
		if strings.Contains(err.Error(), bad) {
			t.Errorf("%q is in %q", bad, err)
		}
	}
	if n := len(err.Error()); n > 4000 {
		t.Errorf("%d bytes", n)
	}
}
