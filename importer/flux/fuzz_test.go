package flux_test

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// FuzzImport reads a file of a cluster that somebody else wrote. Whatever it says, each unit has a place in the
// repository, only files of the repository are read, and a unit that fails says why.
func FuzzImport(f *testing.F) {
	seed := func(archive string) {
		for _, file := range txtar.Parse([]byte(archive)).Files {
			if file.Name == "clusters/prod/app.yaml" {
				f.Add(file.Data)
			}
		}
	}
	seed(app(""))
	seed(app("targetNamespace: team-a\nnamePrefix: a-\npatches:\n- patch: |\n    - {op: replace, path: /data/color, value: blue}\n  target: {kind: ConfigMap}\n"))
	seed(app("postBuild: {substitute: {color: \"${a:=x}\"}, substituteFrom: [{kind: ConfigMap, name: vars, optional: true}]}\n"))
	seed(app("path: ../../etc\ncomponents: [../../../etc]\n"))
	f.Add([]byte("apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\nspec:\n  chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}\n  values: {a: &a [1], b: *a}\n  valuesFrom: [{kind: ConfigMap, name: x}]\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {name: other}, spec: {url: 'file:///etc', ignore: \"!/**\\n\"}}\n"))
	f.Add([]byte("apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: set}\nspec:\n  inputStrategy: {name: Permute}\n  inputs: [{size: 18446744073709551615, list: [1, 2.5, null]}]\n" +
		"  inputsFrom: [{selector: {matchLabels: {a: b}}}]\n  resources:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: \"x-<< inputs.set.size | toString | slugify >>\"}}\n" +
		"---\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSetInputProvider\nmetadata: {name: one, labels: {a: b}}\nspec: {type: Static, defaultValues: {n: 18446744073709551615}}\n"))
	rest := fstest.MapFS{}
	for _, file := range txtar.Parse([]byte(sync + configMap)).Files {
		rest[file.Name] = &fstest.MapFile{Data: file.Data}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 8<<10 {
			return
		}
		tree := fstest.MapFS{"clusters/prod/app.yaml": &fstest.MapFile{Data: data}}
		maps.Copy(tree, rest)
		i, err := flux.New(mapTree{tree}, kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile())
		if err != nil {
			t.Fatal(err)
		}
		list, err := i.Import(t.Context(), "clusters/prod")
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without a text")
			}
			return
		}
		for _, u := range list {
			if u.Err != nil && u.Err.Error() == "" || u.Err == nil &&
				(u.Path == ".." || strings.HasPrefix(u.Path, "../") || strings.HasPrefix(u.Path, "/")) {
				t.Fatalf("the unit is %+v", u)
			}
			for _, name := range append(u.Reads, u.Origin.File) {
				if tree[name] == nil && name != "" {
					t.Fatalf("%s is read, or %+v is from there", name, u.Key)
				}
			}
		}
	})
}
