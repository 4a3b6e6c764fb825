package promotion

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// checkPromotion refuses a promotion that would change nothing.
func checkPromotion(c Command, source promote.Source, s *promote.Situation) error {
	if c.Revision == "" || !promote.Contains(s.Trunk, s.Running.Source, source, c.Apps) {
		return nil
	}
	if p := s.Record.Progress; c.Now && p != nil && p.Done.IsZero() {
		return nil // it expedites the rollout under way
	}
	return fmt.Errorf("%s runs %s, which contains %.10s already; to go back to it, roll back with --to %.10s", c.Environment, s.Running.Source, source.Commit, source.Commit)
}

// waveMembers returns the clusters of a wave by its name.
func waveMembers(e fleet.Environment, name string, s *promote.Situation) ([]string, error) {
	members := make([]promote.Cluster, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		members = append(members, c.Cluster)
	}
	waves, err := promote.Waves(e, members)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(waves))
	for _, w := range waves {
		if w.Name == name && len(w.Clusters()) > 0 {
			return w.Clusters(), nil
		}
		names = append(names, w.Name)
	}
	return nil, fmt.Errorf("%s has no wave %q with clusters: its waves are %s", e.Name, name, strings.Join(names, ", "))
}

// checkNames refuses apps and clusters that the environment does not have, so that a misspelt name does not look like success.
func (l *commands) checkNames(ctx context.Context, e fleet.Environment, c Command) error {
	f := l.fleet
	for _, name := range c.Clusters {
		cluster, ok := f.Cluster(name)
		switch {
		case !ok:
			return fmt.Errorf("the fleet has no cluster %q", name)
		case cluster.Environment != e.Name:
			return fmt.Errorf("cluster %s belongs to %s, not to %s", name, cluster.Environment, e.Name)
		}
	}
	if len(c.Apps) == 0 {
		return nil
	}
	known, err := l.apps(ctx, e.Name, f)
	if err != nil {
		return err
	}
	for _, app := range c.Apps {
		if !known[app] {
			return fmt.Errorf("no cluster of %s has an app %q", e.Name, app)
		}
	}
	return nil
}

// apps returns the apps of an environment: those that a fleet has for it, and those that it runs, which the fleet may no longer have.
func (s *snapshot) apps(ctx context.Context, environment string, f *fleet.Fleet) (map[string]bool, error) {
	known := map[string]bool{}
	for _, cluster := range f.ClustersOf(environment) {
		for _, t := range f.TargetsOf(cluster) {
			known[t.App.Name] = true
		}
	}
	for _, tree := range s.states[environment].Clusters {
		entries, err := branch.Apps(ctx, s.hydrator.Store, tree)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			known[entry.Name] = true
		}
	}
	return known, nil
}

// appsOfWorkspaces returns the apps of the workspaces that a command names: those that the environment runs and those that the trunk or
// the promoted commits have for it. A promotion of a commit in which the files of the workspace have errors is refused, because it would
// silently leave apps out.
func (l *commands) appsOfWorkspaces(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation) ([]string, error) {
	fleets := []*fleet.Fleet{l.fleet}
	if c.Kind == promote.EventPromote {
		promoted, err := l.promotedFleets(ctx, c, s)
		if err != nil {
			return nil, err
		}
		fleets = append(fleets, promoted...)
	}
	found, missing := []string{}, slices.Clone(c.Workspaces)
	for _, f := range fleets {
		known, err := l.apps(ctx, e.Name, f)
		if err != nil {
			return nil, err
		}
		for app := range known {
			if w := fleet.WorkspaceOf(app); w != "" && slices.Contains(c.Workspaces, w) {
				found = append(found, app)
				missing = slices.DeleteFunc(missing, func(m string) bool { return m == w })
			}
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no cluster of %s has an app of a workspace %q", e.Name, missing[0])
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// promotedFleets returns the fleets of the commits that a promotion of workspaces brings.
func (l *commands) promotedFleets(ctx context.Context, c Command, s *promote.Situation) ([]*fleet.Fleet, error) {
	source, err := l.source(c, s)
	if err != nil {
		return nil, err
	}
	var out []*fleet.Fleet
	for _, id := range source.Commits() {
		commit, ok := l.trunk.commits[id]
		if !ok {
			return nil, fmt.Errorf("%.10s is not on the known part of the trunk, so the apps that it has in %s are unknown", id, strings.Join(c.Workspaces, ", "))
		}
		f, _, err := l.hydrator.Fleet(ctx, commit.Tree)
		if err != nil {
			return nil, err
		}
		for _, name := range c.Workspaces {
			if w, ok := f.Workspace(name); ok && w.Err != nil {
				return nil, fmt.Errorf("workspace %s cannot be promoted from %.10s: %w", name, id, w.Err)
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// checkRollback refuses a rollback of clusters that did not exist in that state, since it would empty them, and a rollback
// whose clusters are all frozen.
func (l *commands) checkRollback(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation, tree string) error {
	if len(c.Clusters) == 0 {
		return nil
	}
	hash, err := gitstore.ParseHash(tree)
	if err != nil {
		return err
	}
	old, err := l.past[e.Name].state(ctx, hash)
	if err != nil {
		return err
	}
	frozen := 0
	for _, name := range c.Clusters {
		if old.Clusters[name].IsZero() {
			return fmt.Errorf("cluster %s did not exist in that state of %s: name a later one with --to (`sluice history %s` lists them)", name, e.Name, e.Name)
		}
		held := slices.ContainsFunc(s.Record.Freezes, func(f promote.Freeze) bool { return f.Target == name && f.Holds(l.request.Now) })
		if cluster, ok := l.fleet.Cluster(name); held || ok && cluster.State == "frozen" {
			frozen++
		}
	}
	if frozen == len(c.Clusters) {
		return fmt.Errorf("%s is frozen: unfreeze it first", strings.Join(c.Clusters, ", "))
	}
	return nil
}

// checkStopped refuses a rollback that would stop clusters on trees that no state of the environment has: the record could not
// name the source commits of these trees.
func (l *commands) checkStopped(ctx context.Context, environment string, stopped []string, s *promote.Situation) error {
	for _, c := range s.Clusters {
		if !slices.Contains(stopped, c.Name) {
			continue
		}
		tree, err := gitstore.ParseHash(c.Tree)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		if _, err := l.past[environment].with(ctx, c.Name, tree); err != nil {
			return fmt.Errorf("%w: roll back the whole environment", err)
		}
	}
	return nil
}
