package helm_test

import (
	"bytes"
	"cmp"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/sluice-gitops/sluice/renderer/helm"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm warns there about values
	os.Exit(m.Run())
}

// input is a chart, packed or as files, for a version of Helm.
type input struct {
	version helm.Version

	files  []helm.File
	packed []byte
}

func (in input) load(t *testing.T) *helm.Chart {
	t.Helper()
	var c *helm.Chart
	var err error
	if in.packed != nil {
		c, err = helm.LoadArchive(in.version, in.packed, helm.DefaultLimits())
	} else {
		c, err = helm.Load(in.version, in.files, helm.DefaultLimits())
	}
	if err != nil {
		t.Fatalf("load the chart: %v", err)
	}
	return c
}

// documents are the texts of each template, as `helm template` splits them.
type documents map[string][]string

// of returns the chart for another version.
func (in input) of(v helm.Version) input {
	in.version = v
	return in
}

// versions are all versions of Helm.
func versions() []helm.Version { return []helm.Version{helm.Helm3, helm.Helm4} }

// reference renders with Helm's own packages, as `helm template` does.
func (in input) reference(t *testing.T, o helm.Options) (documents, error) {
	t.Helper()
	if in.version == helm.Helm4 {
		return in.reference4(t, o)
	}
	c, err := in.load3()
	if err != nil {
		t.Fatalf("Helm loads the chart: %v", err)
	}
	values := deepCopy(o.Values)
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return nil, err
	}
	version, err := chartutil.ParseKubeVersion(o.KubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, o.APIVersions)
	release := chartutil.ReleaseOptions{Name: o.ReleaseName, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValuesWithSchemaValidation(c, values, release, capabilities, o.SkipSchema)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Engine{}.Render(c, top)
	if err != nil {
		return nil, err
	}
	out := documents{}
	for name, text := range texts {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		split := releaseutil.SplitManifests(text)
		keys := slices.Collect(maps.Keys(split))
		sort.Sort(releaseutil.BySplitManifestsOrder(keys))
		for _, key := range keys {
			out[name] = append(out[name], split[key]+"\n")
		}
	}
	return out, nil
}

func (in input) load3() (*chart.Chart, error) {
	if in.packed != nil {
		return loader.LoadArchive(bytes.NewReader(in.packed))
	}
	var files []*loader.BufferedFile
	for _, f := range in.files {
		files = append(files, &loader.BufferedFile{Name: f.Path, Data: f.Data})
	}
	return loader.LoadFiles(files)
}

func deepCopy(m map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range m {
		if below, ok := v.(map[string]any); ok {
			v = deepCopy(below)
		}
		out[key] = v
	}
	return out
}

// compare renders a loaded chart and compares each document with Helm's. It returns the number of templates that were
// compared, and whether Helm renders the chart.
func (in input) compare(t *testing.T, c *helm.Chart, o helm.Options) (n int, rendered bool) {
	t.Helper()
	want, wantErr := in.reference(t, o)
	got, gotErr := c.Render(t.Context(), o)
	if (wantErr == nil) != (gotErr == nil) {
		t.Errorf("Helm: %v\nSluice: %v", wantErr, gotErr)
	}
	if wantErr != nil || gotErr != nil {
		return 0, false
	}
	again, _ := in.reference(t, o)
	have := documents{}
	for _, d := range got.Documents {
		have[d.Source] = append(have[d.Source], string(d.Text))
	}
	for name := range have {
		if want[name] == nil {
			t.Errorf("%s: Helm has no documents of it, Sluice has %q", name, have[name])
		}
	}
	for name, texts := range want {
		if !slices.Equal(texts, again[name]) { // random, or in random order
			continue
		}
		if n++; !slices.Equal(have[name], texts) {
			t.Errorf("%s: got\nthe have is\n%s\nwant\n%s", name, strings.Join(have[name], "---\n"),
				strings.Join(texts, "---\n"))
		}
	}
	return n, true
}

func options(values map[string]any) helm.Options {
	return helm.Options{ReleaseName: "r", Namespace: "n", KubeVersion: "1.33.2", Values: values}
}

// chartOf returns a chart with pairs of a path and a text.
func chartOf(pairs ...string) input {
	out := []helm.File{{Path: "Chart.yaml", Data: []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == "Chart.yaml" {
			out = out[1:]
		}
		out = append(out, helm.File{Path: pairs[i], Data: []byte(pairs[i+1])})
	}
	return input{version: helm.Helm3, files: out}
}

// corpus has real charts.
var corpus = cmp.Or(os.Getenv("CORPUS"), "../../../shared/corpus")

// onCorpus runs a test on each real chart, if there are some. values are some that the chart needs.
func onCorpus(t *testing.T, test func(t *testing.T, in input, values map[string]any)) {
	t.Helper()
	archives, err := filepath.Glob(corpus + "/charts/*.tgz")
	if err != nil {
		t.Fatal(err)
	}
	if len(archives) == 0 {
		t.Skipf("no charts in %s", corpus)
	}
	for _, file := range archives {
		t.Run(filepath.Base(file), func(t *testing.T) {
			packed, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var values map[string]any
			if strings.HasPrefix(filepath.Base(file), "app-template") {
				values = map[string]any{
					"controllers": map[string]any{"main": map[string]any{"containers": map[string]any{"main": map[string]any{"image": map[string]any{"repository": "r", "tag": "1"}}}}},
					"service": map[string]any{"main": map[string]any{
						"controller": "main",
						"ports":      map[string]any{"http": map[string]any{"port": int64(80)}},
					}},
				}
			}
			for _, v := range versions() {
				test(t, input{version: v, packed: packed}, values)
			}
		})
	}
}
