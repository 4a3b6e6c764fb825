package compare

import (
	"context"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
)

// Inventory lists the objects on clusters, for one side of a comparison.
type Inventory = objects.Inventory

// Inventory returns the objects on clusters after the change (head) or before it. The compared targets come from the
// comparison, all other apps from the environment's branch. If there is no branch, the other apps are unknown. Do not
// use it after Close.
func (c *Comparison) Inventory(head bool) *Inventory {
	side := 0
	if head {
		side = 1
	}
	byCluster := map[string][]*candidate{}
	for _, one := range c.run.list {
		byCluster[one.cluster] = append(byCluster[one.cluster], one)
	}
	return objects.NewInventory(c.run.reader, func(ctx context.Context, cluster string) (map[string]gitstore.Hash, error) {
		list := byCluster[cluster]
		if len(list) == 0 {
			return nil, nil
		}
		out, err := c.run.onBranch(ctx, list[0])
		if err != nil {
			return nil, err
		}
		for _, one := range list {
			switch tree := one.trees[side]; {
			case !one.compared():
			case tree.IsZero():
				delete(out, one.app)
			default:
				out[one.app] = tree
			}
		}
		return out, nil
	})
}

// onBranch returns the apps that the branch has on a candidate's cluster.
func (c *run) onBranch(ctx context.Context, one *candidate) (map[string]gitstore.Hash, error) {
	out := map[string]gitstore.Hash{}
	st, err := c.state(ctx, one.target().Cluster.Environment)
	if err != nil {
		return nil, err
	}
	tree := st.Clusters[one.cluster]
	if tree.IsZero() || c.request.Against == AgainstNothing {
		return out, nil
	}
	entries, err := branch.Apps(ctx, c.h.Store, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		out[e.Name] = e.Hash
	}
	return out, nil
}
