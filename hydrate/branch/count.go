package branch

import (
	"context"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// Losses compares the clusters of a state with another tree of its environment. It returns the edits of the clusters
// that have fewer objects there, how many objects less all clusters have, and how many are removed.
func Losses(ctx context.Context, store *gitstore.Store, st *State, tree gitstore.Hash) (lost map[string]*Edited,
	loss, removed int, err error,
) {
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return nil, 0, 0, err
	}
	after := map[string]gitstore.Hash{}
	for _, e := range entries {
		if e.Name != Dir {
			after[e.Name] = e.Hash
		}
	}
	names := map[string]bool{}
	for _, clusters := range []map[string]gitstore.Hash{st.Clusters, after} {
		for name := range clusters {
			names[name] = true
		}
	}
	lost = map[string]*Edited{}
	for name := range names {
		edit, err := CountEdit(ctx, store, st.Clusters[name], after[name], func(string) string { return "" })
		if err != nil {
			return nil, 0, 0, err
		}
		loss, removed = loss+edit.Loss(), removed+edit.Removed[""]
		if edit.Loss() > 0 {
			lost[name] = edit
		}
	}
	return lost, loss, removed, nil
}

// CountObjects counts the objects of a workspace on an environment's branch.
func CountObjects(ctx context.Context, store *gitstore.Store, st *State, workspace string) (int, error) {
	total := 0
	for _, tree := range st.Clusters {
		apps, err := Apps(ctx, store, tree)
		if err != nil {
			return 0, err
		}
		for _, app := range apps {
			if fleet.WorkspaceOf(app.Name) != workspace {
				continue
			}
			files, err := store.Tree(ctx, app.Hash)
			if err != nil {
				return 0, err
			}
			total += len(files)
		}
	}
	return total, nil
}
