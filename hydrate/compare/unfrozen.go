package compare

import (
	"context"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// unfrozen returns, by name, the clusters of the head that are frozen in the base.
func (c *run) unfrozen() map[string]*fleet.Cluster {
	out := map[string]*fleet.Cluster{}
	for _, before := range c.views[0].Fleet.Clusters {
		after, ok := c.views[1].Fleet.Cluster(before.Name)
		if ok && before.State == "frozen" && after.State == "active" {
			out[before.Name] = after
		}
	}
	return out
}

// unfrozenCandidates compares the targets of a cluster that the change unfreezes with the cluster's branch. The
// cluster gets everything that was merged while it was frozen, although base and head have it in common.
func (c *run) unfrozenCandidates(ctx context.Context, cluster *fleet.Cluster) error {
	base := c.views[0].Fleet
	before, _ := base.Cluster(cluster.Name) // it exists: unfrozen found it
	st, err := c.state(ctx, before.Environment)
	if err != nil {
		return err
	}
	held := map[string]gitstore.Hash{} // by app
	if tree := st.Clusters[cluster.Name]; !tree.IsZero() {
		apps, err := branch.Apps(ctx, c.h.Store, tree)
		if err != nil {
			return err
		}
		for _, a := range apps {
			held[a.Name] = a.Hash
		}
	}
	add := func(app string, after *fleet.Target) {
		one := &candidate{cluster: cluster.Name, app: app, onBranch: true}
		one.sides[1], one.trees[0] = after, held[app]
		if !held[app].IsZero() {
			one.sides[0] = &fleet.Target{App: &fleet.App{Name: app}, Cluster: before}
			if a, ok := base.App(app); ok {
				one.sides[0].App = a
			}
		}
		if after == nil {
			one.failed[1] = c.views[1].Fleet.Lost(base, cluster.Name, app)
		}
		c.add(one)
	}
	for _, t := range c.views[1].Fleet.TargetsOf(cluster) {
		add(t.App.Name, &t)
		delete(held, t.App.Name)
	}
	for _, app := range slices.Sorted(maps.Keys(held)) {
		add(app, nil)
	}
	return nil
}
