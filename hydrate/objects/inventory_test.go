package objects

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The definitions of a cluster have the same order in every run, so that of two definitions of one kind the same one counts.
func TestDefinitionsHaveAnOrder(t *testing.T) {
	t.Parallel()
	const apps = 8
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	trees := map[string]gitstore.Hash{}
	var want []string
	for app := range apps {
		name := fmt.Sprint("app-", app)
		blob, err := w.Blob(fmt.Appendf(nil, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x.example.com, annotations: {app: %s}}\n", name))
		if err != nil {
			t.Fatal(err)
		}
		if trees[name], err = w.Tree([]gitstore.Entry{{Name: branch.DefinitionPrefix + "x.example.com.yaml", Mode: gitstore.ModeFile, Hash: blob}}); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	v := NewInventory(NewReader(store, diff.NewMasker(nil)), func(context.Context, string) (map[string]gitstore.Hash, error) { return trees, nil })
	list, err := v.Definitions(t.Context(), "dev-1")
	var got []string
	for i := range list {
		got = append(got, list[i].Object.Object.Annotation("app"))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// An Inventory forgets clusters and files instead of growing with the fleet, and still finds every owner.
func TestInventoryIsBounded(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	tree := func(cluster string, app int) gitstore.Hash {
		blob, err := w.Blob(fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: n-%d}\ndata: {cluster: %q}\n", app/2, cluster))
		if err != nil {
			t.Fatal(err)
		}
		out, err := w.Tree([]gitstore.Entry{{Name: "configmap-x.yaml", Mode: gitstore.ModeFile, Hash: blob}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	v := NewInventory(NewReader(store, diff.NewMasker(nil)), func(_ context.Context, cluster string) (map[string]gitstore.Hash, error) {
		out := map[string]gitstore.Hash{}
		for app := range 4 {
			out[fmt.Sprintf("app-%d", app)] = tree(cluster, app)
		}
		return out, nil
	})
	v.limit = 30
	for c := range 20 {
		got, err := v.Owners(t.Context(), fmt.Sprint(c), manifest.Identity{Kind: "ConfigMap", Namespace: "n-1", Name: "x"})
		if err != nil || !slices.Equal(got, []string{"app-2", "app-3"}) {
			t.Fatalf("cluster %d: %v %v", c, got, err)
		}
		if have := len(v.clusters) + len(v.files); have > v.limit || len(v.index) != 1 {
			t.Fatalf("%d clusters and trees, %d names in the index", have, len(v.index))
		}
	}
}
