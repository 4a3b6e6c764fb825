package helm_test

import (
	"bytes"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"github.com/sluice-gitops/sluice/renderer/helm"
)

func (in input) reference4(t *testing.T, o helm.Options) (documents, error) {
	t.Helper()
	c, err := in.load4()
	if err != nil {
		t.Fatalf("Helm loads the chart: %v", err)
	}
	values := deepCopy(o.Values)
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, err
	}
	version, err := common.ParseKubeVersion(o.KubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, o.APIVersions)
	release := common.ReleaseOptions{Name: o.ReleaseName, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	top, err := commonutil.ToRenderValuesWithSchemaValidation(c, values, release, capabilities, o.SkipSchema)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Engine{}.RenderWithContext(t.Context(), c, top)
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

func (in input) load4() (*chart.Chart, error) {
	if in.packed != nil {
		return loader.LoadArchive(bytes.NewReader(in.packed))
	}
	var files []*archive.BufferedFile
	for _, f := range in.files {
		files = append(files, &archive.BufferedFile{Name: f.Path, Data: f.Data})
	}
	return loader.LoadFiles(files)
}

// What differs between the versions, by a chart and its only text with Helm 3 and with Helm 4.
func TestDifferencesBetweenVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in          input
		three, four string // "" if the version refuses the chart
	}{
		"a null in a parent's own values": {
			chartOf("values.yaml", "sub: {a: null}\n", "charts/sub/Chart.yaml",
				"apiVersion: v2\nname: sub\nversion: 1.0.0\n",
				"charts/sub/values.yaml", "a: 1\nb: 2\n", "charts/sub/templates/a.txt", "{{ toJson .Values }}"),
			`{"b":2,"global":{}}`, `{"a":1,"b":2,"global":{}}`,
		},
		"mustToYaml": {chartOf("templates/a.txt", `{{ mustToYaml (dict "a" 1) }}`), "", "a: 1"},
		"mustToToml": {chartOf("templates/a.txt", `{{ mustToToml (dict "a" 1) }}`), "", "a = 1\n"},
		"durationRoundTo": {
			chartOf("templates/a.txt",
				`{{ durationRoundTo "2h13m" "1h" }} {{ durationSeconds "1m" }} {{ mustToDuration 90 }}`), "",
			"2h0m0s 60 1m30s",
		},
		"the type of .Chart":         {chartOf("templates/a.txt", `{{ kindOf .Chart }}`), "struct", "map"},
		"blanks at the end":          {chartOf("templates/a.txt", "a: |\n  b\n\n"), "a: |\n  b", "a: |\n  b\n\n"},
		"an unknown field of .Chart": {chartOf("templates/a.txt", `{{ .Chart.None }}-`), "", "-"},
		"the suffix of a version": {
			chartOf("templates/a.txt",
				`{{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.KubeVersion }}`), "v1.33.4 v1.33.4",
			"v1.33.4-gke.5 v1.33.4",
		},
		"Helm's own version": {
			chartOf("templates/a.txt", `{{ .Capabilities.HelmVersion.Version }}`), "v3.22",
			"v4.3",
		},
		"nulls in own defaults": {chartOf("values.yaml", "a: null\nb: {c: null, d: 1}\n", "templates/a.txt",
			"{{ toJson .Values }}"), `{"a":null,"b":{"c":null,"d":1}}`, `{"b":{"d":1}}`},
		"text after dashes": {chartOf("templates/a.txt", "a: 1\n---b: 2"), "a: 1", "a: 1\n"},
		"documents of values": {chartOf("values.yaml", "a: 1\n---\nb: 2\n", "templates/a.txt",
			"{{ toJson .Values }}"), `{"a":1}`, `{"a":1,"b":2}`},
	} {
		for v, want := range map[helm.Version]string{helm.Helm3: c.three, helm.Helm4: c.four} {
			in := c.in.of(v)
			loaded := in.load(t)
			o := options(nil)
			o.KubeVersion = "v1.33.4-gke.5"
			in.compare(t, loaded, o)
			got, err := loaded.Render(t.Context(), o)
			switch {
			case want == "" && err == nil:
				t.Errorf("%s: Helm %d renders %q, want a refusal", name, v, got.Documents[0].Text)
			case want != "" && err != nil:
				t.Errorf("%s: Helm %d: %v", name, v, err)
			case want != "" && string(got.Documents[0].Text) != want+"\n":
				t.Errorf("%s: Helm %d: got %q, want %q", name, v, got.Documents[0].Text, want)
			}
		}
	}
}
