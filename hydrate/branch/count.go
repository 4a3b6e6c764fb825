package branch

import (
	"context"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

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
