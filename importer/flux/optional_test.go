package flux_test

import (
	"strings"
	"testing"
)

// An optional ConfigMap is absent only if nothing of the commit may bring it. A unit that fails or is suspended leaves
// it in the cluster as an earlier commit brought it, so what depends on it is unknown.
func TestOptionalReferences(t *testing.T) {
	t.Parallel()
	const kustomization = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"
	const child = "-- app/child.yaml --\n" + kustomization +
		"metadata: {name: child, namespace: flux-system}\nspec: {path: ./child, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n" +
		"-- child/c.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-child}\n" +
		"-- app/c.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-app}\ndata: {color: \"${color:=grey}\"}\n"
	const release = "-- clusters/prod/release.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: flux-system}\nspec:\n" +
		"  chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system}}}\n  valuesFrom: [{kind: ConfigMap, name: colors, valuesKey: color, targetPath: color, optional: true}]\n" +
		"-- chart/Chart.yaml --\napiVersion: v2\nname: web\nversion: 0.1.0\n"
	base := sync + app("postBuild: {substituteFrom: [{kind: ConfigMap, name: colors, optional: true}]}\n") + child +
		release
	other := func(spec string) string { // read after app
		return "-- clusters/prod/other.yaml --\n" + kustomization +
			"metadata: {name: other, namespace: flux-system}\nspec: {path: ./other, prune: true, sourceRef: {kind: GitRepository, name: flux-system}" + spec + "}\n"
	}
	const colors = "-- other/colors.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: colors, namespace: flux-system}\ndata: {color: red}\n"
	const prefixed = "-- other/kustomization.yaml --\nnamePrefix: col\nresources: [c.yaml, none.yaml]\n-- other/c.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: ors, namespace: flux-system}\n"
	for name, c := range map[string]struct{ files, color, fails string }{
		"absent":     {base, "${color:=grey}", ""},
		"read later": {base + other("") + colors, "red", ""},
		"another name": {base + other("") + strings.ReplaceAll(colors, "name: colors", "name: shapes") +
			"-- other/broken.yaml --\na: [\n", "${color:=grey}", ""},
		"broken": {
			base + other("") + colors + "-- other/broken.yaml --\na: [\n", "",
			"Kustomization flux-system/other may bring it, which cannot be built",
		},
		"broken, with a prefix": {
			base + other("") + prefixed, "",
			"Kustomization flux-system/other may bring it, which cannot be built",
		},
		"gone": {
			base + other(""), "",
			"Kustomization flux-system/other may bring it, which cannot be built",
		},
		"suspended": {
			base + other(", suspend: true") + colors, "",
			"Kustomization flux-system/other may bring it, which is suspended",
		},
		"on another cluster": {base + other(", kubeConfig: {secretRef: {name: k}}") + colors, "${color:=grey}", ""},
		"of another repository": {base + strings.Replace(other("")+colors, "name: flux-system}}", "name: elsewhere}}",
			1) + "-- clusters/prod/elsewhere.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: elsewhere, namespace: flux-system}\nspec: {interval: 1m, url: \"https://git.example.com/acme/other\"}\n", "${color:=grey}", ""},
		"another late unit's": {base +
			strings.Replace(other(", postBuild: {substituteFrom: [{kind: Secret, name: none, optional: true}]}")+colors,
				"other.yaml --", "zother.yaml --", 1), "", "a unit that is read later brings it"},
		"brought by unit itself": {base + strings.ReplaceAll(colors, "other/", "app/"), "red", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := units(t, c.files)
			unit, inner, web := all["Kustomization/app"], all["Kustomization/child"], all["HelmRelease/web"]
			if c.fails == "" {
				if unit.Err != nil || inner.Err != nil || web.Err != nil ||
					!strings.Contains(encoded(t, objects(t, unit)), `"color":"`+c.color+`"`) {
					t.Errorf("the error is %v, the error is %v, the error is %v\nthe stream is\n%s", unit.Err,
						inner.Err, web.Err, unit.Stream)
				}
				if got := web.Release.Values["color"]; c.color == "red" != (got == "red") {
					t.Errorf("values %v", web.Release.Values)
				}
				return
			}
			if unit.Err == nil || !strings.Contains(unit.Err.Error(), c.fails) ||
				!strings.Contains(unit.Err.Error(), "ConfigMap flux-system/colors is optional") || !unit.Brings {
				t.Errorf("the error is %v", unit.Err)
			}
			if inner.Err == nil || !strings.Contains(inner.Err.Error(),
				"Kustomization flux-system/app brings it and fails") {
				t.Errorf("child: %v", inner.Err)
			}
			if web.Err == nil && !strings.Contains(c.fails, "later") {
				t.Error("the release does not fail")
			}
			if root := all["Kustomization/flux-system"]; root.Err != nil {
				t.Errorf("the error is %v", root.Err)
			}
		})
	}
}
