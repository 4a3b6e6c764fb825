package promote

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// described lists the clusters that apps of an environment describe, by their environments, in promotion order.
func (s *snapshot) described(environment string) ([]rollout.Described, error) {
	apps, members := map[*fleet.Cluster][]*fleet.App{}, s.fleet.ClustersOf(environment)
	for _, a := range s.fleet.Apps {
		if c := a.Describes(); c != nil && slices.ContainsFunc(members,
			func(on *fleet.Cluster) bool { return s.fleet.Places(a, on) }) {
			apps[c] = append(apps[c], a)
		}
	}
	if len(apps) == 0 {
		return nil, nil
	}
	var out []rollout.Described
	for _, e := range s.fleet.Spec.Environments {
		one, some := rollout.Described{Environment: e, Record: s.records.known[e.Name]}, false
		for _, c := range s.fleet.ClustersOf(e.Name) {
			d := rollout.DescribedCluster{Cluster: rollout.Cluster{Name: c.Name, Labels: c.Labels, State: c.State}}
			if len(apps[c]) > 0 {
				some, d.Steps = true, upgradeSteps(c, apps[c])
			}
			one.Clusters = append(one.Clusters, d)
		}
		if !some {
			continue
		}
		if err := s.records.broken[e.Name]; err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// upgradeSteps divides the apps that describe a cluster into the steps of its upgrade order. Apps that it does not name
// belong to the first. A step without apps has a place all the same, so that clusters of a wave take equal steps together.
func upgradeSteps(c *fleet.Cluster, apps []*fleet.App) [][]string {
	out := make([][]string, max(len(c.UpgradeOrder), 1))
	for _, a := range apps {
		i := max(slices.Index(c.UpgradeOrder, a.Declared()), 0)
		out[i] = append(out[i], a.Name)
	}
	return out
}

// entire renders a proposal with all described clusters.
func (p *proposals) entire(ctx context.Context, e fleet.Environment, s *rollout.Situation, source rollout.Source) (
	*rollout.Entire, error,
) {
	full, err := p.compose(ctx, e.Name, source, false)
	if err != nil {
		return nil, err
	}
	if full.failure != "" {
		return &rollout.Entire{Source: source, Failure: full.failure}, nil
	}
	past := p.past[e.Name]
	if err := past.add(ctx, full.tree); err != nil {
		return nil, err
	}
	var members []string
	for _, c := range p.fleet.ClustersOf(e.Name) {
		members = append(members, c.Name)
	}
	return rollout.EntireOf(*s, source, full.tree.String(), members, p.fleet.Describes, past.read(ctx))
}

// skipsMinor returns why a promotion must not land: objects of Cluster API would upgrade a cluster by more than one
// minor version, which Kubernetes does not support. It returns "" if none does. Of clusters that move wave by wave, it
// looks at all waves, so that none begins an upgrade that another one cannot end. A cluster whose version is not
// known, or whose objects stay, counts for nothing.
func (p *proposals) skipsMinor(ctx context.Context, environment string, next *rollout.Proposal) string {
	to, from := next.Entire, p.states[environment].Source()
	if to.Empty() {
		to = next.Source
	}
	var skips []string
	first := ""
	if !slices.ContainsFunc(p.fleet.Apps, func(a *fleet.App) bool { return a.Describes() != nil }) {
		return ""
	}
	for _, c := range p.fleet.ClustersOf(environment) {
		for _, t := range p.fleet.TargetsOf(c) {
			have, want := from.On(c.Name).Of(t.App.Name), to.On(c.Name).Of(t.App.Name)
			if t.App.Describes() == nil || have == want || slices.Contains(next.Held, t.App.Name) {
				continue
			}
			was, then := p.describedVersion(ctx, have, t.App.Name), p.describedVersion(ctx, want, t.App.Name)
			lowest, yes := fleet.SkipsMinor(was, then)
			if !yes {
				continue
			}
			if text := fmt.Sprintf("%s from %s to %s", t.App.Describes().Name, was, then); !slices.Contains(skips, text) {
				skips = append(skips, text)
			}
			first = cmp.Or(first, lowest)
		}
	}
	if len(skips) == 0 {
		return ""
	}
	return fmt.Sprintf("it would upgrade %s, and Kubernetes skips no minor version: promote a commit with kubeVersion %s first",
		rollout.Few(skips), first)
}

// describedVersion returns the version that a commit gives the cluster which an app describes; "" if the commit has no
// such app.
func (p *proposals) describedVersion(ctx context.Context, commit, app string) string {
	c, ok := p.trunk.commits[commit]
	if !ok {
		return ""
	}
	f, _, err := p.hydrator.Fleet(ctx, c.Tree) // kept for a commit
	if err != nil {
		return ""
	}
	a, ok := f.App(app)
	if !ok || a.Describes() == nil {
		return ""
	}
	return a.Describes().KubeVersion
}
