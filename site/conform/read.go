package conform

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// Read lists the members of a fleet as the cluster branches hold them, and as the environment branches do where a
// rollout, a freeze or a halt explains at the time now why a cluster branch holds something else. unfilled are clusters
// that neither branch holds yet: they have no members. A record of an environment that cannot be read is an error.
func Read(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, now time.Time) (out []Member, unfilled []string,
	err error,
) {
	refs, err := h.Branches.List(ctx, f.BranchPrefixes()...)
	if err != nil {
		return nil, nil, err
	}
	var tips []gitstore.Hash
	for i := range f.Spec.Environments {
		if tip := refs[f.EnvironmentBranch(f.Spec.Environments[i].Name)]; !tip.IsZero() {
			tips = append(tips, tip)
		}
	}
	for _, c := range f.Clusters {
		if tip := refs[f.ClusterBranch(c)]; !tip.IsZero() && !c.Retired() {
			tips = append(tips, tip)
		}
	}
	if len(tips) > 0 {
		if err := h.Branches.Fetch(ctx, tips...); err != nil {
			return nil, nil, err
		}
	}
	r := &reader{ctx: ctx, h: h, fleet: f, now: now, states: map[string]*environment{}}
	for i := range f.Spec.Environments {
		name := f.Spec.Environments[i].Name
		one := &environment{follows: len(f.Spec.Environments[i].After) == 0}
		ref := f.EnvironmentBranch(name)
		if one.state, err = branch.ReadState(ctx, h.Store, ref, name, refs[ref], f.Signers()); err != nil {
			return nil, nil, err
		}
		r.states[name] = one
	}
	for _, c := range f.Clusters {
		if c.Retired() {
			continue
		}
		tip := refs[f.ClusterBranch(c)]
		if tip.IsZero() && r.states[c.Environment].state.Clusters[c.Name].IsZero() {
			unfilled = append(unfilled, c.Name)
			continue
		}
		list, err := r.members(c, tip)
		if err != nil {
			return nil, nil, fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		out = append(out, list...)
	}
	return out, unfilled, nil
}

type reader struct {
	ctx    context.Context //nolint:containedctx // a reader lives as long as one call of Read
	h      *hydrate.Hydrator
	fleet  *fleet.Fleet
	now    time.Time
	states map[string]*environment
}

// environment is an environment branch, with the record of its rollout once a cluster needs it.
type environment struct {
	state   *branch.State
	record  *rollout.Record
	follows bool // the trunk
}

func (r *reader) members(c *fleet.Cluster, tip gitstore.Hash) ([]Member, error) {
	var commit gitstore.Commit
	var err error
	if !tip.IsZero() {
		if commit, err = r.h.Store.Commit(r.ctx, tip); err != nil {
			return nil, err
		}
	}
	e := r.states[c.Environment]
	tree, source, like := commit.Tree, sourceOf(commit.Message), Member{}
	if desired := e.state.Clusters[c.Name]; tree != desired {
		if like.Waits, err = r.waits(e, c); err != nil {
			return nil, err
		}
		like.Foreign = !like.Waits
		if like.Waits {
			tree, source = desired, e.state.Source().On(c.Name)
		}
	}
	like.Foreign = like.Foreign || e.state.Foreign != ""
	if tree.IsZero() {
		return nil, nil
	}
	entries, err := branch.Apps(r.ctx, r.h.Store, tree)
	if err != nil {
		return nil, err
	}
	var out []Member
	for _, one := range entries {
		a, ok := r.fleet.App(one.Name)
		if !ok || one.Mode != gitstore.ModeTree {
			continue
		}
		m := like
		m.Target, m.Tree, m.Commit = fleet.Target{App: a, Cluster: c}, one.Hash, source.Of(one.Name)
		out = append(out, m)
	}
	return out, nil
}

// waits reports whether the record of an environment explains that a cluster branch does not hold what the environment
// branch does.
func (r *reader) waits(e *environment, c *fleet.Cluster) (bool, error) {
	if e.record == nil {
		record, err := promote.ReadRecord(r.ctx, r.h, c.Environment, r.fleet.Signers())
		if err != nil {
			return false, err
		}
		e.record = &record
	}
	if e.follows && e.record.Progress == nil && len(e.record.Freezes) == 0 && !c.Frozen() {
		return false, nil // hydration moves all clusters at once
	}
	tree := ""
	if e.state.Exists() {
		tree = e.state.Tip.Tree.String()
	}
	_, planned := rollout.BehindAsPlanned(*e.record, tree,
		rollout.Cluster{Name: c.Name, Labels: c.Labels, State: c.State}, r.now)
	return planned, nil
}

// sourceOf returns the source commits that a cluster branch was rendered from.
func sourceOf(message string) rollout.ClusterSource {
	out := rollout.ClusterSource{Commit: branch.Trailer(message, branch.TrailerSource), Apps: map[string]string{}}
	for _, t := range gitstore.Trailers(message) {
		if name, source, ok := strings.Cut(t.Value, " "); ok && t.Key == branch.TrailerAppSource {
			out.Apps[name] = source
		}
	}
	return out
}
