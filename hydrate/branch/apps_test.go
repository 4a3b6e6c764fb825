package branch_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// An edited tree is the tree that WriteApps writes of the same apps.
func TestEditApps(t *testing.T) {
	r := hydratetest.New(t)
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	r.Write("a/x.yaml", "a: 1\n")
	r.Write("b/x.yaml", "a: 2\n")
	r.Commit("trees")
	var trees []gitstore.Hash
	for _, name := range []string{"a", "b"} {
		h, err := gitstore.ParseHash(r.Git("rev-parse", "HEAD:"+name))
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, h)
	}
	names := []string{"web", "workspace", "workspaces-2", "team-a/web", "team-a/shop", "team-b/web", "team-c/a"}
	have, tree, tip := map[string]gitstore.Hash{}, gitstore.Hash{}, gitstore.Hash{}
	for range 60 {
		w, err := store.NewWriter()
		if err != nil {
			t.Fatal(err)
		}
		edits := map[string]gitstore.Hash{}
		for range 1 + random.IntN(3) {
			name := names[random.IntN(len(names))]
			if edits[name] = trees[random.IntN(len(trees))]; random.IntN(2) == 0 {
				edits[name] = gitstore.Hash{}
			}
		}
		maps.Copy(have, edits)
		maps.DeleteFunc(have, func(_ string, h gitstore.Hash) bool { return h.IsZero() })
		var list []gitstore.Entry
		for name, hash := range have {
			list = append(list, gitstore.Entry{Name: name, Mode: gitstore.ModeTree, Hash: hash})
		}
		want, err := branch.WriteApps(w, list)
		if err != nil {
			t.Fatal(err)
		}
		if tree, err = branch.EditApps(t.Context(), store, w, tree, edits); err != nil || tree != want {
			t.Fatalf("%v %v: %v instead of %v (%v)", slices.Sorted(maps.Keys(have)), edits, tree, want, err)
		}
		commit, err := w.Commit(gitstore.CommitSpec{Tree: tree, Message: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Local().Push(t.Context(), w, []gitstore.Move{{Branch: "trees", Old: tip, New: commit}},
			gitstore.PushOptions{}); err != nil {
			t.Fatal(err)
		}
		tip = commit
		_ = w.Close()
	}
}
