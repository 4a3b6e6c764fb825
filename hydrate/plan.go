package hydrate

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
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
	inputs  branch.Inputs // recorded on the branch
	jobs    []render.Job
	keep    map[string]string // app → digest, for apps whose tree on the branch is reused
	removed []string          // apps to remove
}

// planRequest is the input of plan.
type planRequest struct {
	view        *source.View
	environment string
	state       *branch.State
	touched     map[string]bool // clusters that may have changed; nil for all
	all         bool            // render every target, even if the branch has its digest
	held        holds           // workspaces that keep what the branch has
}

// plan compares an environment's targets with what its branch holds.
func (h *Hydrator) plan(ctx context.Context, r planRequest) (*environmentPlan, error) {
	p := &environmentPlan{name: r.environment, view: r.view, state: r.state, clusters: map[string]*clusterPlan{}, notes: notes{}, held: r.held}
	present := map[string]bool{}
	for _, c := range r.view.Fleet.ClustersOf(r.environment) {
		if c.State == "retired" {
			continue
		}
		present[c.Name] = true
		if c.State == "frozen" {
			continue
		}
		p.total += len(r.view.Fleet.TargetsOf(c))
		if r.touched == nil || r.touched[c.Name] || r.state.Clusters[c.Name].IsZero() {
			p.clusters[c.Name] = &clusterPlan{cluster: c, keep: map[string]string{}}
		}
	}
	for _, c := range r.state.ClusterNames() {
		if !present[c] {
			p.left = append(p.left, c)
		}
	}
	if r.view.Fleet.Uncertain() && r.state.Exists() {
		p.before = h.Rendered(ctx, r.state)
	}
	if err := p.planClusters(ctx, h.Store, r.all); err != nil {
		return nil, err
	}
	sortFailures(p.failures)
	return p, nil
}

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
func (p *environmentPlan) planCluster(ctx context.Context, store *gitstore.Store, c *clusterPlan, all bool) ([]Failure, error) {
	var err error
	if c.inputs, err = branch.ReadInputs(ctx, store, p.state.Inputs[c.cluster.Name]); err != nil {
		return nil, err
	}
	trees := map[string]gitstore.Hash{}
	if tree := p.state.Clusters[c.cluster.Name]; !tree.IsZero() {
		entries, err := branch.Apps(ctx, store, tree)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			trees[e.Name] = e.Hash
		}
	}
	var failures []Failure
	placed := map[string]bool{}
	for _, t := range p.view.Fleet.TargetsOf(c.cluster) {
		if p.held.has(t.App.Name) {
			continue
		}
		placed[t.App.Name] = true
		target, err := p.view.Target(t)
		if err != nil {
			failures = append(failures, NewFailure(p.name, t, err))
			continue
		}
		old := trees[t.App.Name]
		if !all && c.inputs.Apps[t.App.Name] == target.Digest && !old.IsZero() {
			c.keep[t.App.Name] = target.Digest
			continue
		}
		c.jobs = append(c.jobs, render.Job{Target: target, Old: old})
	}
	for app := range trees {
		switch {
		case p.held.has(app):
			c.keep[app] = c.inputs.Apps[app]
		case !placed[app]:
			c.removed = append(c.removed, app)
		}
	}
	slices.Sort(c.removed)
	return failures, ctx.Err()
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

// jobs returns the jobs of all clusters. Jobs of one app are adjacent, because they share a chart.
func (p *environmentPlan) jobs() []render.Job {
	var out []render.Job
	for _, c := range p.clusters {
		out = append(out, c.jobs...)
	}
	slices.SortFunc(out, func(a, b render.Job) int {
		return cmp.Or(strings.Compare(a.Target.App.Name, b.Target.App.Name), strings.Compare(a.Target.Cluster.Name, b.Target.Cluster.Name))
	})
	return out
}

// touchedSince returns the clusters that the change from a source commit to the view can affect. It returns nil,
// which means all clusters, if it cannot read that commit or its fleet is invalid.
func (h *Hydrator) touchedSince(ctx context.Context, from string, v *source.View) (map[string]bool, error) {
	hash, err := gitstore.ParseHash(from)
	if err != nil {
		return nil, nil //nolint:nilerr // no record: plan every cluster
	}
	base, err := h.Store.Commit(ctx, hash)
	if err != nil { // whatever the error: planning every cluster is slower and gives the same result
		return nil, ctx.Err()
	}
	touched, err := h.sources.TouchedClusters(ctx, base.Tree, v)
	if _, invalid := errors.AsType[fleet.Problems](err); invalid {
		return nil, nil
	}
	return touched, err
}
