package promote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/rollout"
)

// appSet is a set of apps.
type appSet map[string]bool

func (s appSet) add(apps ...string) {
	for _, app := range apps {
		s[app] = true
	}
}

// scopeOfCommand returns the apps and workspaces that a command names.
func scopeOfCommand(c Command) rollout.Scope {
	return rollout.Scope{Apps: c.Apps, Workspaces: c.Workspaces}
}

// promotedApps returns the apps that a promotion is limited to; nil if it brings all of them. A workspace stands for
// its apps that the environment runs, that its record names or holds, and that the promoted source has. A promotion of
// a commit in which the files of the workspace have errors is refused, because it would silently leave apps out.
func (l *commands) promotedApps(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation,
	source rollout.Source,
) ([]string, error) {
	scope := scopeOfCommand(c)
	if scope.All() {
		return nil, nil
	}
	apps, err := l.recorded(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, w := range c.Workspaces {
		for _, part := range source.Entries(clusterNames(s)) {
			has, err := l.taken(ctx, e, w, part)
			if err != nil {
				return nil, err
			}
			apps.add(has...)
		}
	}
	known := placed(e.Name, l.fleet)
	scope.Apps = l.everyDescribed(scope.Apps, apps, known)
	return expand(e.Name, scope, apps, known, "and none in the promoted commits")
}

// everyDescribed replaces the names of apps with forEach by those of all described clusters, also of such that only the
// environment has.
func (l *commands) everyDescribed(names []string, sets ...appSet) []string {
	var out []string
	for _, name := range names {
		repeats := slices.ContainsFunc(l.fleet.Declared(), func(a *fleet.App) bool { return a.Name == name && a.Spec.ForEach != nil })
		some := false
		for _, apps := range sets {
			for app := range apps {
				if a, ok := l.fleet.App(app); repeats && (ok && a.Declared() == name || !ok && strings.HasPrefix(app, name+".")) {
					out, some = append(out, app), true
				}
			}
		}
		if !some {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// taken returns the apps of a workspace that one entry of a source brings to an environment.
func (l *commands) taken(ctx context.Context, e fleet.Environment, workspace string,
	part rollout.ClusterSource,
) ([]string, error) {
	own, err := l.workspaceAt(ctx, e, workspace, part.Commit)
	if err != nil {
		return nil, err
	}
	out := rollout.Scope{Workspaces: []string{workspace}}.Taken(part)
	checked := appSet{}
	for _, app := range out {
		commit := part.Of(app)
		if checked[commit] {
			continue
		}
		checked.add(commit)
		if at, err := l.workspaceAt(ctx, e, workspace, commit); err != nil || at.broken != nil {
			return nil, errors.Join(err, at.broken)
		}
	}
	if part.Elsewhere(workspace, own.apps) {
		return out, nil
	}
	return append(out, own.placed...), own.broken
}

// workspaceAt is what a source commit has of a workspace.
type workspaceAt struct {
	apps   []string
	placed []string // those that the environment has
	broken error    // why the workspace cannot be read
}

// workspaceKey is a workspace at a source commit, for an environment.
type workspaceKey struct{ environment, workspace, commit string }

// workspaceAt reads a workspace at a commit, once for each environment.
func (l *commands) workspaceAt(ctx context.Context, e fleet.Environment, workspace, commit string) (workspaceAt,
	error,
) {
	key := workspaceKey{e.Name, workspace, commit}
	if known, ok := l.workspaces[key]; ok {
		return known, nil
	}
	at, ok := l.trunk.commits[commit]
	if !ok {
		return workspaceAt{}, fmt.Errorf("%.10s is not on the known part of the trunk, so the apps that it has in %s are unknown", commit, workspace)
	}
	f, _, err := l.hydrator.Fleet(ctx, at.Tree)
	if err != nil {
		return workspaceAt{}, err
	}
	var out workspaceAt
	here := placed(e.Name, f)
	for _, a := range f.Apps {
		if fleet.WorkspaceOf(a.Name) != workspace {
			continue
		}
		out.apps = append(out.apps, a.Name)
		if here[a.Name] {
			out.placed = append(out.placed, a.Name)
		}
	}
	if w, ok := f.Workspace(workspace); ok && w.Err != nil {
		out.broken = fmt.Errorf("workspace %s cannot be promoted from %.10s: %w", workspace, commit, w.Err)
	}
	l.workspaces[key] = out
	return out, nil
}

// resumedApps returns the apps that a `resume` is limited to; nil if it has no limit. A workspace stands for all of its
// apps, also for held ones that neither the trunk nor the environment has any more.
func (l *commands) resumedApps(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation) ([]string,
	error,
) {
	scope := scopeOfCommand(c)
	if scope.All() {
		return nil, nil
	}
	apps, err := l.recorded(ctx, s)
	if err != nil {
		return nil, err
	}
	maps.Copy(apps, placed(e.Name, l.fleet))
	return expand(e.Name, scope, apps, nil, "and no held app")
}

// restoredApps returns the apps that a rollback to a tree is limited to; nil if all go back. A workspace stands for its
// apps that the environment runs, which go back or disappear, and those that the tree has, which a promotion may have
// removed.
func (l *commands) restoredApps(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation,
	tree string,
) ([]string, error) {
	scope := scopeOfCommand(c)
	if scope.All() {
		return nil, nil
	}
	apps := appSet{}
	for _, t := range []string{s.Running.Tree, tree} {
		if err := l.addTree(ctx, e.Name, t, apps); err != nil {
			return nil, err
		}
	}
	return expand(e.Name, scope, apps, placed(e.Name, l.fleet),
		"and none in the state to restore (choose another state of `sluice history "+e.Name+"` with --to)")
}

// orUnknown replaces the error of a rollback if the command names apps or workspaces that do not exist: a misspelt name
// has no earlier state.
func (l *commands) orUnknown(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation,
	err error,
) error {
	apps, other := l.recorded(ctx, s)
	if other != nil {
		return err // the first error is the one to report
	}
	if _, unknown := expand(e.Name, scopeOfCommand(c), apps, placed(e.Name, l.fleet),
		"and had none in an earlier state"); unknown != nil {
		return unknown
	}
	return err
}

// recorded returns the apps that an environment runs, and those that its record names: with a source commit, or held
// back.
func (l *commands) recorded(ctx context.Context, s *rollout.Situation) (appSet, error) {
	apps := appSet{}
	apps.add(s.Running.Source.Exceptions()...)
	for _, h := range s.Record.Holds {
		apps.add(h.Apps...)
	}
	return apps, l.addTree(ctx, s.Environment.Name, s.Running.Tree, apps)
}

// addTree adds the apps of a tree of an environment branch.
func (l *commands) addTree(ctx context.Context, environment, tree string, apps appSet) error {
	if tree == "" {
		return nil
	}
	read := l.past[environment].read(ctx)
	for _, cluster := range l.states[environment].ClusterNames() {
		has, err := read(tree, cluster)
		if err != nil {
			return err
		}
		apps.add(slices.Collect(maps.Keys(has))...)
	}
	return nil
}

// placed returns the apps that a fleet has for an environment.
func placed(environment string, f *fleet.Fleet) appSet {
	out := appSet{}
	for _, cluster := range f.ClustersOf(environment) {
		for _, t := range f.TargetsOf(cluster) {
			out.add(t.App.Name)
		}
	}
	return out
}

func clusterNames(s *rollout.Situation) []string {
	out := make([]string, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		out = append(out, c.Name)
	}
	return out
}

// workspacesOf returns the workspaces that have some of the apps, sorted.
func workspacesOf(sets ...appSet) []string {
	out := appSet{}
	for _, apps := range sets {
		for app := range apps {
			if w := fleet.WorkspaceOf(app); w != "" {
				out.add(w)
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// expand returns the apps of a scope: those that it names, and those of its workspaces among apps. It refuses a name
// that neither apps nor known has, so that a misspelt name does not look like success. nor ends the error: it says
// where else no such app was found.
func expand(environment string, scope rollout.Scope, apps, known appSet, nor string) ([]string, error) {
	for _, app := range scope.Apps {
		if !apps[app] && !known[app] {
			either := appSet{}
			maps.Copy(either, apps)
			maps.Copy(either, known)
			for _, one := range slices.Sorted(maps.Keys(either)) {
				if strings.HasPrefix(one, app+".") {
					return nil, fmt.Errorf("app %s has one app for each cluster that it describes: name one of them, such as %s", app, one)
				}
			}
			return nil, fmt.Errorf("no cluster of %s has an app %q%s", environment, app,
				instead(app, environment, slices.Sorted(maps.Keys(either))))
		}
	}
	all := slices.Sorted(maps.Keys(apps))
	if w := scope.Missing(all); w != "" {
		return nil, fmt.Errorf("workspace %q has no app on %s, %s%s", w, environment, nor,
			nearest.DidYouMean(w, workspacesOf(apps, known)))
	}
	out := append(slices.Clone(scope.Apps), slices.DeleteFunc(all,
		func(app string) bool { return !scope.InWorkspace(app) })...)
	slices.Sort(out)
	return slices.Compact(out), nil
}
