package hydrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The scope of a custom kind decides whether its objects get the app's namespace. CustomResourceDefinitions of the
// whole environment define the scopes, so a definition that one target adds or removes can change the files of other
// targets.

// scopes returns the custom kinds that the environment defines after this run. It starts from the record of the
// branch, and reads all definitions only if one of them changes or disappears.
func (p *environmentPlan) scopes(ctx context.Context, store *gitstore.Store, outcomes []*render.Outcome) (branch.Kinds,
	error,
) {
	out := maps.Clone(p.state.Kinds)
	stale := len(p.left) > 0
	for _, c := range p.clusters {
		stale = stale || len(c.removed) > 0
	}
	for _, o := range outcomes {
		if o.Err != nil {
			continue
		}
		was, err := render.Definitions(ctx, store, o.Old)
		if err != nil {
			return nil, err
		}
		now := o.Defines()
		for kind, scope := range was {
			stale = stale || now[kind] != scope
		}
		maps.Copy(out, now)
	}
	if !stale || len(p.state.Kinds) == 0 {
		return out, nil
	}
	return p.rescan(ctx, store, outcomes)
}

// rescan collects the definitions of the kept targets and of the outcomes.
func (p *environmentPlan) rescan(ctx context.Context, store *gitstore.Store, outcomes []*render.Outcome) (branch.Kinds,
	error,
) {
	out := branch.Kinds{}
	seen := map[gitstore.Hash]bool{}
	replaced := map[[2]string]bool{}
	for _, o := range outcomes {
		replaced[[2]string{o.Target.Cluster.Name, o.Target.App.Name}] = true
		if o.Err == nil {
			maps.Copy(out, o.Defines())
		}
	}
	for name, c := range p.clusters {
		for _, app := range c.removed {
			replaced[[2]string{name, app}] = true
		}
	}
	for name, tree := range p.state.Clusters {
		if slices.Contains(p.left, name) {
			continue
		}
		apps, err := branch.Apps(ctx, store, tree)
		if err != nil {
			return nil, err
		}
		for _, app := range apps {
			if replaced[[2]string{name, app.Name}] || seen[app.Hash] {
				continue
			}
			seen[app.Hash] = true
			defined, err := render.Definitions(ctx, store, app.Hash)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, defined)
		}
	}
	return out, nil
}

// rescope renders again the kept targets that have objects of kinds whose scope changes.
func (h *Hydrator) rescope(ctx context.Context, p *environmentPlan, changed map[string]bool,
	w *gitstore.Writer,
) ([]*render.Outcome, error) {
	var jobs []render.Job
	for _, c := range p.view.Fleet.ClustersOf(p.name) {
		if p.state.Clusters[c.Name].IsZero() || c.State != "active" {
			continue
		}
		in, err := p.state.Recorded(h.Store, c.Name).All(ctx)
		if err != nil {
			return nil, err
		}
		for app, uses := range in.Scopes {
			if !slices.ContainsFunc(uses, func(kind string) bool { return changed[kind] }) {
				continue
			}
			j, err := p.rescopeJob(ctx, h.Store, c, app)
			if err != nil {
				return nil, err
			}
			if j != nil {
				jobs = append(jobs, *j)
			}
		}
	}
	return h.render(ctx, p.name, jobs, w)
}

// rescopeJob turns a kept target into a job. It returns nil for a target that is already in the plan or was removed.
func (p *environmentPlan) rescopeJob(ctx context.Context, store *gitstore.Store, c *fleet.Cluster,
	name string,
) (*render.Job, error) {
	app, ok := p.view.Fleet.App(name)
	if !ok || p.held.has(name) || !p.view.Fleet.Places(app, c) {
		return nil, nil //nolint:nilnil // not a target any more
	}
	plan := p.clusters[c.Name]
	if plan == nil {
		plan = &clusterPlan{cluster: c, inputs: p.state.Recorded(store, c.Name), changes: map[string]bool{}}
		p.clusters[c.Name] = plan
	}
	if plan.changes[name] {
		return nil, nil //nolint:nilnil // already in the plan
	}
	entry, err := store.Snapshot(ctx, p.state.Clusters[c.Name]).Entry(fleet.AppDir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // the branch records a digest and does not hold the tree
	}
	if err != nil {
		return nil, err
	}
	target, err := p.view.Target(fleet.Target{App: app, Cluster: c})
	if err != nil {
		return nil, err
	}
	plan.changes[name] = true
	return &render.Job{Target: target, Old: entry.Hash}, nil
}

// addNotes adds the notes of rendered targets and, once for the environment, a note that lists custom kinds without a
// known scope.
func (p *environmentPlan) addNotes(outcomes []*render.Outcome, scopes branch.Kinds) {
	unknown := map[string]bool{}
	for _, o := range outcomes {
		for _, n := range o.Notes() {
			p.notes.add(o.Target.Cluster.Name, o.Target.App.Name, n)
		}
		if t := o.Target.Imported(); t != nil {
			for _, file := range t.StandIns {
				p.notes.add(o.Target.Cluster.Name, o.Target.App.Name,
					fmt.Sprintf("it is rendered with the values of %s, which stand in for an object that is not in Git",
						file))
			}
		}
		for _, kind := range o.Assumes() {
			if k := branch.ParseKind(kind); scopes[k] == manifest.ScopeUnknown &&
				o.Target.Scope(k) == manifest.ScopeUnknown {
				unknown[kind] = true
			}
		}
	}
	if len(unknown) > 0 {
		p.notes.add("", "", fmt.Sprintf("%s treats custom kinds without a known scope as namespaced: %s; add their CustomResourceDefinitions, or name them in spec.kinds of sluice.yaml",
			p.name, strings.Join(slices.Sorted(maps.Keys(unknown)), ", ")))
	}
}
