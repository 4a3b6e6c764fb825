package fleet

import (
	"maps"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// TestFilesThatImportsDoNotRead: a fleet with spec.import says which of Sluice's own files it does not read. Files of
// other tools in these places are none.
func TestFilesThatImportsDoNotRead(t *testing.T) {
	t.Parallel()
	const fleetText = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: a}\nspec:\n  environments: [{name: prod}]\n  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod}}}}]\n"
	const app = "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n"
	const other = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"its own app": {
			map[string]string{"apps/web/app.yaml": app, "clusters/flux.yaml": other},
			[]string{"does not read apps/*/app.yaml, such as apps/web/app.yaml"},
		},
		"its own cluster": {
			map[string]string{
				"clusters/a.yaml": other,
				"clusters/b.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\n",
			},
			[]string{"does not read clusters/*.yaml, such as clusters/b.yaml"},
		},
		"files of Flux": {map[string]string{"apps/web/app.yaml": other, "clusters/prod.yaml": other}, nil},
		"an app that counts": {map[string]string{
			"sluice.yaml":       fleetText + "  files: {apps: [apps/*/app.yaml]}\n",
			"apps/web/app.yaml": app, "m/x.yaml": "",
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"sluice.yaml": fleetText}
			maps.Copy(files, c.files)
			_, problems := Loader{Importer: targets{}}.Load(t.Context(), fleettest.NewTree(files))
			var got []string
			for _, p := range problems {
				if strings.Contains(p.Message, "spec.import") {
					got = append(got, p.String())
				}
			}
			if len(got) != len(c.want) || len(got) == 1 && (!strings.Contains(got[0], c.want[0]) ||
				!strings.Contains(got[0], "sluice.yaml:6:11")) {
				t.Errorf("the result is %q, want %q", got, c.want)
			}
		})
	}
}
