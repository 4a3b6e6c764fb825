package source

import (
	"fmt"
	"maps"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// declared counts the declarations that two views do not share.
func declared(x, y *View) int {
	n := 0
	for i, c := range y.Fleet.Clusters {
		if i >= len(x.Fleet.Clusters) || x.Fleet.Clusters[i] != c {
			n++
		}
	}
	return n
}

// The declarations of a commit are not read again if another commit, that was read before, has the same: the cost of a
// change does not grow with the registry.
func TestUnchangedDeclarationsAreNotReadAgain(t *testing.T) {
	t.Parallel()
	const api = "apiVersion: sluice.dev/v1alpha1\n"
	files := map[string]string{
		"sluice.yaml": api + "kind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: dev}]}\n",
		"apps/a/app.yaml": api +
			"kind: App\nmetadata: {name: a}\nspec: {namespace: x, placement: {}, source: {manifests: {path: m}}}\n",
		"m/x.yaml": "x: 1\n", "m/gone.yaml": "x: 1\n",
	}
	for i := range 20 {
		files[fmt.Sprintf("clusters/c%02d.yaml",
			i)] = fmt.Sprintf("%skind: Cluster\nmetadata: {name: c%02d}\nspec: {environment: dev}\n", api, i)
	}
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits()))
	open := func(edits map[string]string) *View {
		t.Helper()
		all := maps.Clone(files)
		for name, text := range edits {
			if all[name] = text; text == "" {
				delete(all, name)
			}
		}
		v, err := r.Open(t.Context(), treeOf(t, w, all))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := open(nil)
	for name, edits := range map[string]map[string]string{
		"an object": {"m/x.yaml": "x: 2\n"}, "a new object": {"m/y.yaml": "y: 1\n"},
		"an object that is gone": {"m/gone.yaml": ""},
	} {
		v := open(edits)
		if n := declared(first, v); n != 0 {
			t.Errorf("%s: %d clusters were read again", name, n)
		}
		data, err := v.contents.files.now().ReadFile("m/x.yaml")
		if want := edits["m/x.yaml"]; err != nil || want != "" && string(data) != want {
			t.Errorf("%s: the view has the object %q: %v", name, data, err)
		}
	}
	if v := open(map[string]string{"clusters/c07.yaml": files["clusters/c07.yaml"] + "# edited\n"}); declared(first,
		v) == 0 {
		t.Error("a cluster's file changed, and the fleet was not read")
	}
	if v := open(map[string]string{"clusters/c30.yaml": api +
		"kind: Cluster\nmetadata: {name: c30}\nspec: {environment: dev}\n"}); len(v.Fleet.Clusters) != 21 {
		t.Errorf("%d clusters, want 21", len(v.Fleet.Clusters))
	}
	if v := open(map[string]string{"layers/typo/x/values.yaml": "a: 1\n"}); declared(first, v) != 0 ||
		len(v.Problems) != len(first.Problems)+1 {
		t.Errorf("a folder that no layer reads: %d clusters were read again, %v", declared(first, v), v.Problems)
	}
}

// A link can lead to a declaration, so its change is no change of a file.
func TestChangesOfFiles(t *testing.T) {
	t.Parallel()
	file := func(mode gitstore.Mode, id byte) gitstore.Entry {
		return gitstore.Entry{Name: "x", Mode: mode, Hash: gitstore.Hash{id}}
	}
	for name, c := range map[string]struct {
		change         gitstore.Change
		edited, others int
		ok             bool
	}{
		"content": {gitstore.Change{
			Path: "x", Old: file(gitstore.ModeFile, 1),
			New: file(gitstore.ModeFile, 2),
		}, 1, 0, true},
		"a new file":  {gitstore.Change{Path: "x", New: file(gitstore.ModeExecutable, 2)}, 0, 1, true},
		"a file less": {gitstore.Change{Path: "x", Old: file(gitstore.ModeFile, 2)}, 0, 1, true},
		"a mode": {gitstore.Change{
			Path: "x", Old: file(gitstore.ModeFile, 1),
			New: file(gitstore.ModeExecutable, 1),
		}, 0, 0, false},
		"a link": {gitstore.Change{
			Path: "x", Old: file(gitstore.ModeSymlink, 1),
			New: file(gitstore.ModeSymlink, 2),
		}, 0, 0, false},
		"a new link":  {gitstore.Change{Path: "x", New: file(gitstore.ModeSymlink, 2)}, 0, 0, false},
		"a link less": {gitstore.Change{Path: "x", Old: file(gitstore.ModeSymlink, 2)}, 0, 0, false},
		"a link to a file": {gitstore.Change{
			Path: "x", Old: file(gitstore.ModeSymlink, 1),
			New: file(gitstore.ModeFile, 2),
		}, 0, 0, false},
		"a submodule": {gitstore.Change{Path: "x", New: file(gitstore.ModeSubmodule, 2)}, 0, 0, false},
	} {
		edited, others, ok := ofFiles([]gitstore.Change{c.change})
		if ok != c.ok || len(edited) != c.edited || len(others) != c.others {
			t.Errorf("%s: edited %v, others %v, %t", name, edited, others, ok)
		}
	}
}
