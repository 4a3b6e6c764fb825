package renderer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

var record = flag.Bool("record", false, "write what kustomize build prints into testdata/helmcharts/cases")

// enableHelm are the arguments of `kustomize` that the recorded outputs come from, before the root.
var enableHelm = []string{
	"build", "--enable-helm", "--helm-kube-version", "1.33.2", "--helm-api-versions",
	"monitoring.coreos.com/v1",
}

// helmChartsCase is a tree with helmCharts and what `kustomize build --enable-helm` prints for it.
type helmChartsCase struct {
	name, file string
	archive    *txtar.Archive
	dir        string // on disk, with the chart
	root       string
	want       string
}

const wantFile = "want.yaml"

// helmChartsCases writes the trees to disk. REPO becomes the address of a chart repository.
func helmChartsCases(t *testing.T, repo string) []helmChartsCase {
	t.Helper()
	names, err := filepath.Glob("testdata/helmcharts/cases/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var out []helmChartsCase
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c := helmChartsCase{
			name: strings.TrimSuffix(filepath.Base(name), ".txtar"), file: name, archive: archive,
			dir: t.TempDir(), root: "root",
		}
		for _, f := range archive.Files {
			if f.Name == wantFile {
				c.want = string(f.Data)
				continue
			}
			if f.Name == "kustomization.yaml" {
				c.root = "."
			}
			place := filepath.Join(c.dir, f.Name)
			if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(place, bytes.ReplaceAll(f.Data, []byte("REPO"), []byte(repo)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(string(archive.Comment)) {
			if place, ok := strings.CutPrefix(strings.TrimSpace(line), "chart: "); ok {
				if err := os.CopyFS(filepath.Join(c.dir, place), os.DirFS("testdata/helmcharts/chart")); err != nil {
					t.Fatal(err)
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// render builds the root as hydrate/source does: a chart is a folder of the tree, or the archive.
func (c *helmChartsCase) render(t *testing.T, archive []byte) (*Rendering, error) {
	t.Helper()
	tree := diskTree(c.dir)
	walker := kustomize.NewWalker(tree, manifest.DefaultBudget()).Charts()
	names, err := walker.Closure(c.root)
	if err != nil {
		return nil, err
	}
	source := &KustomizeSource{Root: c.root, Files: Content{Name: c.root, Digest: c.name, Files: []File{}}}
	for _, name := range names {
		data, err := tree.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Files.Files = append(source.Files.Files, File{name, data})
	}
	charts, err := walker.ChartsOf(c.root)
	if err != nil {
		return nil, err
	}
	for i := range charts {
		one := KustomizeChart{
			Dir: charts[i].Dir, Index: charts[i].Index,
			Chart: Content{Name: "show", Digest: "archive", Archive: archive},
		}
		dir, exists, err := walker.Locate(&charts[i])
		if err != nil {
			return nil, err
		}
		if exists {
			one.Chart = folder(t, filepath.Join(c.dir, dir))
		}
		source.Charts = append(source.Charts, one)
	}
	return NewEngine(DefaultLimits()).Render(t.Context(), &Bundle{
		Namespace: "of-the-app", KubeVersion: "1.33.2", APIVersions: []string{"monitoring.coreos.com/v1"},
		Sources: []Source{{Kustomize: source}},
	})
}

// packed returns the fixture's chart as an archive with a version.
func packed(t *testing.T, version string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, f := range folder(t, "testdata/helmcharts/chart").Files {
		if f.Path == "Chart.yaml" {
			f.Data = bytes.ReplaceAll(f.Data, []byte("1.2.3"), []byte(version))
		}
		if err := w.WriteHeader(&tar.Header{
			Name: "show/" + f.Path, Mode: 0o644,
			Size: int64(len(f.Data)),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The recorded outputs are those of the real tools: TestHelmChartsEqualKustomizeBuild runs them. A line `refused` means
// that kustomize fails.
func TestHelmCharts(t *testing.T) {
	t.Parallel()
	for _, c := range helmChartsCases(t, "https://charts.example.com") {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.render(t, packed(t, "1.2.3"))
			if err != nil {
				t.Fatal(err)
			}
			if n := compareHelmCharts(t, got, []byte(c.want)); n == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

// compareHelmCharts compares everything, with the tests of charts.
func compareHelmCharts(t *testing.T, got *Rendering, want []byte) int {
	t.Helper()
	list, err := manifest.Decode(want, manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, o := range got.Objects {
		have[o.ID.String()] = string(o.YAML)
	}
	for _, o := range list {
		text, err := manifest.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		id := o.Identity().String()
		if have[id] != string(text) {
			t.Errorf("%s:\n%s\nshould be\n%s", id, have[id], text)
		}
		delete(have, id)
	}
	for id, text := range have {
		t.Errorf("%s should not be there:\n%s", id, text)
	}
	return len(list)
}

// With -record, the test writes the outputs that TestHelmCharts compares with:
// go test ./renderer -run TestHelmChartsEqualKustomizeBuild -record.
func TestHelmChartsEqualKustomizeBuild(t *testing.T) {
	bin := rivals(t)
	archive := packed(t, "1.2.3")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/index.yaml":
			fmt.Fprint(w, "apiVersion: v1\nentries:\n  show:\n  - {apiVersion: v2, name: show, version: 2.0.0-rc.1, urls: [show-2.tgz]}\n  - {apiVersion: v2, name: show, version: 1.2.3, urls: [show-1.tgz]}\n")
		case "/show-1.tgz":
			_, _ = w.Write(archive)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for _, c := range helmChartsCases(t, server.URL) {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.render(t, archive) // before kustomize writes the charts that it pulls
			if err != nil {
				t.Fatal(err)
			}
			args := append(append([]string{}, enableHelm...), "--helm-command", bin+"/helm",
				filepath.Join(c.dir, c.root))
			want, err := process(t, bin+"/kustomize", args...)
			if err != nil {
				t.Fatal(err)
			}
			if n := compareHelmCharts(t, got, want); n == 0 {
				t.Error("nothing was compared")
			}
			if *record {
				c.record(t, want)
			} else if string(want) != c.want {
				t.Errorf("the recorded output of %s is not that of kustomize %s: run this test with -record", c.name,
					strings.Join(enableHelm, " "))
			}
		})
	}
}

func (c *helmChartsCase) record(t *testing.T, want []byte) {
	t.Helper()
	files := c.archive.Files[:0:0]
	for _, f := range c.archive.Files {
		if f.Name != wantFile {
			files = append(files, f)
		}
	}
	c.archive.Files = append(files, txtar.File{Name: wantFile, Data: want})
	if err := os.WriteFile(c.file, txtar.Format(c.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A chart of a Kustomize root is rendered twice like any other, and its errors name the chart's file and the entry.
func TestHelmChartsOfARoot(t *testing.T) {
	t.Parallel()
	source := func(template string) *KustomizeSource {
		return &KustomizeSource{
			Root: "app",
			Files: Content{Name: "app", Digest: "app", Files: []File{{
				"app/kustomization.yaml",
				[]byte("helmCharts:\n- name: c\n  releaseName: r\n"),
			}}},
			Charts: []KustomizeChart{{Dir: "app", Chart: Content{Name: "app/charts/c", Digest: template, Files: []File{
				{"Chart.yaml", []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
				{"templates/cm.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: " +
					template + "}\n")},
			}}}},
		}
	}
	render := func(s *KustomizeSource) (*Rendering, error) {
		return NewEngine(DefaultLimits()).Render(t.Context(), &Bundle{Sources: []Source{{Kustomize: s}}})
	}
	got, err := render(source("{{ randAlpha 9 }}"))
	if err != nil || len(got.Unstable) != 1 || strings.Join(got.Unstable[0].Path, ".") != "data.a" {
		t.Errorf("the result of render is %+v, the error is %v", got, err)
	}
	_, err = render(source("{{ fail `not so` }}"))
	if want := "app/charts/c/templates/cm.yaml:4:13: not so (the template refuses these values) (chart of app/kustomization.yaml: helmCharts[0])"; err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
	without := source("x")
	without.Charts = nil
	if _, err = render(without); err == nil ||
		err.Error() != "app/kustomization.yaml:2: helmCharts[0]: the bundle does not have the chart" {
		t.Errorf("the error is %v", err)
	}
	one, two := Bundle{Sources: []Source{{Kustomize: source("x")}}}, Bundle{Sources: []Source{{Kustomize: source("y")}}}
	if one.Digest() == two.Digest() {
		t.Error("bundles with different charts have one digest")
	}
	if small := one.stripped(); len(one.Sources[0].Kustomize.Charts[0].Chart.Files) == 0 ||
		len(small.Sources[0].Kustomize.Charts[0].Chart.Files) != 0 {
		t.Error("the bytes of the chart are in the stripped bundle, or not in the original any more")
	}
}

// A component with charts equals the same component in a Kustomize root, which TestHelmCharts compares with the tool's
// output.
func TestHelmChartsOfAComponent(t *testing.T) {
	t.Parallel()
	const objects = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own, namespace: x}\n"
	files := []File{
		{
			"comp/kustomization.yaml",
			[]byte("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamespace: shop\nresources: [../base]\n" +
				"helmCharts:\n- {name: c, releaseName: r, valuesFile: v.yaml, valuesInline: {b: two}}\ncommonAnnotations: {by: component}\n" +
				"patches:\n- {target: {kind: ConfigMap, name: c-r}, patch: '[{\"op\": \"add\", \"path\": \"/data/more\", \"value\": \"1\"}, {\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"new\"}]', options: {allowNameChange: true}}\n"),
		},
		{"comp/v.yaml", []byte("a: one\n")},
		{"base/kustomization.yaml", []byte("namePrefix: p-\nhelmCharts: [{name: c, releaseName: of-base}]\n")},
	}
	chart := func(dir string) KustomizeChart {
		return KustomizeChart{Dir: dir, Chart: Content{Name: "c", Digest: "c", Files: []File{
			{"Chart.yaml", []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
			{"values.yaml", []byte("a: default\nb: default\n")},
			{"templates/cm.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'c-{{ .Release.Name }}'}\ndata: {a: '{{ .Values.a }}', b: '{{ .Values.b }}', in: '{{ .Release.Namespace }}'}\n")},
		}}}
	}
	charts := []KustomizeChart{chart("comp"), chart("base")}
	root := append([]File{
		{"root/kustomization.yaml", []byte("resources: [own.yaml]\ncomponents: [../comp]\n")},
		{"root/own.yaml", []byte(objects)},
	}, files...)
	render := func(b *Bundle) []Object {
		t.Helper()
		got, err := NewEngine(DefaultLimits()).Render(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return got.Objects
	}
	layered := Bundle{
		Sources: []Source{{Manifests: &ManifestsSource{Files: Content{
			Name: "m", Digest: "m",
			Files: []File{{"own.yaml", []byte(objects)}},
		}}}},
		Components: []Component{{
			Root: "comp", Files: Content{Name: "comp", Digest: "comp", Files: files},
			Charts: charts,
		}},
	}
	got := render(&layered)
	want := render(&Bundle{Sources: []Source{{Kustomize: &KustomizeSource{
		Root:  "root",
		Files: Content{Name: "root", Digest: "root", Files: root}, Charts: charts,
	}}}})
	if len(got) != 3 || len(want) != 3 {
		t.Fatalf("%d objects, and %d of a root", len(got), len(want))
	}
	for i := range got {
		if string(got[i].YAML) != string(want[i].YAML) {
			t.Errorf("%s:\n%s\nshould be %s\n%s", got[i].ID, got[i].YAML, want[i].ID, want[i].YAML)
		}
	}
	changed := layered
	changed.Components = []Component{layered.Components[0]}
	changed.Components[0].Charts = []KustomizeChart{charts[0], chart("other")}
	if changed.Digest() == layered.Digest() {
		t.Error("bundles with different charts have one digest")
	}
	if small := layered.stripped(); len(charts[0].Chart.Files) == 0 ||
		len(small.Components[0].Charts[0].Chart.Files) != 0 {
		t.Error("the bytes of the chart are in the stripped bundle, or not in the original any more")
	}
	charts[0].Chart.Files[2].Data, charts[0].Chart.Digest = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-r}\ndata: {a: '{{ randAlpha 9 }}'}\n"), "changes"
	again, err := NewEngine(DefaultLimits()).Render(t.Context(), &layered)
	if err != nil || len(again.Unstable) != 1 {
		t.Errorf("a chart that renders differently each time: %+v, %v", again, err)
	}
}
