package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// described lists the clusters that apps of an environment describe, by their environments, in promotion order.
func (s *snapshot) described(ctx context.Context, environment string) ([]rollout.Described, error) {
	gone, err := s.gone(ctx, environment)
	if err != nil {
		return nil, err
	}
	apps, members := map[*fleet.Cluster][]*fleet.App{}, s.fleet.ClustersOf(environment)
	for _, a := range s.fleet.Apps {
		if c := a.Describes(); c != nil && slices.ContainsFunc(members,
			func(on *fleet.Cluster) bool { return s.fleet.Places(a, on) }) {
			apps[c] = append(apps[c], a)
		}
	}
	var out []rollout.Described
	for _, e := range s.fleet.Spec.Environments {
		one, some := rollout.Described{Environment: e, Record: s.records.known[e.Name], Gone: gone[e.Name]}, len(gone[e.Name]) > 0
		delete(gone, e.Name)
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
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		out = append(out, rollout.Described{Environment: fleet.Environment{Name: name}, Gone: gone[name], Lost: true})
	}
	return out, nil
}

// gone lists the clusters that apps on the branch of an environment describe and that no app of the fleet describes any
// more, by the environment that they have at the commit which the branch runs of the app.
func (s *snapshot) gone(ctx context.Context, environment string) (map[string][]rollout.DescribedCluster, error) {
	out, seen := map[string][]rollout.DescribedCluster{}, map[string]bool{}
	err := s.eachApp(ctx, environment, func(cluster, app string) {
		if _, ok := s.fleet.App(app); ok || seen[app] {
			return
		}
		a := s.describing(ctx, s.states[environment].Source().On(cluster).Of(app), app)
		if a == nil {
			return
		}
		seen[app] = true
		one := rollout.DescribedCluster{Cluster: rollout.Cluster{Name: a.Describes().Name}, Steps: [][]string{{app}}}
		if c, ok := s.fleet.Cluster(one.Name); ok && !c.Retired() {
			one.State = c.State
		}
		out[a.Describes().Environment] = append(out[a.Describes().Environment], one)
	})
	return out, err
}

// eachApp calls f for each app on the branch of an environment.
func (s *snapshot) eachApp(ctx context.Context, environment string, f func(cluster, app string)) error {
	st := s.states[environment]
	if !st.Exists() {
		return nil
	}
	read := s.past[environment].read(ctx)
	for _, c := range s.fleet.ClustersOf(environment) {
		apps, err := read(st.Tip.Tree.String(), c.Name)
		if err != nil {
			return err
		}
		for _, app := range slices.Sorted(maps.Keys(apps)) {
			f(c.Name, app)
		}
	}
	return nil
}

// describing returns an app as a commit has it, if it describes a cluster there; nil if it does not, or if the commit is
// not known.
func (s *snapshot) describing(ctx context.Context, commit, app string) *fleet.App {
	f := s.fleetOf(ctx, commit)
	if f == nil {
		return nil
	}
	a, ok := f.App(app)
	if !ok || a.Describes() == nil {
		return nil
	}
	return a
}

// fleetOf returns the fleet of a commit that a branch runs; nil if it cannot be read. A frozen cluster may run an older
// one than those that were read of the trunk.
func (s *snapshot) fleetOf(ctx context.Context, commit string) *fleet.Fleet {
	c, ok := s.trunk.commits[commit]
	if !ok {
		hash, err := gitstore.ParseHash(commit)
		if err != nil {
			return nil
		}
		if c, err = s.hydrator.Store.Commit(ctx, hash); err != nil {
			return nil
		}
	}
	f, _, err := s.hydrator.Fleet(ctx, c.Tree) // kept for a commit
	if err != nil {
		return nil
	}
	return f
}

// dropsDescribed returns why a promotion must not land: it takes an app with forEach away, by another name or
// altogether, and with it the objects of clusters that the fleet still has. A sync tool that prunes would delete these
// clusters, and the new name of an app takes no objects over.
func (p *proposals) dropsDescribed(ctx context.Context, environment string, next *rollout.Proposal) (string, error) {
	to, from := next.Entire, p.states[environment].Source()
	if to.Empty() || len(next.Apps) > 0 {
		to = next.Source
	}
	var clusters []string
	name := ""
	err := p.eachApp(ctx, environment, func(cluster, app string) {
		have, want := from.On(cluster).Of(app), to.On(cluster).Of(app)
		if have == want {
			return
		}
		a, f := p.describing(ctx, have, app), p.fleetOf(ctx, want)
		if a == nil || f == nil || slices.ContainsFunc(f.Declared(),
			func(o *fleet.App) bool { return o.Name == a.Declared() && o.Spec.ForEach != nil }) {
			return
		}
		c, ok := f.Cluster(a.Describes().Name)
		if ok && !c.Retired() && !slices.Contains(clusters, c.Name) {
			name, clusters = cmp.Or(name, a.Declared()), append(clusters, c.Name)
		}
	})
	if err != nil || len(clusters) == 0 {
		return "", err
	}
	return fmt.Sprintf("it has no app %s with forEach any more, so the objects of %s would be removed, and a sync tool that prunes deletes such clusters: keep the name of the app; to remove the objects, first let its forEach select no cluster, with optional: true, which takes them away wave by wave",
		name, rollout.Few(clusters)), nil
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
func (p *proposals) entire(ctx context.Context, e fleet.Environment, s *rollout.Situation, next *rollout.Proposal) (
	*rollout.Entire, error,
) {
	source := next.Entire
	round, err := p.round(ctx, e.Name, s, next)
	if err != nil {
		return nil, err
	}
	stepped := round.Of(s.Trunk, source, s.Running.Source, p.clusterNames(e.Name))
	full, err := p.compose(ctx, e.Name, stepped, false)
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
	gone := map[string]bool{}
	for _, d := range s.Described {
		for _, c := range d.Gone {
			gone[c.Steps[0][0]] = true
		}
	}
	describes := func(app string) bool { return gone[app] || p.fleet.Describes(app) }
	out, err := rollout.EntireOf(*s, source, full.tree.String(), members, describes, past.read(ctx))
	if err != nil {
		return nil, err
	}
	out.Round = round
	if out.Behind, err = p.behind(ctx, s); err != nil {
		return nil, err
	}
	upgrades, err := p.upgrades(ctx, e.Name, stepped)
	if err != nil {
		return nil, err
	}
	out.Minors = map[string]bool{}
	for _, u := range upgrades {
		for _, t := range u.targets {
			out.Minors[t.app] = fleet.OlderMinor(u.from, u.to)
		}
	}
	out.Skips, out.SkipsWhy = skipsMinor(upgrades)
	return out, nil
}

// behind names, for each app, a cluster whose branch does not have it as the environment branch does. Where a branch
// cannot be read, it has none of them.
func (p *proposals) behind(ctx context.Context, s *rollout.Situation) (map[string]string, error) {
	out := map[string]string{}
	for _, c := range s.Clusters {
		if c.State == "retired" || c.Tree == c.Desired || c.Desired == "" {
			continue
		}
		has, _ := p.appTrees(ctx, c.Tree) // an unreadable branch has nothing
		want, err := p.appTrees(ctx, c.Desired)
		if err != nil { // then nothing would seem to be behind
			return nil, err
		}
		for app := range want {
			if has[app] != want[app] {
				out[app] = c.Name
			}
		}
		for app := range has {
			if has[app] != want[app] {
				out[app] = c.Name
			}
		}
	}
	return out, nil
}

// appTrees returns the tree of each app in the tree of a cluster.
func (p *proposals) appTrees(ctx context.Context, tree string) (map[string]gitstore.Hash, error) {
	hash, err := gitstore.ParseHash(tree)
	if err != nil {
		return nil, err
	}
	apps, err := branch.Apps(ctx, p.hydrator.Store, hash)
	if err != nil {
		return nil, err
	}
	out := map[string]gitstore.Hash{}
	for _, a := range apps {
		out[a.Name] = a.Hash
	}
	return out, nil
}

// versionsBefore returns the oldest version that described clusters have on the branches of an environment.
func (p *proposals) versionsBefore(ctx context.Context, environment string) (map[string]string, error) {
	st, out := p.states[environment], map[string]string{}
	add := func(source rollout.ClusterSource, app string) {
		a := p.describing(ctx, source.Of(app), app)
		if a == nil || a.Describes().KubeVersion == "" {
			return
		}
		d := a.Describes()
		if out[d.Name] == "" || fleet.OlderMinor(d.KubeVersion, out[d.Name]) {
			out[d.Name] = d.KubeVersion
		}
	}
	if err := p.eachApp(ctx, environment, func(cluster, app string) { add(st.Source().On(cluster), app) }); err != nil {
		return nil, err
	}
	for _, c := range p.fleet.ClustersOf(environment) {
		if c.Retired() {
			continue
		}
		tree, err := p.runs(ctx, environment, c)
		if err != nil || tree.IsZero() || tree == st.Clusters[c.Name] {
			continue // a branch that does not exist has no versions
		}
		past, err := p.past[environment].with(ctx, c.Name, tree)
		if errors.Is(err, rollout.ErrNoTree) {
			continue // not what Sluice wrote, so it does not move either
		} else if err != nil {
			return nil, err
		}
		apps, err := p.appTrees(ctx, tree.String())
		if err != nil {
			return nil, err
		}
		for app := range apps {
			add(past.Source().On(c.Name), app)
		}
	}
	return out, nil
}
