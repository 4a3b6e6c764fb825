package flux_test

import (
	"strings"
	"testing"
)

// The Flux Operator makes the cluster's own GitRepository, so it need not be in Git.
func TestOwnRepositoryThatIsNotInGit(t *testing.T) {
	const files = "-- clusters/prod/all.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec: {path: ./app, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n" +
		"-- app/release.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\n" +
		"spec: {interval: 10m, chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}}\n-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n"
	if u := units(t, files)["HelmRelease/web"]; u.Err != nil || u.Release == nil || u.Release.Path != "chart" {
		t.Errorf("the unit is %+v", u)
	}
}

// An object can name a source that a Kustomization brings which is read later.
func TestSourcesThatComeLater(t *testing.T) {
	const repository = "-- later/repository.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: web}\nspec: {url: \"https://charts.example.com\"}\n"
	const oci = "-- later/repository.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: web, namespace: web}\nspec: {url: \"oci://registry.example.com/web\", ref: {tag: 1.0.0}}\n"
	const git = "-- later/repository.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: same, namespace: flux-system}\nspec: {url: \"https://git.example.com/acme/fleet\", ref: {branch: main}}\n"
	release := func(chart string) string {
		return "-- app/release.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\nspec: {interval: 10m, " + chart + "}\n"
	}
	deeper := "-- clusters/prod/deeper.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: deeper, namespace: flux-system}\nspec: {path: ./deeper, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n"
	later := "-- deeper/later.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: later, namespace: flux-system}\nspec: {path: ./later, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n"
	for name, files := range map[string]string{
		"HelmRepository": app("") +
			release("chart: {spec: {chart: web, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts}}}") +
			repository,
		"chartRef": app("") + release("chartRef: {kind: OCIRepository, name: web}") + oci,
		"GitRepository": app("") +
			release("chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: same, namespace: flux-system}}}") + git + "-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n",
		"Kustomization": strings.Replace(app(""), "name: flux-system}\n  path", "name: same}\n  path", 1) + configMap +
			git,
	} {
		for key, u := range units(t, sync+files+deeper+later) {
			if u.Err != nil {
				t.Errorf("%s: the key is %s: the error is %v", name, key, u.Err)
			}
		}
		all := units(t, sync+files)
		u, ok := all["HelmRelease/web"]
		if !ok {
			u = all["Kustomization/app"]
		}
		if u.Err == nil || !strings.Contains(u.Err.Error(), "is not in Git") {
			t.Errorf("%s without its source: %v", name, u.Err)
		}
	}
}
