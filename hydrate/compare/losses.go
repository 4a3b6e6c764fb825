package compare

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// losses returns the environments that go, the clusters that lose everything, and those that lose more than hydration
// allows at once. A cluster that somebody retires or takes out of the registry may lose everything.
func (c *run) losses(ctx context.Context) ([]diff.Loss, error) {
	r := c.request
	if r.Against == AgainstNothing || len(r.Apps)+len(r.Without) > 0 {
		return nil, nil
	}
	byCluster := map[string][]*Target{}
	for i := range c.out.Targets {
		t := &c.out.Targets[i]
		byCluster[t.Target.Cluster.Name] = append(byCluster[t.Target.Cluster.Name], t)
	}
	var out []diff.Loss
	removed := c.removedEnvironments()
	for name, targets := range byCluster {
		lost := 0
		for _, t := range targets {
			lost += len(t.Files.Before) - len(t.Files.After)
		}
		if lost <= 0 || slices.ContainsFunc(removed, func(l diff.Loss) bool { return l.Environment == targets[0].Environment }) {
			continue
		}
		if _, declared := c.declaredCluster(ctx, name); !declared {
			continue
		}
		one, err := c.lossOf(ctx, name, targets, lost)
		if err != nil {
			return nil, err
		}
		if one != nil {
			out = append(out, *one)
		}
	}
	slices.SortFunc(out, func(a, b diff.Loss) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return append(removed, out...), nil
}

// removedEnvironments returns the environments of the base that the head does not have, with clusters that it has in no
// other environment either.
func (c *run) removedEnvironments() []diff.Loss {
	if c.views[0] == nil {
		return nil
	}
	var out []diff.Loss
	for _, e := range c.views[0].Fleet.Spec.Environments {
		if _, ok := c.views[1].Fleet.Environment(e.Name); ok || !c.wants(e.Name) {
			continue
		}
		had, lost := 0, 0
		for _, cluster := range c.views[0].Fleet.ClustersOf(e.Name) {
			if cluster.Retired() {
				continue
			}
			had++
			if _, ok := c.views[1].Fleet.Cluster(cluster.Name); !ok {
				lost++
			}
		}
		if lost > 0 {
			out = append(out, diff.Loss{
				Name: diff.EffectEnvironmentGone, Risk: c.lossRisk(diff.EffectEnvironmentGone), Environment: e.Name, Lost: lost, Had: had,
				Unit: "cluster",
			})
		}
	}
	return out
}

// lossOf returns what a cluster loses, if it is too much. Objects of targets that the change leaves alone are counted
// on the cluster's branch. Without a branch, apps are counted instead.
func (c *run) lossOf(ctx context.Context, cluster string, targets []*Target, lost int) (*diff.Loss, error) {
	environment := targets[0].Environment
	had, seen, emptied := 0, map[string]bool{}, 0
	for _, t := range targets {
		before := t.Files.Unchanged + len(t.Files.Before)
		had += before
		seen[t.Target.App.Name] = true
		if before > 0 && t.Files.Unchanged+len(t.Files.After) == 0 {
			emptied++
		}
	}
	apps, unit := seen, "object"
	others, known, err := c.others(ctx, environment, cluster, seen)
	if err != nil {
		return nil, err
	}
	for _, objects := range others {
		had += objects
	}
	if !known {
		lost, had, unit = emptied, len(apps)+len(others), "app"
	}
	out := &diff.Loss{
		Name: diff.EffectLargeLoss, Environment: environment, Cluster: cluster, Lost: lost,
		Had: had, Unit: unit,
	}
	switch {
	case lost == 0:
		return nil, nil
	case lost >= had:
		out.Name = diff.EffectEmptied
	case lost <= c.views[1].Fleet.MaxLoss(had):
		return nil, nil
	}
	out.Risk = c.lossRisk(out.Name)
	return out, nil
}

func (c *run) lossRisk(name diff.EffectName) diff.Risk {
	return Rules(c.outputs).Risk(name, diff.RiskCritical)
}

// others returns the number of objects of the apps that a cluster had at the base and that are not among the compared
// ones, by app. known says whether the numbers are right; without a branch, they are not.
func (c *run) others(ctx context.Context, environment, cluster string, compared map[string]bool) (
	objects map[string]int, known bool, err error,
) {
	objects, known = map[string]int{}, true
	trees := map[string]gitstore.Hash{}
	if !c.withoutBranches {
		st, err := c.state(ctx, environment)
		if err != nil {
			return nil, false, err
		}
		if tree := st.Clusters[cluster]; !tree.IsZero() {
			apps, err := branch.Apps(ctx, c.h.Store, tree)
			if err != nil {
				return nil, false, err
			}
			for _, a := range apps {
				trees[a.Name] = a.Hash
			}
		}
	}
	if c.request.Against == AgainstCommit {
		declared, ok := c.views[0].Fleet.Cluster(cluster)
		if !ok {
			return objects, true, nil
		}
		have := map[string]gitstore.Hash{}
		for _, t := range c.views[0].Fleet.TargetsOf(declared) {
			tree := trees[t.App.Name]
			have[t.App.Name] = tree
			known = known && (compared[t.App.Name] || !tree.IsZero())
		}
		trees = have
	}
	for app, tree := range trees {
		if compared[app] {
			continue
		}
		objects[app] = 0
		if tree.IsZero() {
			continue
		}
		files, err := c.h.Store.Tree(ctx, tree)
		if err != nil {
			return nil, false, err
		}
		objects[app] = len(files)
	}
	return objects, known, nil
}
