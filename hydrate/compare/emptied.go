package compare

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Emptied is a cluster that loses every object that it had.
type Emptied struct {
	Cluster *fleet.Cluster // of the head; of the base if the head does not have it
	// the file of a cluster that the head does not have any more, although the file still declares it; "" otherwise
	Unread string
}

// Emptied returns the clusters that lose every object although nobody took them out of the registry, in the order of
// their names. A cluster with a target that cannot be rendered is not among them, nor one of which only some apps are
// compared.
func (c *Comparison) Emptied(ctx context.Context) ([]Emptied, error) {
	r := c.run.request
	if r.Against == AgainstNothing || len(r.Apps) > 0 || len(r.Without) > 0 {
		return nil, nil
	}
	losesAll := func(t Target) bool { return t.Files.Unchanged == 0 && len(t.Files.Before) > 0 }
	if !slices.ContainsFunc(c.Targets, losesAll) { // as in most changes
		return nil, nil
	}
	byCluster := map[string][]*Target{}
	for i := range c.Targets {
		t := &c.Targets[i]
		byCluster[t.Target.Cluster.Name] = append(byCluster[t.Target.Cluster.Name], t)
	}
	withheld := map[string]bool{}
	for _, one := range c.run.list {
		withheld[one.cluster] = withheld[one.cluster] || one.withheld()
	}
	var out []Emptied
	for name, targets := range byCluster {
		if withheld[name] {
			continue
		}
		lost, err := c.losesObjects(ctx, targets)
		if err != nil {
			return nil, err
		}
		if !lost {
			continue
		}
		one, declared := c.run.declaredCluster(ctx, name)
		if declared && !hasOtherTargets(c.run.views[1].Fleet, one.Cluster, targets) {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b Emptied) int { return cmp.Compare(a.Cluster.Name, b.Cluster.Name) })
	return out, nil
}

// declaredCluster returns a cluster that nobody took out of the registry: the head has it and does not retire it, or
// its file still declares it although the head does not read it. It returns false for other clusters.
func (c *run) declaredCluster(ctx context.Context, name string) (Emptied, bool) {
	if cluster, ok := c.views[1].Fleet.Cluster(name); ok {
		if c.request.Against == AgainstBranches && !c.wants(cluster.Environment) {
			// it leaves the branch of the environment that it had, and what it gets is not compared
			return Emptied{}, false
		}
		return Emptied{Cluster: cluster}, !cluster.Retired()
	}
	if c.views[0] == nil {
		return Emptied{}, false
	}
	cluster, ok := c.views[0].Fleet.Cluster(name)
	// in sluice.yaml the cluster can be an entry of its own
	if !ok || cluster.File == "" || cluster.File == fleet.File {
		return Emptied{}, false
	}
	data, err := c.views[1].Files(ctx).ReadFile(cluster.File)
	return Emptied{Cluster: cluster, Unread: cluster.File}, err == nil && fleet.DeclaresCluster(data, name)
}

// losesObjects reports whether the targets of a cluster had objects and lose all of them. An object that moves to
// another app is not lost.
func (c *Comparison) losesObjects(ctx context.Context, targets []*Target) (bool, error) {
	if slices.ContainsFunc(targets, func(t *Target) bool { return t.Files.Unchanged > 0 }) {
		return false, nil
	}
	had := map[manifest.Identity]bool{}
	for _, t := range targets {
		list, err := c.Read(ctx, t, t.Files.Before)
		if err != nil {
			return false, err
		}
		for i := range list {
			had[list[i].Object.Object.Identity()] = true
		}
	}
	if len(had) == 0 {
		return false, nil
	}
	for _, t := range targets {
		list, err := c.Read(ctx, t, t.Files.After)
		if err != nil {
			return false, err
		}
		for i := range list {
			if had[list[i].Object.Object.Identity()] {
				return false, nil
			}
		}
	}
	return true, nil
}

// hasOtherTargets reports whether the fleet has a target on the cluster that is not among the targets: the change
// leaves it as it was.
func hasOtherTargets(f *fleet.Fleet, cluster *fleet.Cluster, targets []*Target) bool {
	here := map[string]bool{}
	for _, t := range targets {
		here[t.Target.App.Name] = true
	}
	return slices.ContainsFunc(f.TargetsOf(cluster), func(t fleet.Target) bool { return !here[t.App.Name] })
}
