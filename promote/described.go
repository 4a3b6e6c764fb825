package promote

import (
	"context"
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

// upgradeSteps divides the apps that describe a cluster into the steps of an upgrade.
func upgradeSteps(_ *fleet.Cluster, apps []*fleet.App) [][]string {
	var out []string
	for _, a := range apps {
		out = append(out, a.Name)
	}
	return [][]string{out}
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
