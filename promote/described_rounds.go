package promote

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// mostRoundCommits bounds the commits of the trunk that are read to find the one that a round brings.
const mostRoundCommits = 100

// clusterUpgrade is what a source changes of the objects that describe a cluster.
type clusterUpgrade struct {
	from, to string // versions of Kubernetes; from is empty if it is not known
	skips    string // the first minor version that it would leave out; "" for none
	targets  []describedTarget
}

// describedTarget is an app that describes a cluster, on a management cluster, with the commits before and after.
type describedTarget struct{ on, app, have, want string }

// upgrades lists what a source changes of described clusters, by their names. The versions before are those of all apps
// that describe a cluster, on the environment branch and on the branch of its management cluster, whatever the apps are
// called; the oldest counts. Objects that stay count for nothing.
func (p *proposals) upgrades(ctx context.Context, environment string, to rollout.Source) (map[string]*clusterUpgrade,
	error,
) {
	from := p.states[environment].Source()
	was, err := p.versionsBefore(ctx, environment)
	if err != nil || len(was) == 0 {
		return nil, err
	}
	out := map[string]*clusterUpgrade{}
	for _, c := range p.fleet.ClustersOf(environment) {
		have, want := from.On(c.Name), to.On(c.Name)
		for _, t := range p.fleet.TargetsOf(c) {
			app := t.App.Name
			if have.Of(app) == want.Of(app) {
				continue
			}
			a := p.describing(ctx, want.Of(app), app)
			if a == nil {
				continue
			}
			d := a.Describes()
			u := out[d.Name]
			if u == nil {
				u = &clusterUpgrade{from: was[d.Name], to: d.KubeVersion}
				out[d.Name] = u
			}
			if fleet.OlderMinor(u.to, d.KubeVersion) {
				u.to = d.KubeVersion
			}
			u.targets = append(u.targets, describedTarget{c.Name, app, have.Of(app), want.Of(app)})
			u.skips, _ = fleet.SkipsMinor(u.from, u.to)
		}
	}
	return out, nil
}

// skipsMinor lists the apps of described clusters that upgrades take over more than one minor version, which Kubernetes does
// not support, with the reason of each, and says which clusters these are. All apps of such a cluster are listed, so that
// none begins an upgrade that another one cannot end.
func skipsMinor(upgrades map[string]*clusterUpgrade) (apps map[string]string, why string) {
	const text = "it would upgrade %s, and Kubernetes skips no minor version: promote a commit with kubeVersion %s first"
	var list []string
	first := ""
	apps = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(upgrades)) {
		u := upgrades[name]
		if u.skips == "" {
			continue
		}
		one := fmt.Sprintf("%s from %s to %s", name, u.from, u.to)
		if list = append(list, one); first == "" || fleet.OlderMinor(u.skips, first) {
			first = u.skips
		}
		for _, t := range u.targets {
			apps[t.app] = fmt.Sprintf(text, one, u.skips)
		}
	}
	if len(list) == 0 {
		return nil, ""
	}
	return apps, fmt.Sprintf(text, rollout.Few(list), first)
}

// round finds what described clusters get first where a proposal would skip a minor version: the newest commit of the
// trunk that upgrades one of them by one minor version. All clusters that the proposal takes further get this commit
// before one of them gets more. Clusters whose objects stay count for nothing.
func (p *proposals) round(ctx context.Context, environment string, s *rollout.Situation, next *rollout.Proposal) (
	rollout.Round, error,
) {
	var out rollout.Round
	if p.imports[environment] != nil { // a site has only the commits that bundles brought
		return out, nil
	}
	upgrades, err := p.upgrades(ctx, environment, next.Entire)
	if err != nil {
		return out, err
	}
	stays, err := rollout.Stays(*s)
	if err != nil {
		return out, err
	}
	maps.DeleteFunc(upgrades, func(_ string, u *clusterUpgrade) bool {
		named := func(t describedTarget) bool { return slices.Contains(next.Apps, t.app) }
		if next.Overtakes && len(next.Apps) > 0 && !slices.ContainsFunc(u.targets, named) {
			return true // it has no part in what a person brings out of order
		}
		return slices.ContainsFunc(u.targets, func(t describedTarget) bool { return stays(t.app) })
	})
	commit := p.roundCommit(ctx, s.Trunk, upgrades)
	if commit == "" {
		return out, nil
	}
	out.Apps = map[string]string{}
	var first []string
	for _, name := range slices.Sorted(maps.Keys(upgrades)) {
		u, gets := upgrades[name], commit
		switch version := p.describedAt(ctx, commit, name, u); {
		case u.from == "", version == "" && u.skips == "", version != "" && !fleet.OlderMinor(version, u.to):
			continue // the commit says nothing about it, or as much as what is promoted
		case version == "", fleet.OlderMinor(version, u.from), u.skips != "" && !fleet.OlderMinor(u.from, version):
			gets = ""
		case u.skips != "":
			first = append(first, fmt.Sprintf("%s from %s to %s", name, u.from, version))
		}
		for _, t := range u.targets {
			out.Apps[t.app] = gets
		}
	}
	out.Why = fmt.Sprintf("Kubernetes skips no minor version, so %.10s comes before %.10s: it upgrades %s", commit,
		cmp.Or(next.Promoted.Commit, next.Entire.Commit), rollout.Few(first))
	out.Later = fmt.Sprintf("the next round brings it, when all clusters have %.10s: Kubernetes skips no minor version", commit)
	return out, nil
}

// roundCommit returns the commit of a round, among the newest of the trunk; "" if no cluster would skip a minor version,
// or if no commit upgrades one of those by one.
func (p *proposals) roundCommit(ctx context.Context, trunk rollout.Trunk, upgrades map[string]*clusterUpgrade) string {
	open, place := map[string]bool{}, map[string]int{}
	for i, commit := range trunk {
		place[commit] = i
	}
	top := -1
	for name, u := range upgrades {
		if u.skips == "" {
			continue
		}
		open[name] = true
		for _, t := range u.targets {
			top = max(top, place[t.want]-1)
		}
	}
	out := ""
	for i := top; i >= 0 && i > top-mostRoundCommits && len(open) > 0; i-- {
		for name := range open {
			u := upgrades[name]
			older := func(t describedTarget) bool { return i <= place[t.have] || i >= place[t.want] }
			version := ""
			if !slices.ContainsFunc(u.targets, older) {
				version = p.describedAt(ctx, trunk[i], name, u)
			}
			if _, skips := fleet.SkipsMinor(u.from, version); !skips && fleet.OlderMinor(u.from, version) {
				out = trunk[i]
				delete(open, name)
			}
		}
	}
	return out
}

// describedAt returns the version that a commit gives a described cluster; "" if it does not describe the cluster with
// all apps that do so now, because what it leaves out would be removed.
func (p *proposals) describedAt(ctx context.Context, commit, name string, u *clusterUpgrade) string {
	f := p.fleetOf(ctx, commit)
	if f == nil {
		return ""
	}
	version := ""
	for _, t := range u.targets {
		a, ok := f.App(t.app)
		on, placed := f.Cluster(t.on)
		switch {
		case ok && placed && a.Describes() != nil && a.Describes().Name == name && f.Places(a, on):
			version = a.Describes().KubeVersion
		case p.describing(ctx, t.have, t.app) != nil:
			return ""
		}
	}
	return version
}
