package rollout

import "slices"

// Unreached returns the clusters that the current rollout has not reached and that a partial rollback does not name.
// The rollback stops the rollout, so they keep what they run. apps limits the rollback, but not the clusters that
// stop. The record of s may be older than the move of the environment branch.
func Unreached(s Situation, clusters, apps []string) ([]string, error) {
	x, err := prepare(s)
	if err != nil {
		return nil, err
	}
	if err := x.observer.observe(); err != nil {
		return nil, err
	}
	p := x.rec.Progress
	if p != nil && !p.underWay() {
		return nil, nil
	}
	var out []string
	for _, c := range s.Clusters {
		named := slices.Contains(clusters, c.Name) && len(apps) == 0
		goesBack := p != nil && p.Rollback && slices.Contains(p.Changed, c.Name)
		if c.State != "retired" && !goesBack && c.behind() && c.Tree != "" && c.Foreign == "" && !named {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// RestoredSource returns the source of an environment after a rollback: to in the scope of the action; on the
// clusters that it stops, what they run; and elsewhere, what the environment runs. runs is the source of the trees on
// the cluster branches.
func RestoredSource(now Source, a Action, to Source, runs map[string]ClusterSource, clusters []string) Source {
	if len(a.Clusters)+len(a.Apps)+len(a.Keeps) == 0 {
		return to
	}
	out := Source{Commit: now.Commit, Apps: now.Apps, Clusters: map[string]ClusterSource{}}
	for _, name := range clusters {
		one := now.On(name)
		if have, ok := runs[name]; ok && slices.Contains(a.Stopped, name) {
			one = have
		}
		if len(a.Clusters) == 0 || slices.Contains(a.Clusters, name) {
			if len(a.Apps) == 0 {
				one = to.On(name)
			}
			for _, app := range a.Apps {
				one = one.with(app, to.On(name).Of(app))
			}
		}
		for _, app := range a.Keeps {
			one = one.with(app, now.On(name).Of(app))
		}
		out.Clusters[name] = one
	}
	return out.Among(clusters)
}

// KeptApps returns the apps that describe frozen clusters and that differ between two trees of the environment branch.
// A rollback leaves them as they are.
func KeptApps(s Situation, a, b string, members []string, read Contents) ([]string, error) {
	x, err := prepare(s)
	if err != nil || len(x.stay) == 0 {
		return nil, err
	}
	found := map[string]bool{}
	for _, cluster := range members {
		apps, err := differ(a, b, cluster, read)
		if err != nil {
			return nil, err
		}
		for _, app := range x.stay {
			found[app] = found[app] || apps[app]
		}
	}
	return slices.DeleteFunc(sorted(x.stay), func(app string) bool { return !found[app] }), nil
}
