package compare

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
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
	byCluster := c.run.candidatesByCluster()
	return objects.NewInventory(c.run.reader, func(ctx context.Context, cluster string) (objects.Cluster, error) {
		list := byCluster[cluster]
		if len(list) == 0 {
			return objects.Cluster{}, nil
		}
		tree, err := c.run.clusterTree(ctx, list[0])
		if err != nil {
			return objects.Cluster{}, err
		}
		out := objects.Cluster{Tree: tree, Apps: make([]objects.App, 0, len(list))}
		for _, one := range list {
			if one.compared() {
				out.Apps = append(out.Apps, objects.App{Name: one.app, Tree: one.trees[side]})
			}
		}
		return out, nil
	})
}

// candidatesByCluster returns the candidates by cluster. Most candidates of a cluster follow each other in the list,
// which the result shares.
func (c *run) candidatesByCluster() map[string][]*candidate {
	if c.byCluster != nil {
		return c.byCluster
	}
	c.byCluster = make(map[string][]*candidate, min(len(c.list), len(c.views[1].Fleet.Clusters)))
	for rest := c.list; len(rest) > 0; {
		cluster, n := rest[0].cluster, 1
		for n < len(rest) && rest[n].cluster == cluster {
			n++
		}
		if have := c.byCluster[cluster]; have != nil {
			c.byCluster[cluster] = append(have, rest[:n]...)
		} else {
			c.byCluster[cluster] = slices.Clip(rest[:n])
		}
		rest = rest[n:]
	}
	return c.byCluster
}

// clusterTree returns the tree that the environment branch has of a candidate's cluster; zero if there is none.
func (c *run) clusterTree(ctx context.Context, one *candidate) (gitstore.Hash, error) {
	if c.request.Against == AgainstNothing {
		return gitstore.Hash{}, nil
	}
	st, err := c.state(ctx, one.target().Cluster.Environment)
	if err != nil {
		return gitstore.Hash{}, err
	}
	return st.Clusters[one.cluster], nil
}
