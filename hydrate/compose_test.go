package hydrate_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// If the apps of an environment come from several commits, its custom kinds come from the apps' own commits.
func TestComposeReadsKindsFromEachAppsCommit(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	first := r.Resolve("HEAD")
	r.Write("manifests/baseline/crd.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wides.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Wide, plural: wides}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	r.Commit("a definition")
	second := r.Resolve("HEAD")
	h := r.Hydrator(2)
	w, err := h.Store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	states := map[string]*branch.State{}
	for _, c := range []gitstore.Commit{first, second} {
		done, err := h.RenderCommit(t.Context(), hydrate.CommitRequest{
			Environment: "dev", Commit: c,
			State: branch.NewState(""),
		}, w)
		if err != nil || len(done.Failures) > 0 {
			t.Fatal(err, done)
		}
		if states[c.Hash.String()], err = branch.ReadTree(t.Context(), h.Store, done.Tree); err != nil {
			t.Fatal(err)
		}
	}
	kind := manifest.GroupKind{Group: "example.com", Kind: "Wide"}
	for name, c := range map[string]struct {
		base, part gitstore.Commit // part is the commit of the app baseline
		want       manifest.Scope
	}{
		"a part adds a kind":         {first, second, manifest.ScopeCluster},
		"a part does not have it":    {second, first, manifest.ScopeUnknown},
		"every part is of one state": {second, second, manifest.ScopeCluster},
	} {
		source := branch.Source{Commit: c.base.Hash.String(), Apps: map[string]string{"baseline": c.part.Hash.String()}}
		tree, err := h.Assemble(t.Context(), hydrate.Recipe{
			Environment: "dev", Source: source, Base: states[source.Commit],
			Of: func(_, app string) *branch.State { return states[source.Of(app)] },
		}, w)
		if err != nil {
			t.Fatal(err)
		}
		st, err := branch.ReadTree(t.Context(), h.Store, tree)
		if err != nil || st.Kinds[kind] != c.want {
			t.Errorf("%s: the kinds are %v, the error is %v", name, st.Kinds, err)
		}
	}
}
