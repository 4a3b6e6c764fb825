package compare

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// candidate is a target that may differ. The arrays have the side before and the side after.
type candidate struct {
	cluster, app string
	sides        [2]*fleet.Target // nil if that side does not have the target
	trees        [2]gitstore.Hash
	namespaces   [2]string // of the app on the cluster; "" if it is not resolved yet
	failed       [2]error  // error of a side that cannot be rendered
	equal        bool      // equal digests: nothing differs
	upgraded     bool      // the cluster's Kubernetes version changes, which can change the findings for equal objects
	onBranch     bool      // trees[0] comes from the branch, because the base commit never reached the cluster
}

func (one *candidate) withheld() bool { return one.failed[0] != nil || one.failed[1] != nil }

// baseUnknown reports whether only the base cannot be rendered: the objects of the head are then all shown and judged.
func (one *candidate) baseUnknown() bool {
	return one.failed[0] != nil && one.failed[1] == nil && one.sides[1] != nil
}

// compared reports whether the head is known and may differ from the base.
func (one *candidate) compared() bool { return !one.equal && (!one.withheld() || one.baseUnknown()) }

// target returns the target after the change. If the change removes it, it returns the target before.
func (one *candidate) target() fleet.Target {
	if one.sides[1] != nil {
		return *one.sides[1]
	}
	return *one.sides[0]
}

// findCandidates finds the targets that can differ.
func (c *run) findCandidates(ctx context.Context) error {
	find := c.branchCandidates
	if c.request.Against == AgainstCommit {
		find = c.commitCandidates
	}
	if err := find(ctx); err != nil {
		return err
	}
	c.withholdUnread()
	c.list = slices.DeleteFunc(c.list, func(one *candidate) bool {
		return !c.request.hasApp(one.app) || !c.request.hasCluster(one.cluster)
	})
	c.reportUnplaced()
	return nil
}

// reportUnplaced adds an error for each imported target that the change adds and whose cluster is not known. If the
// base has the target on a cluster, the target is withheld there instead.
func (c *run) reportUnplaced() {
	if c.views[0] == nil {
		return
	}
	added := fleet.NewlyUnplaced(c.views[0].Fleet, c.views[1].Fleet)
	c.unplaced = slices.DeleteFunc(c.unplaced, func(app string) bool {
		_, reported := added[app]
		return reported || !c.request.hasApp(app)
	})
	for _, app := range slices.Sorted(maps.Keys(added)) {
		withheld := func(one *candidate) bool { return one.app == app && one.failed[1] != nil }
		if c.request.hasApp(app) && !slices.ContainsFunc(c.list, withheld) {
			c.out.Errors = append(c.out.Errors, added[app])
		}
	}
}

// withholdUnread withholds the targets of workspaces that one side cannot read: they do not count as added or removed.
func (c *run) withholdUnread() {
	for _, one := range c.list {
		for i, v := range c.views {
			if v != nil && one.sides[i] == nil && one.failed[i] == nil {
				one.failed[i] = fleet.Unknown(v.Fleet, one.app)
			}
		}
	}
}

// commitCandidates finds the targets that the change between two commits can affect.
func (c *run) commitCandidates(ctx context.Context) error {
	affected, err := c.h.Affected(ctx, c.request.Base.Tree, c.request.Head.Tree)
	if err != nil {
		return err
	}
	unfrozen := c.unfrozen()
	for _, a := range affected {
		if unfrozen[a.Cluster] != nil {
			continue
		}
		if a.Cluster == "" {
			c.unplaced = append(c.unplaced, a.App)
			continue
		}
		one := &candidate{cluster: a.Cluster, app: a.App}
		for i, v := range c.views {
			one.sides[i] = findTarget(v.Fleet, a)
		}
		before, after := one.sides[0], one.sides[1]
		one.upgraded = before != nil && after != nil && before.Cluster.KubeVersion != after.Cluster.KubeVersion
		switch {
		case after == nil:
			one.failed[1] = c.views[1].Fleet.Lost(c.views[0].Fleet, a.Cluster, a.App)
		case before == nil:
			one.failed[0] = c.views[0].Fleet.Lost(c.views[1].Fleet, a.Cluster, a.App)
		}
		c.add(one)
	}
	for _, name := range slices.Sorted(maps.Keys(unfrozen)) {
		if err := c.unfrozenCandidates(ctx, unfrozen[name]); err != nil {
			return err
		}
	}
	return nil
}

// findTarget returns a target of a fleet; nil if the fleet does not have it.
func findTarget(f *fleet.Fleet, a fleet.AffectedTarget) *fleet.Target {
	cluster, ok := f.Cluster(a.Cluster)
	if !ok || cluster.Retired() {
		return nil
	}
	app, ok := f.App(a.App)
	if !ok || !f.Places(app, cluster) {
		return nil
	}
	return &fleet.Target{App: app, Cluster: cluster}
}

// branchCandidates finds the targets of the environments, and targets that only their branches have.
func (c *run) branchCandidates(ctx context.Context) error {
	for _, e := range c.views[1].Fleet.Spec.Environments {
		if !c.wants(e.Name) {
			continue
		}
		st := branch.NewState("")
		if c.request.Against != AgainstNothing {
			var err error
			if st, err = c.state(ctx, e.Name); err != nil {
				return err
			}
		}
		if err := c.environmentCandidates(ctx, e.Name, st); err != nil {
			return err
		}
	}
	return nil
}

func (c *run) environmentCandidates(ctx context.Context, environment string, st *branch.State) error {
	held := map[[2]string]gitstore.Hash{} // cluster, app
	for cluster, tree := range st.Clusters {
		apps, err := branch.Apps(ctx, c.h.Store, tree)
		if err != nil {
			return err
		}
		for _, a := range apps {
			held[[2]string{cluster, a.Name}] = a.Hash
		}
	}
	f := c.views[1].Fleet
	for _, cluster := range f.ClustersOf(environment) {
		for _, t := range f.TargetsOf(cluster) {
			key := [2]string{cluster.Name, t.App.Name}
			c.add(&candidate{
				cluster: cluster.Name, app: t.App.Name, sides: [2]*fleet.Target{nil, &t},
				trees: [2]gitstore.Hash{held[key], {}},
			})
			delete(held, key)
		}
	}
	keys := slices.SortedStableFunc(maps.Keys(held), func(a, b [2]string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
	var before *fleet.Fleet
	if len(keys) > 0 && f.Uncertain() {
		before = c.h.Rendered(ctx, st)
	}
	for _, key := range keys {
		if cluster, ok := f.Cluster(key[0]); ok && cluster.Frozen() {
			c.out.Frozen++
			continue
		} else if ok && cluster.Detached {
			c.out.Detached++
			continue
		}
		gone := fleet.Target{
			App: &fleet.App{Name: key[1]}, Cluster: &fleet.Cluster{Name: key[0], Environment: environment},
		}
		one := &candidate{
			cluster: key[0], app: key[1], sides: [2]*fleet.Target{&gone, nil},
			trees: [2]gitstore.Hash{held[key], {}},
		}
		one.failed[1] = f.Lost(before, key[0], key[1])
		c.list = append(c.list, one)
	}
	return nil
}

// add adds a candidate, unless its cluster is frozen or leaves with what it runs, or the request excludes its
// environment.
func (c *run) add(one *candidate) {
	before, after := one.sides[0], one.sides[1]
	switch {
	case after == nil && before != nil && c.detaches(before.Cluster.Name):
		c.out.Detached++
	case after != nil && after.Cluster.Frozen():
		c.out.Frozen++
	case after != nil && c.wants(after.Cluster.Environment), before != nil && c.wants(before.Cluster.Environment):
		c.list = append(c.list, one)
	}
}

// detaches reports whether the head leaves a cluster with what it runs: nothing is removed from it.
func (c *run) detaches(name string) bool {
	cluster, ok := c.views[1].Fleet.Cluster(name)
	return ok && cluster.Detached
}
