package objects

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The definitions of a cluster have the same order in every run, so that of two definitions of one kind the same one
// counts.
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
		blob, err := w.Blob(fmt.Appendf(nil,
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x.example.com, annotations: {app: %s}}\n", name))
		if err != nil {
			t.Fatal(err)
		}
		if trees[name], err = w.Tree([]gitstore.Entry{{
			Name: branch.DefinitionPrefix + "x.example.com.yaml",
			Mode: gitstore.ModeFile, Hash: blob,
		}}); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	v := NewInventory(NewReader(store, diff.NewMasker(nil)), func(context.Context, string) (Cluster,
		error,
	) {
		return Cluster{Apps: listed(trees)}, nil
	})
	list, err := v.Definitions(t.Context(), "dev-1")
	var got []string
	for i := range list {
		got = append(got, list[i].Object.Object.Annotation("app"))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the result is %v, the error is %v", got, err)
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
		blob, err := w.Blob(fmt.Appendf(nil,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: n-%d}\ndata: {cluster: %q}\n", app/2,
			cluster))
		if err != nil {
			t.Fatal(err)
		}
		out, err := w.Tree([]gitstore.Entry{{Name: "configmap-x.yaml", Mode: gitstore.ModeFile, Hash: blob}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	v := NewInventory(NewReader(store, diff.NewMasker(nil)), func(_ context.Context, cluster string) (Cluster, error) {
		out := map[string]gitstore.Hash{}
		for app := range 4 {
			out[fmt.Sprintf("app-%d", app)] = tree(cluster, app)
		}
		return Cluster{Apps: listed(out)}, nil
	})
	v.limit = 200
	indexed := 0
	for c := range 20 {
		for call := range fewCalls + 1 { // each about an object of its own
			id := manifest.Identity{Kind: "ConfigMap", Namespace: "n-1", Name: "x"}
			want := []string{"app-2", "app-3"}
			if call > 0 {
				id.Group, want = fmt.Sprint(call), nil
			}
			got, err := v.Owners(t.Context(), fmt.Sprint(c), id)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("cluster %d: %v %v", c, got, err)
			}
			if call < fewCalls && v.index != nil && v.indexed == v.asked {
				t.Fatalf("cluster %d, call %d: an index is made for few objects", c, call)
			}
		}
		if v.index != nil && v.indexed == v.asked {
			indexed++
		}
		have := len(v.clusters) + len(v.alike) + len(v.files) + len(v.names)
		for _, one := range v.alike {
			have += len(one.apps) + len(one.owners) + len(one.places)
		}
		if have > v.limit || len(v.index) > 1 {
			t.Fatalf("%d clusters, trees and answers, %d names in the index", have, len(v.index))
		}
	}
	if indexed == 0 {
		t.Error("no cluster was indexed")
	}
}

// Clusters with the same tree and the same differing apps share what is read of them. One that lacks an app has its own
// answer.
func TestAlikeClustersShareWhatIsRead(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := w.Blob([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: team}\n"))
	if err != nil {
		t.Fatal(err)
	}
	app, err := w.Tree([]gitstore.Entry{{Name: "configmap-x.yaml", Mode: gitstore.ModeFile, Hash: blob}})
	if err != nil {
		t.Fatal(err)
	}
	both := map[string]gitstore.Hash{"app-1": app, "app-2": app}
	alike := clusterBeside(t, w, both, both)
	without := clusterBeside(t, w, both, map[string]gitstore.Hash{"app-2": app})
	asked := 0
	v := NewInventory(NewReader(store, diff.NewMasker(nil)), func(_ context.Context, cluster string) (Cluster, error) {
		asked++
		if cluster == "13" {
			return without, nil
		}
		return Cluster{Tree: alike.Tree, Apps: slices.Clone(alike.Apps)}, nil
	})
	const clusters = 40
	one := 0
	for c := range clusters {
		want := []string{"app-1", "app-2"}
		if c == 13 {
			want = []string{"app-2"}
		}
		got, err := v.Owners(t.Context(), fmt.Sprint(c), manifest.Identity{
			Kind: "ConfigMap", Namespace: "team",
			Name: "x",
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("cluster %d: %v %v, want %v", c, got, err, want)
		}
		if c == 0 {
			one = v.cached
		}
	}
	if v.calls != 1 || v.asked != v.clusters["13"] {
		t.Errorf("%d lookups of the last kind of cluster, want 1 for the cluster 13", v.calls)
	}
	if most := 2*one + clusters; len(v.alike) != 2 || v.cached > most || asked != clusters {
		t.Errorf("%d kinds of clusters, %d entries for %d clusters, expected 2 and at most %d; asked %d times",
			len(v.alike), v.cached, clusters, most, asked)
	}
}

// The owners on a cluster do not depend on the cluster that was asked about before: apps come, go and change between
// clusters.
func TestOwnersOfManyClusters(t *testing.T) {
	t.Parallel()
	for _, workspaces := range []bool{true, false} {
		t.Run(fmt.Sprintf("workspaces %t", workspaces), func(t *testing.T) {
			t.Parallel()
			ownersOfManyClusters(t, workspaces)
		})
	}
}

func ownersOfManyClusters(t *testing.T, workspaces bool) {
	t.Helper()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	apps := map[string]map[string]gitstore.Hash{}
	owners := map[string]map[string][]string{} // cluster → object → apps
	for c := range 30 {
		cluster := fmt.Sprint(c)
		apps[cluster], owners[cluster] = map[string]gitstore.Hash{}, map[string][]string{}
		for a := range 40 {
			app, spread := fmt.Sprintf("app-%02d", a), 1
			if a%3 > 0 && workspaces {
				app = fmt.Sprintf("team-%d/app-%02d", a%7, a)
			}
			// one app in ten differs between clusters; every tenth cluster differs in all apps
			if a%10 == 0 || c%10 == 9 {
				spread = 3
			}
			object := fmt.Sprintf("x-%d", a%7+r.IntN(spread))
			if spread > 1 && r.IntN(3) == 0 {
				continue
			}
			blob, err := w.Blob(fmt.Appendf(nil,
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: team}\n", object))
			if err != nil {
				t.Fatal(err)
			}
			tree, err := w.Tree([]gitstore.Entry{{
				Name: "configmap-" + object + ".yaml", Mode: gitstore.ModeFile,
				Hash: blob,
			}})
			if err != nil {
				t.Fatal(err)
			}
			apps[cluster][app] = tree
			owners[cluster][object] = append(owners[cluster][object], app)
			slices.Sort(owners[cluster][object])
		}
	}
	given := map[string]Cluster{}
	for cluster, list := range apps {
		given[cluster] = clusterBeside(t, w, apps[fmt.Sprint(r.IntN(30))], list)
	}
	for c := range 30 { // some have what the one before has
		if before, cluster := fmt.Sprint(c-1), fmt.Sprint(c); c%5 == 4 {
			given[cluster], owners[cluster], apps[cluster] = given[before], owners[before], apps[before]
		}
	}
	v := NewInventory(NewReader(store, diff.NewMasker(nil)), func(_ context.Context, cluster string) (Cluster,
		error,
	) {
		return given[cluster], nil
	})
	for i := range 400 {
		cluster := fmt.Sprint(r.IntN(30))
		for range 1 + r.IntN(2*fewCalls) {
			object := fmt.Sprintf("x-%d", r.IntN(3*fewCalls)) // most are on no cluster
			checkApps(t, v, cluster, object, owners[cluster][object], apps[cluster])
			got, err := v.Owners(t.Context(), cluster, manifest.Identity{
				Kind: "ConfigMap", Namespace: "team",
				Name: object,
			})
			if err != nil || !slices.Equal(got, owners[cluster][object]) {
				t.Fatalf("%d: %s on %s: %v %v, want %v", i, object, cluster, got, err, owners[cluster][object])
			}
		}
	}
}

// clusterBeside gives a cluster as the tree of another one and the apps that differ from it.
func clusterBeside(t *testing.T, w *gitstore.Writer, other, list map[string]gitstore.Hash) Cluster {
	t.Helper()
	var entries []gitstore.Entry
	differing := map[string]gitstore.Hash{}
	for _, app := range slices.Sorted(maps.Keys(other)) {
		entries = append(entries, gitstore.Entry{Name: app, Mode: gitstore.ModeTree, Hash: other[app]})
		if list[app] != other[app] {
			differing[app] = list[app]
		}
	}
	for app, tree := range list {
		if other[app] != tree {
			differing[app] = tree
		}
	}
	tree, err := branch.WriteApps(w, entries)
	if err != nil {
		t.Fatal(err)
	}
	return Cluster{Tree: tree, Apps: listed(differing)}
}

// checkApps compares Has and Size with the owners of an object on a cluster, and with the apps of the cluster, which
// have one object each.
func checkApps(t *testing.T, v *Inventory, cluster, object string, owners []string, apps map[string]gitstore.Hash) {
	t.Helper()
	for _, app := range []string{"app-03", "team-1/app-01", "team-6/app-13"} {
		id := manifest.Identity{Kind: "ConfigMap", Namespace: "team", Name: object}
		if has, err := v.Has(t.Context(), cluster, app, id); err != nil || has != slices.Contains(owners, app) {
			t.Fatalf("%s of %s on %s: %v %v", object, app, cluster, has, err)
		}
	}
	size := 0
	for app := range apps {
		if strings.HasPrefix(app, "team-1/") {
			size++
		}
	}
	if n, objects, err := v.Size(t.Context(), cluster, "team-1"); err != nil || n != size || objects != size {
		t.Fatalf("team-1 on %s has %d apps, %d objects, %v, want %d", cluster, n, objects, err, size)
	}
}

// The note about a file of somebody else names its target.
func TestForeignFilesAreNamed(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := w.Blob([]byte("no: object\n"))
	if err != nil {
		t.Fatal(err)
	}
	reader := NewReader(store, diff.NewMasker(nil))
	files := []File{{Name: "configmap-x.yaml", Hash: blob}}
	if list, err := reader.look(t.Context(), files); err != nil || len(list) != 0 || len(reader.Notes()) != 0 {
		t.Errorf("a file that is not compared: %d objects, notes %q, %v", len(list), reader.Notes(), err)
	}
	if _, err := reader.Read(t.Context(), "eu-1", "web", files); err != nil { // a later path
		t.Error(err)
	}
	list, err := reader.Read(t.Context(), "eu-1", "team-a/shop", files)
	want := []string{"eu-1/team-a/shop/configmap-x.yaml on the branch was not written by Sluice: it is not compared"}
	if err != nil || len(list) != 0 || !slices.Equal(reader.Notes(), want) {
		t.Errorf("%d objects, notes %q, %v", len(list), reader.Notes(), err)
	}
}

// listed returns trees by app in the order of the names.
func listed(trees map[string]gitstore.Hash) []App {
	var out []App
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		out = append(out, App{name, trees[name]})
	}
	return out
}
