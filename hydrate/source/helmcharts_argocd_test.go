package source

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// argocdFleet is an import of Applications whose kustomization lists a chart. The Applications edited and plain have
// the same directory.
func argocdFleet(entry string) map[string]string {
	app := func(name, path, fields string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: " + name +
			"}\nspec:\n  project: default\n  destination: {name: a, namespace: x}\n" +
			"  source: {repoURL: \"https://git.example.com/acme/fleet\", path: " + path + fields + "}\n"
	}
	return map[string]string{
		"sluice.yaml": sourceAPI +
			"kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n" +
			"  import: [{argocd: {repositories: [\"https://git.example.com/acme/fleet\"], clusters: {a: {environment: dev}}, kustomize: {buildOptions: --enable-helm}}}]\n",
		"apps/plain.yaml": app("plain", "web", ""),
		"apps/edited.yaml": app("edited", "web",
			", kustomize: {namePrefix: x-, kubeVersion: 1.30.0, apiVersions: [example.com/v1]}"),
		"apps/other.yaml":          app("other", "other", ""),
		"web/kustomization.yaml":   entry,
		"web/values.yaml":          "a: b\n",
		"other/kustomization.yaml": "configMapGenerator: [{name: a}]\n",
		"sluice.lock":              lockOf(firstTgz),
	}
}

const argocdEntry = "# first\nhelmCharts:\n- name: web\n  repo: https://charts.org/acme\n  version: ^1.0.0\n  valuesFile: values.yaml\n"

// Charts of an import are locked, read and part of digests like those of the fleet's own roots, with the Application's
// edits.
func TestHelmChartsOfAnArgoCDImport(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	base := argocdFleet(argocdEntry)
	before := t.open(base, nil)
	digests := map[string]string{}
	for _, name := range []string{"plain", "edited", "other"} {
		digest, bundle, err := t.bundle(before, name)
		if err != nil {
			t.Fatal(name, err)
		}
		digests[name] = digest
		if name == "other" {
			continue
		}
		k := bundle.Sources[0].Kustomize
		if len(k.Charts) != 1 || string(k.Charts[0].Chart.Archive) != firstTgz {
			t.Errorf("%s: the charts are %+v", name, k.Charts)
		}
		if edited := strings.Contains(string(k.Files.Files[0].Data), "namePrefix: x-"); edited != (name == "edited") ||
			(k.KubeVersion == "1.30.0") != edited || (len(k.APIVersions) == 1) != edited {
			t.Errorf("%s: the kube version is %q, the API versions are %q:\nthe data is\n%s", name, k.KubeVersion,
				k.APIVersions, k.Files.Files[0].Data)
		}
	}
	if digests["plain"] == digests["edited"] {
		t.Error("an edited kustomization has the digest of the one that is not")
	}
	for what, changes := range map[string]map[string]string{
		"the lock":      {"sluice.lock": lockOf(secondTgz)},
		"a values file": {"web/values.yaml": "a: c\n"},
		"the entry": {"web/kustomization.yaml": strings.Replace(argocdEntry,
			"  valuesFile: values.yaml\n", "", 1)},
		"a chart where the pulled one would be": {"web/charts/web-^1.0.0/web/Chart.yaml": "name: web\nversion: 1.0.0\n"},
	} {
		after := t.open(base, changes)
		for name, digest := range digests {
			if changed, _, err := t.bundle(after, name); err != nil || (changed == digest) != (name == "other") {
				t.Errorf("%s: the digest of %s is %s, it was %s: %v", what, name, changed, digest, err)
			}
		}
		if affected, err := t.reader.Affected(t.Context(), before.tree, after); err != nil || len(affected) != 2 {
			t.Errorf("%s affects %v: %v", what, affected, err)
		}
	}
}

// `sluice deps lock` finds the charts of an import before they are locked. The error has the line that people wrote,
// also if the Application edits the kustomization.
func TestUnlockedHelmChartsOfAnArgoCDImport(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	v := t.open(argocdFleet(argocdEntry), map[string]string{"sluice.lock": ""})
	for _, name := range []string{"plain", "edited"} {
		_, _, err := t.bundle(v, name)
		const want = "web/kustomization.yaml:3: helmCharts[0]: chart web ^1.0.0 from https://charts.org/acme is not in sluice.lock: run `sluice deps lock`"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v should contain %q", name, err, want)
		}
	}
	if refs, _, err := v.Remote(); err != nil || len(refs) != 1 ||
		refs[0] != (fetch.Ref{Repo: "https://charts.org/acme", Chart: "web", Version: "^1.0.0"}) {
		t.Errorf("the charts to lock are %v: %v", refs, err)
	}
}

// A chart outside of the repository, one that is not locked and bombs fail the Applications of the root, and no other.
func TestHostileHelmChartsOfAnArgoCDImport(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for _, c := range []string{"ba", "cb", "dc", "ed", "fe", "gf", "hg"} {
		one := "*" + c[1:]
		bomb += c[:1] + ": &" + c[:1] + " [" + strings.TrimSuffix(strings.Repeat(one+",", 10), ",") + "]\n"
	}
	for entry, want := range map[string]string{
		"helmGlobals: {chartHome: /etc}\nhelmCharts: [{name: x}]\n":                                    "is an absolute path",
		"helmGlobals: {chartHome: ../../../etc}\nhelmCharts: [{name: x}]\n":                            "outside of the repository",
		"helmCharts: [{name: ../../../../etc, repo: \"https://charts.org/acme\"}]\n":                   "outside of the repository",
		"helmCharts: [{name: x}]\n":                                                                    "has no repo",
		"helmCharts: [{name: x, repo: \"https://evil.example.com\", version: 1.0.0}]\n":                "is not in sluice.lock",
		"helmCharts: [{name: web, repo: \"https://charts.org/acme\", valuesFile: ../../secret}]\n":     "leaves the repository",
		"helmCharts: [{name: --post-renderer=/bin/sh}]\n":                                              "is not the name of a chart",
		"helmCharts: [" + strings.Repeat("{name: x, repo: \"https://charts.org/acme\"},", 101) + "]\n": "more than 100",
		bomb: "", // whatever refuses it first
	} {
		v := t.open(argocdFleet(entry), nil)
		for _, name := range []string{"plain", "edited"} {
			_, _, err := t.bundle(v, name)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.80s: %s: %v should contain %q", entry, name, err, want)
			}
		}
		if _, _, err := t.bundle(v, "other"); err != nil {
			t.Errorf("%.80s: another Application: %v", entry, err)
		}
	}
}
