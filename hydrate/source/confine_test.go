package source

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// treeOf writes files as a tree.
func treeOf(t *testing.T, w *gitstore.Writer, files map[string]string) gitstore.Hash {
	t.Helper()
	folders := map[string]map[string]string{}
	var entries []gitstore.Entry
	for name, text := range files {
		if dir, rest, ok := strings.Cut(name, "/"); ok {
			if folders[dir] == nil {
				folders[dir] = map[string]string{}
			}
			folders[dir][rest] = text
			continue
		}
		blob, err := w.Blob([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob})
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		entries = append(entries, gitstore.Entry{Name: dir, Mode: gitstore.ModeTree, Hash: treeOf(t, w, folders[dir])})
	}
	tree, err := w.Tree(entries)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestDependenciesOfAWorkspacesChart(t *testing.T) {
	const api = "apiVersion: sluice.dev/v1alpha1\n"
	for repository, ok := range map[string]bool{
		"https://charts.org/acme": true, "https://evil.org/acme": false, "https://charts.org/acme/%2e%2e/evil": false,
		"oci://charts.org/acme": false,
	} {
		store := gitstore.OpenMemory()
		w, err := store.NewWriter()
		if err != nil {
			t.Fatal(err)
		}
		tree := treeOf(t, w, map[string]string{
			"sluice.yaml": api +
				"kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n",
			"clusters/a.yaml": api +
				"kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
			"workspaces/team-a.yaml": api +
				"kind: Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], sources: {charts: [\"https://charts.org/acme/**\"]}}\n",
			"workspaces/team-a/apps/web/app.yaml": api +
				"kind: App\nmetadata: {name: web}\nspec: {namespace: team-a, placement: {}, source: {helm: {path: charts/web}}}\n",
			"workspaces/team-a/charts/web/Chart.yaml": "name: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.0.0, repository: \"" + repository + "\"}]\n",
		})
		v, err := NewReader(store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits())).Open(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		targets := v.Fleet.Targets()
		if len(targets) != 1 {
			t.Fatalf("targets: %v", targets)
		}
		target := &Target{Selection: fleet.Selection{Target: targets[0]}, view: v}
		err = target.mayReadChart(&fleet.HelmSource{Path: "workspaces/team-a/charts/web"}, &renderer.HelmSource{})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "may not use the chart "+repository+
			"/db") {
			t.Errorf("%s: the error is %v", repository, err)
		}
		refs, _, err := v.Remote()
		if (err == nil) != ok || len(refs) == 1 != ok {
			t.Errorf("%s: the charts to fetch are %v: %v", repository, refs, err)
		}
	}
}

// An app whose charts are not known leaves out its own charts, and no others.
func TestRemoteChartsOfOtherApps(t *testing.T) {
	const api = "apiVersion: sluice.dev/v1alpha1\n"
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	app := func(name, version string) string {
		return api + "kind: App\nmetadata: {name: " + name +
			"}\nspec: {namespace: x, placement: {}, source: {helm: {repo: \"https://charts.org\", chart: web, version: \"" + version + "\"}}}\n"
	}
	v, err := NewReader(store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits())).Open(t.Context(),
		treeOf(t, w, map[string]string{
			"sluice.yaml": api +
				"kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n",
			"clusters/a.yaml": api + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
			"clusters/b.yaml": api + "kind: Cluster\nmetadata: {name: b}\nspec: {environment: dev}\n",
			"apps/a/app.yaml": app("a", "${cluster.vars.none}"), "apps/b/app.yaml": app("b", "1.0.0"),
			"apps/c/app.yaml": app("c", "${cluster.vars.none}"),
		}))
	if err != nil {
		t.Fatal(err)
	}
	refs, lock, err := v.Remote()
	var unresolved *UnresolvedError
	if !errors.As(err, &unresolved) || len(unresolved.Apps) != 2 || unresolved.Apps[0].App != "a" ||
		unresolved.Apps[1].App != "c" || lock == nil {
		t.Fatalf("the error is %v", err)
	}
	if len(refs) != 1 || refs[0].Version != "1.0.0" {
		t.Errorf("the refs are %v", refs)
	}
}

// A chart's local dependency is in the chart's own repository.
func TestDependenciesOfAnotherRepositorysChart(t *testing.T) {
	for dir, cases := range map[string]map[string]bool{
		".repositories/lib/charts/web": {
			"file://../common": true, "file://../../../../secret": false,
			"file://../../../other/common": false, "file://../../../../../x": false,
		},
		"charts/web": {"file://../common": true, "file://../../.repositories/lib/common": false},
	} {
		for repository, ok := range cases {
			store := gitstore.OpenMemory()
			w, err := store.NewWriter()
			if err != nil {
				t.Fatal(err)
			}
			tree := treeOf(t, w, map[string]string{dir +
				"/Chart.yaml": "name: web\nversion: 1.0.0\ndependencies: [{name: common, version: 1.0.0, repository: \"" + repository + "\"}]\n"})
			found, err := readDependencies(store.Snapshot(t.Context(), tree), dir)
			if ok != (err == nil && len(found) == 1) || err != nil &&
				!strings.Contains(err.Error(), "is outside the repository") {
				t.Errorf("%s in %s: %v, %v", repository, dir, found, err)
			}
		}
	}
}
