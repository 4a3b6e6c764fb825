package renderer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/internal/hostile"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// hostileCase is one case of testdata/hostile/render.yaml, whose head explains the fields.
type hostileCase struct {
	hostile.Head `yaml:",inline"`

	Templates map[string]string `yaml:"templates"`
	Chart     map[string]string `yaml:"chart"`
	Values    map[string]any    `yaml:"values"`
	Archive   *[]hostileEntry   `yaml:"archive"`
	Kustomize map[string]string `yaml:"kustomize"`
	Component map[string]string `yaml:"component"`
	Manifests map[string]string `yaml:"manifests"`
	Refused   *string           `yaml:"refused"`
	Contained bool              `yaml:"contained"`
	Harmless  *int              `yaml:"harmless"`
	Lacks     string            `yaml:"lacks"`
	Hangs     bool              `yaml:"hangs"`
}

type hostileEntry struct {
	Name string `yaml:"name"`
	Type string `yaml:"type"`
	Link string `yaml:"link"`
	Text string `yaml:"text"`
	Size int64  `yaml:"size"`
}

// expand writes out the template of a case.
func expand(t *testing.T, text string) string {
	t.Helper()
	out, err := hostile.Expand(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *hostileCase) content(t *testing.T, name string, files map[string]string) Content {
	t.Helper()
	out := Content{Name: name, Digest: c.Name, Files: []File{}}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if path == "doubling" {
			out.Files = append(out.Files, doublingBases(20)...)
			continue
		}
		out.Files = append(out.Files, File{path, []byte(expand(t, files[path]))})
	}
	return out
}

func doublingBases(n int) []File {
	var out []File
	for i := range n {
		out = append(out, File{
			fmt.Sprintf("d%d/kustomization.yaml", i),
			fmt.Appendf(nil, "resources: [../a%d, ../b%d]\n", i, i),
		})
		for _, side := range []string{"a", "b"} {
			out = append(out, File{
				fmt.Sprintf("%s%d/kustomization.yaml", side, i),
				fmt.Appendf(nil, "resources: [../d%d]\n", i+1),
			})
		}
	}
	return append(out, File{fmt.Sprintf("d%d/kustomization.yaml", n), []byte("resources: []\n")})
}

func (c *hostileCase) bundle(t *testing.T) *Bundle {
	t.Helper()
	out := &Bundle{Namespace: "ns", KubeVersion: "1.33.0"}
	switch {
	case c.Archive != nil:
		out.Sources = []Source{{Helm: &HelmSource{Release: "r", Chart: Content{
			Name: "x 1.0.0", Digest: c.Name,
			Archive: pack(t, *c.Archive),
		}}}}
	case c.Kustomize != nil:
		out.Sources = []Source{{Kustomize: &KustomizeSource{Files: c.content(t, "tree", c.Kustomize), Root: "app"}}}
	case c.Component != nil:
		base := Content{Name: "m", Digest: "m", Files: []File{{"a.yaml", []byte(expand(t, "<% head %>"))}}}
		out.Sources = []Source{{Manifests: &ManifestsSource{Files: base}}}
		out.Components = []Component{{Files: c.content(t, "apps/x/layers/y", c.Component)}}
	case c.Manifests != nil:
		out.Sources = []Source{{Manifests: &ManifestsSource{Files: c.content(t, "manifests", c.Manifests)}}}
	default:
		files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n"}
		maps.Copy(files, c.Chart)
		for name, text := range c.Templates {
			files["templates/"+name] = text
		}
		values := map[string]any{}
		for k, v := range c.Values {
			if text, ok := v.(string); ok {
				v = expand(t, text)
			}
			values[k] = v
		}
		data, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		out.Sources = []Source{{Helm: &HelmSource{Release: "r", Chart: c.content(t, "charts/x", files), Values: data}}}
	}
	return out
}

func pack(t *testing.T, entries []hostileEntry) []byte {
	t.Helper()
	if len(entries) == 0 {
		return []byte("junk")
	}
	const chart = "apiVersion: v2\nname: x\nversion: 1.0.0\n"
	types := map[string]byte{
		"": tar.TypeReg, "symlink": tar.TypeSymlink, "link": tar.TypeLink, "device": tar.TypeChar,
		"fifo": tar.TypeFifo,
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, e := range append([]hostileEntry{{Name: "x/Chart.yaml", Text: chart}}, entries...) {
		data := append([]byte(e.Text), make([]byte, e.Size)...)
		if err := w.WriteHeader(&tar.Header{
			Name: e.Name, Typeflag: types[e.Type], Linkname: e.Link, Mode: 0o644,
			Size: int64(len(data)),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// allocation limits the memory that the parent allocates for one case, for building the input and decoding the
// child's answer.
const allocation = 1 << 30

// Runs the table. After each case, the same pool renders a good bundle.
func TestHostile(t *testing.T) {
	var cases []hostileCase
	if err := hostile.Load("../testdata/hostile/render.yaml", &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 129 {
		t.Fatalf("only %d cases", len(cases))
	}
	patient, hasty := pool(t, 2*time.Minute), pool(t, 2*time.Second)
	good := helmBundle(`{}`, map[string]string{"a.yaml": fmt.Sprintf(configMap, "a", "b")})
	for i := range cases {
		c := &cases[i]
		if testing.Short() && c.Hangs && i%16 != 0 {
			continue // make test-e2e runs it
		}
		t.Run(c.Name, func(t *testing.T) {
			bundle := c.bundle(t)
			p := patient
			if c.Hangs {
				p = hasty
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := p.Render(t.Context(), bundle)
			runtime.ReadMemStats(&after)
			c.judge(t, got, err)
			if used := after.TotalAlloc - before.TotalAlloc; used > allocation {
				t.Errorf("the parent allocates %d MiB", used>>20)
			}
			if n := len(render(t, patient, good).Objects); n != 1 {
				t.Errorf("a good bundle gives %d objects afterwards", n)
			}
		})
	}
}

func (c *hostileCase) judge(t *testing.T, got *Rendering, err error) {
	t.Helper()
	switch {
	case c.Contained:
		if !worker.IsLimit(err) {
			t.Errorf("not contained: %v", err)
		}
	case c.Refused != nil:
		if err == nil || !strings.Contains(err.Error(), *c.Refused) {
			t.Errorf("not refused with %q: %v", *c.Refused, err)
		}
		if *c.Refused != "" && worker.IsLimit(err) {
			t.Errorf("it ends the worker: %v", err)
		}
	case c.Harmless != nil:
		if err != nil {
			t.Fatalf("not harmless: %v", err)
		}
		if len(got.Objects) != *c.Harmless {
			t.Errorf("%d objects, want %d", len(got.Objects), *c.Harmless)
		}
	default:
		t.Error("the case names no expected result")
	}
	if err != nil && len(err.Error()) > 40_000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	if c.Lacks == "" {
		return
	}
	if err != nil && strings.Contains(err.Error(), c.Lacks) {
		t.Errorf("the error holds %q: %q", c.Lacks, err)
	}
	if got != nil {
		for _, o := range got.Objects {
			if bytes.Contains(o.YAML, []byte(c.Lacks)) {
				t.Errorf("%s holds %q", o.ID, c.Lacks)
			}
		}
	}
}
