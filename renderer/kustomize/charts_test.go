package kustomize_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// charted builds a tree whose charts render to one ConfigMap with the release's name.
func charted(t *testing.T, text string) ([]manifest.Object, []kustomize.Release, error) {
	t.Helper()
	var releases []kustomize.Release
	objects, err := kustomize.NewBuilder(manifest.DefaultBudget()).BuildCharts(t.Context(), tree(text), ".",
		func(_ context.Context, r *kustomize.Release) ([]manifest.Object, error) {
			releases = append(releases, *r)
			if r.Name == "" {
				return nil, nil
			}
			return []manifest.Object{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": r.Name}}},
				nil
		})
	return objects, releases, err
}

func TestRefusedCharts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"helmCharts: [{version: 1.0.0}]":                                     "kustomization.yaml: helmCharts[0]: the entry has no name",
		"helmCharts: [{name: --post-renderer=x}]":                            `helmCharts[0]: "--post-renderer=x" is not the name of a chart`,
		"helmCharts: [{name: /etc}]":                                         `"/etc" is not the name of a chart`,
		"helmCharts: [{name: a, version: ../x, repo: \"https://x.org\"}]":    `"../x" is neither a version nor a range`,
		"helmCharts: [{name: a, valuesMerge: deep}]":                         `"deep" must be merge, override or replace`,
		"helmCharts: [{name: a, valuesFile: missing.yaml}]":                  "kustomization.yaml:1: helmCharts[0].valuesFile: \"missing.yaml\" does not exist",
		"helmCharts: [{name: a, valuesFile: ../x.yaml}]":                     "leaves the repository",
		"helmCharts: [{name: a, valuesFile: \"https://x.org/values.yaml\"}]": "is remote",
		"helmCharts: [{name: a, additionalValuesFiles: [/etc/passwd]}]":      "is an absolute path",
		"helmGlobals: {chartHome: /charts}\nhelmCharts: [{name: a}]":         "helmGlobals.chartHome: \"/charts\" is an absolute path",
		"helmCharts: [" + strings.Repeat("{name: a},", 101) +
			"]": "helmCharts has 101 entries, more than 100",
		"helmCharts: [{name: a, releaseName: a}]\nbuildMetadata: [originAnnotations]":                                       "originAnnotations, which Sluice does not write for helmCharts",
		"helmCharts: [{name: a, chart: b}]":                                                                                 "chart",
		"generators:\n- |-\n  apiVersion: builtin\n  kind: HelmChartInflationGenerator\n  metadata: {name: a}\n  name: a\n": "starts Helm and is not allowed",
	} {
		if _, _, err := charted(t, "-- kustomization.yaml --\n"+text+"\n"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v should contain %q", text, err, want)
		}
	}
	if got := errorOf(t, tree("-- kustomization.yaml --\nhelmCharts: [{name: a}]\n"), "."); !strings.Contains(got,
		"not allowed") {
		t.Errorf("a build without charts says %s", got)
	}
	entries := "helmCharts: [" + strings.Repeat("{name: a},", 60) + "]\n"
	if _, _, err := charted(t, "-- kustomization.yaml --\nresources: [b]\n"+entries+"-- b/kustomization.yaml --\n"+
		entries); err == nil || !strings.Contains(err.Error(), "has 120 entries of helmCharts, more than 100") {
		t.Errorf("many charts in two directories: %v", err)
	}
	reserved := "-- kustomization.yaml --\nhelmCharts: [{name: a, releaseName: a}]\nresources: [sluice-helm-charts.yaml]\n-- sluice-helm-charts.yaml --\n"
	if _, _, err := charted(t, reserved); err == nil || !strings.Contains(err.Error(),
		"sluice-helm-charts.yaml: rename the file") {
		t.Errorf("a file with the reserved name: %v", err)
	}
}

func TestChartsWithoutObjects(t *testing.T) {
	t.Parallel()
	if objects, releases, err := charted(t,
		"-- kustomization.yaml --\nhelmCharts: [{name: a}, {name: b}]\n"); err != nil || len(objects) != 0 ||
		len(releases) != 2 {
		t.Errorf("the objects are %v, the releases are %v, the error is %v", objects, releases, err)
	}
}

// Kustomize renders a base once for each overlay. Sluice renders the charts of a directory once.
func TestNamespacesOfCharts(t *testing.T) {
	t.Parallel()
	const overlays = `-- kustomization.yaml --
resources: [a, b]
-- a/kustomization.yaml --
namespace: a
nameSuffix: -a
resources: [../base]
-- b/kustomization.yaml --
namespace: b
nameSuffix: -b
resources: [../base]
-- base/kustomization.yaml --
`
	_, _, err := charted(t, overlays+"helmCharts: [{name: x, releaseName: x}]\n")
	if err == nil || !strings.Contains(err.Error(),
		`base/kustomization.yaml: helmCharts are rendered in the namespaces "b" and "a"`) {
		t.Errorf("a base in two namespaces: %v", err)
	}
	for _, own := range []string{
		"helmCharts: [{name: x, releaseName: x, namespace: own}]\n",
		"namespace: own\nhelmCharts: [{name: x, releaseName: x}]\n",
	} {
		objects, releases, err := charted(t, overlays+own)
		if err != nil || len(objects) != 2 || len(releases) != 1 || releases[0].Namespace != "own" {
			t.Errorf("%s: the objects are %v, the releases are %v, the error is %v", own, objects, releases, err)
		}
	}
}

func TestErrorsOfCharts(t *testing.T) {
	t.Parallel()
	failed := errors.New("the chart failed")
	_, err := kustomize.NewBuilder(manifest.DefaultBudget()).BuildCharts(t.Context(),
		tree("-- kustomization.yaml --\nhelmCharts:\n- name: x\n"), ".",
		func(_ context.Context, r *kustomize.Release) ([]manifest.Object, error) { return nil, r.Error(failed) })
	if !errors.Is(err, failed) || !strings.Contains(err.Error(),
		"kustomization.yaml:2: helmCharts[0]: the chart failed") {
		t.Error(err)
	}
}

func TestLocateCharts(t *testing.T) {
	t.Parallel()
	const remote = `repo: "https://charts.example.com"`
	for text, want := range map[string]string{
		"helmCharts: [{name: there}]":                  "root/charts/there true",
		"helmCharts: [{name: absent, " + remote + "}]": "root/charts/absent false",
		"helmCharts: [{name: there, version: 1.0.0, " + remote +
			"}]": "root/charts/there-1.0.0/there false",
		"helmCharts: [{name: pulled, version: 1.0.0, " + remote +
			"}]": "root/charts/pulled-1.0.0/pulled true",
		"helmGlobals: {chartHome: ../home}\nhelmCharts: [{name: up}]": "home/up true",
		"helmCharts: [{name: absent}]":                                "has no repo, and no chart is in root/charts/absent",
		"helmGlobals: {chartHome: ../..}\nhelmCharts: [{name: x, " + remote +
			"}]": "is looked for outside of the repository",
		"helmCharts: [{name: ../../../../x, " + remote +
			"}]": "is looked for outside of the repository",
		"helmCharts: [{name: linked, " + remote +
			"}]": "goes through the symbolic link root/charts/linked",
	} {
		files := mapFS(tree("-- root/kustomization.yaml --\n" + text +
			"\n-- root/charts/there/Chart.yaml --\n-- root/charts/pulled-1.0.0/pulled/Chart.yaml --\n-- home/up/Chart.yaml --\n"))
		files["root/charts/linked"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("there")}
		w := kustomize.NewWalker(files, manifest.DefaultBudget()).Charts()
		charts, err := w.ChartsOf("root")
		if err != nil || len(charts) != 1 {
			t.Fatalf("%s: the charts are %v, the error is %v", text, charts, err)
		}
		dir, exists, err := w.Locate(&charts[0])
		got := dir
		switch {
		case err != nil:
			got = err.Error()
		case exists:
			got += " true"
		default:
			got += " false"
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}
