package hydrate

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// job is a target to render.
type job struct {
	target fleet.Target
	digest string
	old    gitstore.Hash // the target's tree on the branch, zero if there is none
}

// environmentPlan is what has to be done for one environment.
type environmentPlan struct {
	name     string
	view     *view
	state    *branch.State
	clusters map[string]*clusterPlan // those that are touched
	left     []string                // clusters of the branch that are not the environment's any more
	total    int                     // targets of clusters that are neither frozen nor retired
	failures []Failure
	unknown  map[string]bool // custom kinds whose scope nothing tells
}

// clusterPlan is what has to be done for one cluster.
type clusterPlan struct {
	cluster *fleet.Cluster
	inputs  branch.Inputs // as the branch has them
	jobs    []job
	keep    map[string]string // app → digest, taken as they are
	removed []string          // apps
}

// plan compares an environment's targets with what its branch holds. Without base, or with all, every target's digest
// is looked at; with it, only those that a change since base can touch.
func (h *Hydrator) plan(ctx context.Context, v *view, name string, st *branch.State, base *diffBase, all bool) (*environmentPlan, error) {
	p := &environmentPlan{name: name, view: v, state: st, clusters: map[string]*clusterPlan{}, unknown: map[string]bool{}}
	wanted := map[string]bool{}
	for _, c := range v.fleet.ClustersOf(name) {
		if c.State == "retired" {
			continue
		}
		wanted[c.Name] = true
		if c.State == "frozen" {
			continue
		}
		p.total += len(v.fleet.TargetsOf(c))
		if base == nil || base.touched[c.Name] || st.Clusters[c.Name].IsZero() {
			p.clusters[c.Name] = &clusterPlan{cluster: c, keep: map[string]string{}}
		}
	}
	for _, c := range st.ClusterNames() {
		if !wanted[c] {
			p.left = append(p.left, c)
		}
	}
	if err := h.planClusters(ctx, p, all); err != nil {
		return nil, err
	}
	slices.SortFunc(p.failures, func(a, b Failure) int { return compareTargets(a.Cluster, a.App, b.Cluster, b.App) })
	return p, nil
}

func (h *Hydrator) planClusters(ctx context.Context, p *environmentPlan, all bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	for _, c := range p.clusters {
		group.Go(func() error {
			failures, err := h.planCluster(ctx, p, c, all)
			mu.Lock()
			p.failures = append(p.failures, failures...)
			mu.Unlock()
			return err
		})
	}
	return group.Wait()
}

func (h *Hydrator) planCluster(ctx context.Context, p *environmentPlan, c *clusterPlan, all bool) ([]Failure, error) {
	var err error
	if c.inputs, err = branch.ReadInputs(ctx, h.store, p.state.Inputs[c.cluster.Name]); err != nil {
		return nil, err
	}
	trees := map[string]gitstore.Hash{}
	if tree := p.state.Clusters[c.cluster.Name]; !tree.IsZero() {
		entries, err := h.store.Tree(ctx, tree)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			trees[e.Name] = e.Hash
		}
	}
	var failures []Failure
	wanted := map[string]bool{}
	for _, t := range p.view.fleet.TargetsOf(c.cluster) {
		wanted[t.App.Name] = true
		digest, err := p.view.digest(t)
		if err != nil {
			failures = append(failures, failure(p.name, t, err))
			continue
		}
		old := trees[t.App.Name]
		if !all && c.inputs.Apps[t.App.Name] == digest && !old.IsZero() {
			c.keep[t.App.Name] = digest
			continue
		}
		c.jobs = append(c.jobs, job{target: t, digest: digest, old: old})
	}
	for app := range trees {
		if !wanted[app] {
			c.removed = append(c.removed, app)
		}
	}
	slices.Sort(c.removed)
	return failures, ctx.Err()
}

func failure(environment string, t fleet.Target, err error) Failure {
	return Failure{Environment: environment, Cluster: t.Cluster.Name, App: t.App.Name, Message: err.Error()}
}

// diffBase is what changed since the commit that a branch was rendered from.
type diffBase struct {
	touched map[string]bool // clusters with a target that the change can touch
}

// changesSince finds the clusters that a change can touch. It is nil, and everything is looked at, if the earlier commit
// cannot be read or is no fleet.
func (h *Hydrator) changesSince(ctx context.Context, from string, head gitstore.Commit, v *view) (*diffBase, error) {
	hash, err := gitstore.ParseHash(from)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // no record: everything is looked at
	}
	base, err := h.store.Commit(ctx, hash)
	if err != nil {
		return nil, ctx.Err() //nolint:nilnil // not in this clone: everything is looked at
	}
	affected, err := h.affected(ctx, base.Tree, head.Tree, v)
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return nil, nil //nolint:nilnil // the earlier commit is no fleet
	}
	if err != nil {
		return nil, err
	}
	out := &diffBase{touched: map[string]bool{}}
	for _, a := range affected {
		out.touched[a.Cluster] = true
	}
	return out, nil
}

func (h *Hydrator) affected(ctx context.Context, base, head gitstore.Hash, v *view) ([]fleet.AffectedTarget, error) {
	if base == head {
		return nil, nil
	}
	before, err := h.open(ctx, base)
	if err != nil {
		return nil, err
	}
	changes, err := h.store.Changes(ctx, base, head)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	reach := func(f *fleet.Fleet, s fleet.Source) []string {
		if f == before.fleet {
			return before.sources.reach(s)
		}
		return v.sources.reach(s)
	}
	return fleet.Affected(before.fleet, v.fleet, paths, reach), nil
}

// Affected names the targets that the change from one tree to another can touch, from tree objects alone.
func (h *Hydrator) Affected(ctx context.Context, base, head gitstore.Hash) ([]fleet.AffectedTarget, error) {
	v, err := h.open(ctx, head)
	if err != nil {
		return nil, err
	}
	return h.affected(ctx, base, head, v)
}

func compareTargets(c1, a1, c2, a2 string) int {
	if c1 != c2 {
		if c1 < c2 {
			return -1
		}
		return 1
	}
	if a1 < a2 {
		return -1
	}
	if a1 > a2 {
		return 1
	}
	return 0
}
