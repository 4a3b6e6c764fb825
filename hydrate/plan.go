package hydrate

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// environmentPlan lists the changes to one environment.
type environmentPlan struct {
	name     string
	view     *source.View
	state    *branch.State
	clusters map[string]*clusterPlan // clusters that may change
	left     []string                // clusters of the branch that the environment no longer has
	total    int                     // targets of the clusters that are neither frozen nor retired
	before   *fleet.Fleet            // of the commit that the branch holds; nil if it is not needed, or cannot be read
	failures []Failure
	notes    notes
	held     holds // workspaces that keep what the branch has
}

// clusterPlan lists the changes to one cluster.
type clusterPlan struct {
	cluster *fleet.Cluster
	only    []string         // apps that may have changed; nil for all
	inputs  *branch.Recorded // on the branch
	jobs    []render.Job
	// apps that are rendered, removed or failed; the tree of every other app on the branch is reused
	changes map[string]bool
	removed []string // apps to remove
}

// planRequest is the input of plan.
type planRequest struct {
	view        *source.View
	environment string
	state       *branch.State
	touched     *source.Touched // what may have changed since the branch was written
	all         bool            // render every target, even if the branch has its digest
	held        holds           // workspaces that keep what the branch has
}

// plan compares an environment's targets with what its branch holds.
func (h *Hydrator) plan(ctx context.Context, r planRequest) (*environmentPlan, error) {
	p := &environmentPlan{
		name: r.environment, view: r.view, state: r.state, clusters: map[string]*clusterPlan{},
		notes: notes{}, held: r.held,
	}
	clusters := r.view.Fleet.ClustersOf(r.environment)
	present, listed := make(map[string]bool, len(clusters)), branch.WorkspaceReader{}
	for _, c := range clusters {
		if c.Retired() {
			continue
		}
		present[c.Name] = true
		if c.Frozen() {
			continue
		}
		for _, a := range r.view.Fleet.Apps {
			if r.view.Fleet.Places(a, c) {
				p.total++
			}
		}
		lacking, err := p.lacksWorkspace(ctx, h.Store, c, &listed)
		if err != nil {
			return nil, err
		}
		switch {
		case r.touched.All || r.touched.Clusters[c.Name] || lacking:
			p.clusters[c.Name] = &clusterPlan{cluster: c, changes: map[string]bool{}}
		case len(r.touched.Apps[c.Name]) > 0:
			p.clusters[c.Name] = &clusterPlan{cluster: c, changes: map[string]bool{}, only: r.touched.Apps[c.Name]}
		}
	}
	for c := range r.state.Clusters {
		if !present[c] {
			p.left = append(p.left, c)
		}
	}
	slices.Sort(p.left)
	if r.view.Fleet.Uncertain() && r.state.Exists() {
		p.before = h.Rendered(ctx, r.state)
	}
	if err := p.planClusters(ctx, h.Store, r.all); err != nil {
		return nil, err
	}
	sortFailures(p.failures)
	return p, nil
}

// lacksWorkspace reports whether the branch has nothing of a cluster, or nothing of a workspace with targets there. The
// repository of such a workspace could not be read when the branch was written, so no change of the fleet since then
// tells of the workspace.
func (p *environmentPlan) lacksWorkspace(ctx context.Context, store *gitstore.Store, c *fleet.Cluster,
	listed *branch.WorkspaceReader,
) (bool, error) {
	tree := p.state.Clusters[c.Name]
	if tree.IsZero() {
		return true, nil
	}
	if len(p.view.Fleet.Workspaces) == 0 {
		return false, nil
	}
	has, err := listed.Read(ctx, store, tree)
	if err != nil {
		return false, err
	}
	for _, w := range p.view.Fleet.Workspaces {
		if w.Err != nil || has[w.Name] || p.held[w.Name] != nil || !w.Reaches(c) {
			continue
		}
		if slices.ContainsFunc(p.view.Fleet.Apps, func(a *fleet.App) bool {
			return a.Workspace() == w &&
				p.view.Fleet.Places(a, c)
		}) {
			return true, nil
		}
	}
	return false, nil
}

// planClusters plans all clusters.
func (p *environmentPlan) planClusters(ctx context.Context, store *gitstore.Store, all bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	for _, c := range p.clusters {
		group.Go(func() error {
			failures, err := p.planCluster(ctx, store, c, all)
			failures = append(failures, p.lost(c)...)
			mu.Lock()
			p.failures = append(p.failures, failures...)
			mu.Unlock()
			return err
		})
	}
	return group.Wait()
}

// planCluster divides a cluster's targets into those to render and those to keep. It modifies only c.
func (p *environmentPlan) planCluster(ctx context.Context, store *gitstore.Store, c *clusterPlan, all bool) ([]Failure,
	error,
) {
	c.inputs = p.state.Recorded(store, c.cluster.Name)
	targets, trees, err := p.candidates(ctx, store, c)
	if err != nil {
		return nil, err
	}
	var failures []Failure
	placed := map[string]bool{}
	for _, t := range targets {
		name := t.App.Name
		if p.held.has(name) {
			continue
		}
		placed[name] = true
		target, err := p.view.Target(t)
		if err != nil {
			c.changes[name] = true
			failures = append(failures, NewFailure(p.name, t, err))
			continue
		}
		digest, err := c.inputs.Digest(ctx, name)
		if err != nil {
			return nil, err
		}
		old := trees[name]
		if !all && digest == target.Digest && !old.IsZero() {
			continue
		}
		c.changes[name] = true
		c.jobs = append(c.jobs, render.Job{Target: target, Old: old})
	}
	for app := range trees {
		if !placed[app] && !p.held.has(app) {
			c.changes[app] = true
			c.removed = append(c.removed, app)
		}
	}
	slices.Sort(c.removed)
	return failures, ctx.Err()
}

// candidates returns the targets of a cluster that may have changed, and the trees of the apps that the branch has of
// them.
func (p *environmentPlan) candidates(ctx context.Context, store *gitstore.Store, c *clusterPlan) ([]fleet.Target,
	map[string]gitstore.Hash, error,
) {
	trees := map[string]gitstore.Hash{}
	tree := p.state.Clusters[c.cluster.Name]
	if c.only == nil {
		if !tree.IsZero() {
			entries, err := branch.Apps(ctx, store, tree)
			if err != nil {
				return nil, nil, err
			}
			for _, e := range entries {
				trees[e.Name] = e.Hash
			}
		}
		// A digest without a tree is of an app that the cluster does not have.
		if err := c.inputs.Retain(ctx, func(app string) bool { return !trees[app].IsZero() }); err != nil {
			return nil, nil, err
		}
		return p.view.Fleet.TargetsOf(c.cluster), trees, nil
	}
	var targets []fleet.Target
	for _, name := range c.only {
		if app, ok := p.view.Fleet.App(name); ok && p.view.Fleet.Places(app, c.cluster) {
			targets = append(targets, fleet.Target{App: app, Cluster: c.cluster})
		}
		switch entry, err := store.Snapshot(ctx, tree).Entry(fleet.AppDir(name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, nil, err
		default:
			trees[name] = entry.Hash
		}
	}
	return targets, trees, nil
}

// lost returns a failure for each app of the branch that the source commit may have although it does not list it.
func (p *environmentPlan) lost(c *clusterPlan) []Failure {
	var out []Failure
	for _, app := range c.removed {
		if err := p.view.Fleet.Lost(p.before, c.cluster.Name, app); err != nil {
			out = append(out, NewFailure(p.name, fleet.Target{App: &fleet.App{Name: app}, Cluster: c.cluster}, err))
		}
	}
	return out
}

// Rendered returns the fleet of the source commit that a branch holds; nil if it cannot be read.
func (h *Hydrator) Rendered(ctx context.Context, st *branch.State) *fleet.Fleet {
	hash, err := gitstore.ParseHash(st.Record.Source)
	if err != nil {
		return nil
	}
	commit, err := h.Store.Commit(ctx, hash)
	if err != nil {
		return nil
	}
	v, err := h.sources.Open(ctx, commit.Tree)
	if err != nil {
		return nil
	}
	return v.Fleet
}

// jobs returns the jobs of all clusters, sorted.
func (p *environmentPlan) jobs() []render.Job {
	var out []render.Job
	for _, c := range p.clusters {
		out = append(out, c.jobs...)
	}
	render.Sort(out)
	return out
}

// touchedSince returns what the change from a source commit to the view can affect. That is everything if it cannot
// read the commit, or if the fleet of the commit is invalid: planning everything is slower and has the same result.
func (h *Hydrator) touchedSince(ctx context.Context, from string, v *source.View) (*source.Touched, error) {
	everything := &source.Touched{All: true}
	hash, err := gitstore.ParseHash(from)
	if err != nil { // no record
		return everything, nil //nolint:nilerr // as above
	}
	base, err := h.Store.Commit(ctx, hash)
	if err != nil {
		return everything, ctx.Err()
	}
	touched, err := h.sources.Touched(ctx, base.Tree, v)
	if _, invalid := errors.AsType[fleet.Problems](err); invalid {
		return everything, nil
	}
	return touched, err
}
