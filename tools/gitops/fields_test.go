package gitops

import (
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/sluice-gitops/sluice/tools/gitops/fields"
)

// Each field of Flux's API, at any depth, is in the tables of docs/from-flux.md as supported, refused or ignored, and
// each that is refused fails its target with its name.
func TestFieldsOfFluxAreDocumented(t *testing.T) {
	const kustomization = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec:\n  path: ./app\n  prune: true\n  sourceRef: {kind: GitRepository, name: flux-system}\n"
	const release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: app, namespace: web}\nspec:\n  chart: {spec: {chart: web, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts}}}\n"
	const chartRef = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: app, namespace: web}\nspec: {chartRef: {kind: OCIRepository, name: web}}\n---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: web, namespace: web}\nspec: {url: \"oci://registry.example.com/web\", ref: {"
	const repository = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: web}\nspec: {url: \"https://charts.example.com\"}\n"
	const own = "  path: ./app\n  prune: true\n  sourceRef: {kind: GitRepository, name: own}\n---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: own, namespace: flux-system}\nspec: {url: \"https://git.example.com/acme/fleet\", ref: {branch: main}, "
	fromOwn := func(field string) string {
		head, _, _ := strings.Cut(kustomization, "  path:")
		return head + own + field + "}\n"
	}
	base := sections(t, "testdata/import/flux.txt")["base"]
	for _, c := range []struct {
		heading string
		fields  []string
		refused map[string]string // examples
	}{
		{
			"Kustomization", fields.Names(reflect.TypeFor[kustomizev1.KustomizationSpec](), "patches", "images"),
			map[string]string{
				"kubeConfig": kustomization + "  kubeConfig: {secretRef: {name: x}}\n",
			},
		},
		{"HelmRelease", fields.Names(reflect.TypeFor[helmv2.HelmReleaseSpec](), "postRenderers.kustomize.patches",
			"postRenderers.kustomize.images"), map[string]string{
			"kubeConfig": release + "  kubeConfig: {secretRef: {name: x}}\n" + repository,
			"valuesFrom": release + "  valuesFrom: [{kind: Secret, name: v}]\n" + repository +
				"---\napiVersion: v1\nkind: Secret\nmetadata: {name: v, namespace: web}\nstringData: {values.yaml: \"ENC[AES256_GCM,data:x]\"}\nsops: {mac: x}\n",
			"postRenderStrategy": release + "  postRenderStrategy: nohooks\n  commonMetadata: {labels: {a: b}}\n" +
				repository,
			"chart.spec.valuesFiles": strings.Replace(release, "version: 1.0.0",
				"version: 1.0.0, valuesFiles: [x.yaml]", 1) + repository,
		}},
		{"GitRepository", fields.Names(reflect.TypeFor[sourcev1.GitRepositorySpec]()), map[string]string{
			"include": fromOwn("include: [{repository: {name: other}}]"),
		}},
		{"HelmRepository", fields.Names(reflect.TypeFor[sourcev1.HelmRepositorySpec]()), nil},
		{"OCIRepository", fields.Names(reflect.TypeFor[sourcev1.OCIRepositorySpec]()), map[string]string{
			"ref.digest":       chartRef + "digest: \"sha256:00\"}}\n",
			"ref.semverFilter": chartRef + "semver: 1.x, semverFilter: .*-rc}}\n",
		}},
		{"HelmChart", fields.Names(reflect.TypeFor[sourcev1.HelmChartSpec]()), nil},
	} {
		table, err := fields.Read("../../docs/from-flux.md", c.heading)
		if err != nil {
			t.Fatal(err)
		}
		refused := map[string]bool{}
		for _, name := range c.fields {
			if table.Of(name) == "" {
				t.Errorf("docs/from-flux.md says nothing of the field %s of a %s", name, c.heading)
			}
			if table.Refuses(name) {
				refused[name] = true
			}
		}
		if got, want := slices.Sorted(maps.Keys(refused)), slices.Sorted(maps.Keys(c.refused)); !slices.Equal(got,
			want) {
			t.Errorf("%s: the table refuses %v, the examples are of %v", c.heading, got, want)
		}
		for name, text := range c.refused {
			dir := t.TempDir()
			unpack(t, dir, base+"-- clusters/prod/refused.yaml --\n"+text)
			cmd := exec.CommandContext(t.Context(), binary, "import")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+t.TempDir(), "SLUICE_OFFLINE=1")
			out, err := cmd.CombinedOutput()
			if field := name[strings.LastIndex(name, ".")+1:]; err == nil ||
				!strings.Contains(string(out), "clusters/prod/refused.yaml:1: ") ||
				!strings.Contains(string(out), field) {
				t.Errorf("%s of a %s is not refused by name: %v\n%s", name, c.heading, err, out)
			}
		}
		t.Logf("%s: %d fields, %d refused", c.heading, len(c.fields), len(c.refused))
	}
}
