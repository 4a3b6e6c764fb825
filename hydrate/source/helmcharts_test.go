package source

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// digestArchives returns the digest of an archive as its bytes, and refuses every signature.
type digestArchives struct{}

func (digestArchives) Archive(_ context.Context, _ fetch.Ref, l fetch.Locked) ([]byte, error) {
	return []byte(l.Digest), nil
}

func (digestArchives) Verify(context.Context, fetch.Ref, fetch.Locked, []signature.Signer) error {
	return fetch.ErrDenied
}

const (
	sourceAPI = "apiVersion: sluice.dev/v1alpha1\n"
	firstTgz  = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	secondTgz = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

func lockOf(digest string) string {
	return sourceAPI + "kind: Lock\ncharts:\n- {chart: web, repo: \"https://charts.org/acme\", version: ^1.0.0, resolved: 1.2.0, digest: \"" + digest + "\"}\n"
}

// chartsFleet is a fleet with a Kustomize root that lists a chart, and another that does not.
func chartsFleet() map[string]string {
	return map[string]string{
		"sluice.yaml": sourceAPI +
			"kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n  layers: [class]\n",
		"clusters/a.yaml": sourceAPI + "kind: ClusterClass\nmetadata: {name: edge}\nspec: {}\n---\n" +
			sourceAPI + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev, class: edge}\n",
		"apps/web/app.yaml": sourceAPI +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: x, placement: {}, source: {kustomize: {path: apps/web/root}}}\n",
		"apps/web/root/kustomization.yaml": "resources: [../base]\n",
		"apps/web/base/kustomization.yaml": "helmCharts:\n- name: web\n  repo: https://charts.org/acme\n  version: ^1.0.0\n  valuesFile: values.yaml\n",
		"apps/web/base/values.yaml":        "a: b\n",
		"apps/other/app.yaml": sourceAPI +
			"kind: App\nmetadata: {name: other}\nspec: {namespace: x, placement: {}, source: {kustomize: {path: apps/other}}}\n",
		"apps/other/kustomization.yaml": "configMapGenerator: [{name: a}]\n",
		"sluice.lock":                   lockOf(firstTgz),
	}
}

type chartsTest struct {
	*testing.T

	reader *Reader
	writer *gitstore.Writer
}

func newChartsTest(t *testing.T) *chartsTest {
	t.Helper()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	return &chartsTest{t, NewReader(store, digestArchives{}, renderer.NewEngine(renderer.DefaultLimits())), w}
}

func (t *chartsTest) open(base map[string]string, changes map[string]string) *View {
	t.Helper()
	files := maps.Clone(base)
	for name, text := range changes {
		if files[name] = text; text == "" {
			delete(files, name)
		}
	}
	v, err := t.reader.Open(t.Context(), treeOf(t.T, t.writer, files))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// bundle returns the digest and the bundle of an app.
func (t *chartsTest) bundle(v *View, app string) (string, *renderer.Bundle, error) {
	t.Helper()
	for _, one := range v.Fleet.Targets() {
		if one.App.Name != app {
			continue
		}
		target, err := v.Target(one)
		if err != nil {
			return "", nil, err
		}
		b, err := target.Bundle(t.Context())
		return target.Digest, b, err
	}
	t.Fatalf("no target of %s", app)
	return "", nil, nil
}

// Everything that Kustomize and Helm read of a chart is part of the digest, and of what a change affects.
func TestHelmChartsOfAKustomizeRoot(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	before := t.open(chartsFleet(), nil)
	digest, bundle, err := t.bundle(before, "web")
	if err != nil {
		t.Fatal(err)
	}
	if charts := bundle.Sources[0].Kustomize.Charts; len(charts) != 1 || charts[0].Dir != "apps/web/base" ||
		charts[0].Chart.Digest != firstTgz || string(charts[0].Chart.Archive) != firstTgz {
		t.Fatalf("the charts are %+v", charts)
	}
	other, _, err := t.bundle(before, "other")
	if err != nil {
		t.Fatal(err)
	}
	for name, changes := range map[string]map[string]string{
		"the lock":                              {"sluice.lock": lockOf(secondTgz)},
		"a values file":                         {"apps/web/base/values.yaml": "a: c\n"},
		"the entry":                             {"apps/web/base/kustomization.yaml": "helmCharts:\n- name: web\n  repo: https://charts.org/acme\n  version: ^1.0.0\n"},
		"a chart where the pulled one would be": {"apps/web/base/charts/web-^1.0.0/web/Chart.yaml": "name: web\nversion: 1.0.0\n"},
	} {
		after := t.open(chartsFleet(), changes)
		changed, _, err := t.bundle(after, "web")
		if err != nil || changed == digest {
			t.Errorf("%s: the digest is %s: %v", name, changed, err)
		}
		if same, _, err := t.bundle(after, "other"); err != nil || same != other {
			t.Errorf("%s: the digest of the other app is %s: %v", name, same, err)
		}
		affected, err := t.reader.Affected(t.Context(), before.tree, after)
		if err != nil || len(affected) != 1 || affected[0].App != "web" {
			t.Errorf("%s affects %v: %v", name, affected, err)
		}
	}
	if versions, err := before.Versions(before.Fleet.Targets()[1]); err != nil ||
		!slices.Equal(versions, []string{"apps/web/root with web 1.2.0"}) {
		t.Errorf("the versions are %q: %v", versions, err)
	}
	refs, _, err := before.Remote()
	if err != nil || len(refs) != 1 || refs[0] != (fetch.Ref{
		Repo: "https://charts.org/acme", Chart: "web",
		Version: "^1.0.0",
	}) {
		t.Errorf("the charts to lock are %v: %v", refs, err)
	}
}

func TestUnlockedHelmCharts(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	v := t.open(chartsFleet(), map[string]string{"sluice.lock": ""})
	_, _, err := t.bundle(v, "web")
	for _, want := range []string{
		"apps/web/app.yaml:",
		"apps/web/base/kustomization.yaml:2: helmCharts[0]: chart web ^1.0.0 from https://charts.org/acme is not in sluice.lock: run `sluice deps lock`",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v should contain %q", err, want)
		}
	}
	refs, _, err := v.Remote()
	if err != nil || len(refs) != 1 {
		t.Errorf("the charts to lock are %v: %v", refs, err)
	}
	affected, err := t.reader.Affected(t.Context(), v.tree, t.open(chartsFleet(), nil))
	if err != nil || len(affected) != 1 {
		t.Errorf("the lock affects %v: %v", affected, err)
	}
}

func TestLocalHelmCharts(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	local := map[string]string{
		"apps/web/base/kustomization.yaml": "helmGlobals: {chartHome: ../../../charts}\nhelmCharts: [{name: own, valuesFile: values.yaml}]\n",
		"charts/own/Chart.yaml":            "name: own\nversion: 1.0.0\ndependencies: [{name: web, version: ^1.0.0, repository: \"https://charts.org/acme\"}, {name: shared, repository: \"file://../shared\"}]\n",
		"charts/own/templates/a.yaml":      "a: b\n",
		"charts/shared/Chart.yaml":         "name: shared\nversion: 1.0.0\n",
	}
	before := t.open(chartsFleet(), local)
	digest, bundle, err := t.bundle(before, "web")
	if err != nil {
		t.Fatal(err)
	}
	chart := bundle.Sources[0].Kustomize.Charts[0]
	if len(chart.Chart.Files) != 2 || len(chart.Dependencies) != 2 || chart.Dependencies[0].Chart.Digest != firstTgz ||
		len(chart.Dependencies[1].Chart.Files) != 1 {
		t.Fatalf("the chart is %+v", chart)
	}
	for _, name := range []string{"charts/own/templates/a.yaml", "charts/shared/values.yaml"} {
		changes := maps.Clone(local)
		changes[name] = "a: c\n"
		after := t.open(chartsFleet(), changes)
		if changed, _, err := t.bundle(after, "web"); err != nil || changed == digest {
			t.Errorf("%s: the digest is %s: %v", name, changed, err)
		}
		if affected, err := t.reader.Affected(t.Context(), before.tree, after); err != nil || len(affected) != 1 {
			t.Errorf("%s affects %v: %v", name, affected, err)
		}
	}
	if refs, _, err := before.Remote(); err != nil || len(refs) != 1 || refs[0].Chart != "web" {
		t.Errorf("the charts to lock are %v: %v", refs, err)
	}
}

// A component of a layer can list charts, like a Kustomize root.
func TestHelmChartsOfAComponent(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	const file = "apps/other/layers/class/edge/kustomization.yaml"
	component := func(repo, version string) string {
		return "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nhelmCharts: [{name: web, repo: \"" +
			repo + "\", version: \"" + version + "\", valuesInline: {zone: \"${cluster.name}\"}}]\n"
	}
	base := chartsFleet()
	base[file] = component("https://charts.org/acme", "^1.0.0")
	before := t.open(base, nil)
	digest, bundle, err := t.bundle(before, "other")
	if err != nil {
		t.Fatal(err)
	}
	if charts := bundle.Components[0].Charts; len(charts) != 1 || charts[0].Dir != "apps/other/layers/class/edge" ||
		string(charts[0].Chart.Archive) != firstTgz {
		t.Errorf("the charts are %+v", charts)
	}
	if text := string(bundle.Components[0].Files.Files[0].Data); !strings.Contains(text, "zone: \"a\"") &&
		!strings.Contains(text, "zone: a") {
		t.Errorf("the reference is not replaced: %s", text)
	}
	if refs, _, err := before.Remote(); err != nil || len(refs) != 1 {
		t.Errorf("the charts to lock are %v: %v", refs, err)
	}
	after := t.open(base, map[string]string{"sluice.lock": lockOf(secondTgz)})
	if changed, _, err := t.bundle(after, "other"); err != nil || changed == digest {
		t.Errorf("another archive, and the digest is the same: %v", err)
	}
	// web has the chart too
	if affected, err := t.reader.Affected(t.Context(), before.tree, after); err != nil || len(affected) != 2 {
		t.Errorf("the lock affects %v: %v", affected, err)
	}
	for want, changed := range map[string]string{
		"not in sluice.lock": component("https://charts.org/acme", "^2.0.0"),
		"has a reference":    component("https://charts.org/acme", "${cluster.name}"),
	} {
		_, _, err := t.bundle(t.open(base, map[string]string{file: changed}), "other")
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "component apps/other/layers/class/edge") {
			t.Errorf("%v should contain %q", err, want)
		}
	}
}

// A workspace is confined in its own components. A component of the fleet may have charts that the workspace may not
// use.
func TestHelmChartsOfComponentsForAWorkspace(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	base := chartsFleet()
	maps.DeleteFunc(base, func(name, _ string) bool { return strings.HasPrefix(name, "apps/") })
	base["workspaces/team-a.yaml"] = sourceAPI +
		"kind: Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], sources: {charts: [\"https://charts.org/team-a/**\"]}}\n"
	base["workspaces/team-a/apps/web/app.yaml"] = sourceAPI +
		"kind: App\nmetadata: {name: web}\nspec: {namespace: team-a, placement: {}, source: {kustomize: {path: root}}}\n"
	base["workspaces/team-a/root/kustomization.yaml"] = "configMapGenerator: [{name: a}]\n"
	const component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nhelmCharts: [{name: web, repo: \"https://charts.org/acme\", version: ^1.0.0}]\n"
	for file, want := range map[string]string{
		"layers/class/edge/kustomization.yaml":                            "",
		"workspaces/team-a/layers/class/edge/kustomization.yaml":          "may not use the chart https://charts.org/acme/web",
		"workspaces/team-a/apps/web/layers/class/edge/kustomization.yaml": "may not use the chart https://charts.org/acme/web",
	} {
		v := t.open(base, map[string]string{file: component})
		_, bundle, err := t.bundle(v, "team-a/web")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) ||
			err == nil && len(bundle.Components[0].Charts) != 1 {
			t.Errorf("%s: %v should contain %q", file, err, want)
		}
		if refs, _, err := v.Remote(); (err == nil) != (want == "") || (len(refs) == 1) != (want == "") {
			t.Errorf("%s: the charts to lock are %v: %v", file, refs, err)
		}
	}
}

func TestHelmChartsThatAreRefused(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	signed := t.open(chartsFleet(), map[string]string{
		"sluice.yaml": sourceAPI +
			"kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n  charts: {verify: [us], signers: [{name: us, provenance: {keyring: keys.asc}}]}\n",
		"keys.asc": "x",
	})
	if _, _, err := t.bundle(signed, "web"); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("a chart without the signature that the fleet demands: %v", err)
	}
}

func TestHelmChartsOfAWorkspace(tt *testing.T) {
	tt.Parallel()
	t := newChartsTest(tt)
	base := chartsFleet()
	maps.DeleteFunc(base, func(name, _ string) bool { return strings.HasPrefix(name, "apps/") })
	base["workspaces/team-a.yaml"] = sourceAPI +
		"kind: Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], sources: {charts: [\"https://charts.org/acme/**\"]}}\n"
	base["workspaces/team-a/apps/web/app.yaml"] = sourceAPI +
		"kind: App\nmetadata: {name: web}\nspec: {namespace: team-a, placement: {}, source: {kustomize: {path: root}}}\n"
	base["secrets/web/Chart.yaml"] = "name: web\nversion: 1.0.0\n"
	base["sluice.lock"] = lockOf(firstTgz) +
		"- {chart: web, repo: \"https://evil.org\", version: 1.0.0, resolved: 1.0.0, digest: \"" + secondTgz + "\"}\n"
	for entry, want := range map[string]string{
		"helmCharts: [{name: web, repo: \"https://charts.org/acme\", version: ^1.0.0}]":    "",
		"helmCharts: [{name: web, repo: \"https://evil.org\", version: 1.0.0}]":            "may not use the chart https://evil.org/web",
		"helmGlobals: {chartHome: ../../../secrets}\nhelmCharts: [{name: web}]":            "secrets/web is outside of the workspace team-a",
		"helmCharts: [{name: ../../../../secrets/web, repo: \"https://charts.org/acme\"}]": "secrets/web is outside of the workspace team-a",
	} {
		v := t.open(base, map[string]string{"workspaces/team-a/root/kustomization.yaml": entry})
		_, _, err := t.bundle(v, "team-a/web")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v should contain %q", entry, err, want)
		}
		refs, _, err := v.Remote()
		if (err == nil) != (want == "") || slices.ContainsFunc(refs,
			func(r fetch.Ref) bool { return r.Repo == "https://evil.org" }) {
			t.Errorf("%s: the charts to lock are %v: %v", entry, refs, err)
		}
	}
}
