package promotion

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// rollback brings back an earlier state: of the environment, of clusters or of apps. The clusters move at once.
func (p *promotion) rollback(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	st := p.states[e.Name]
	old, err := p.stateOf(ctx, e.Name, a.Tree)
	if err != nil {
		return err
	}
	w, err := p.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	tree, source := old.Tip.Tree, a.Source
	clusters := a.Clusters
	if len(a.Clusters)+len(a.Apps) > 0 {
		if tree, source, err = p.partly(ctx, e, a, old, w); err != nil {
			return err
		}
	}
	after, err := branch.ReadTree(ctx, p.h.Store, tree)
	if err != nil {
		return err
	}
	if len(a.Clusters) == 0 {
		clusters = p.affectedClusters(ctx, e.Name, after)
	}
	what := a
	what.Source, what.Clusters = source, clusters
	trailers := p.trailers(e, what)
	hash, err := p.commit(w, tree, st.Tip.Hash, p.r.Trunk, message{fmt.Sprintf("Roll %s back to %s", e.Name, source), a.Reason, trailers})
	if err != nil {
		return err
	}
	moves, err := p.clusterMoves(ctx, e, what, moving{after.Clusters, w}, out)
	if err != nil {
		return err
	}
	if tree != st.Tip.Tree {
		moves = append(moves, gitstore.Move{Branch: st.Branch, Old: st.Tip.Hash, New: hash})
	}
	if err := p.push(ctx, w, moves); err != nil {
		return err
	}
	out.Done = append(out.Done, fmt.Sprintf("%s is back at %s", e.Name, source))
	event := promote.Event{Kind: promote.EventRolledBack, At: p.r.Now}
	if len(a.Clusters)+len(a.Apps) > 0 {
		event.Tree, event.Source = tree.String(), source
	}
	before := p.records[e.Name]
	next, err := promote.Apply(before, event)
	if err != nil {
		return err
	}
	p.records[e.Name] = next
	return p.store(ctx, before, next, false, e.Name)
}

// affectedClusters are those whose branch is not what a state says, but for frozen ones.
func (p *promotion) affectedClusters(ctx context.Context, environment string, after *branch.State) []string {
	var out []string
	frozen := map[string]bool{}
	for _, f := range p.records[environment].Freezes {
		if f.Holds(p.r.Now) {
			frozen[f.Target] = true
		}
	}
	for _, c := range p.fleet.ClustersOf(environment) {
		tip, err := p.h.Store.Commit(ctx, p.refs[p.fleet.ClusterBranch(c)])
		if c.State == "frozen" || c.State == "retired" || frozen[c.Name] || after.Clusters[c.Name].IsZero() || err == nil && tip.Tree == after.Clusters[c.Name] {
			continue
		}
		out = append(out, c.Name)
	}
	return out
}

// partly takes some clusters or apps from an earlier state and all else from now.
func (p *promotion) partly(ctx context.Context, e fleet.Environment, a promote.Action, old *branch.State, w *gitstore.Writer) (gitstore.Hash, promote.Source, error) {
	st := p.states[e.Name]
	source := sourceOf(st)
	if len(a.Apps) > 0 {
		source.Apps = maps.Clone(source.Apps)
		if source.Apps == nil {
			source.Apps = map[string]string{}
		}
		for _, app := range a.Apps {
			source.Apps[app] = sourceOf(old).Of(app)
		}
	}
	base := st.Clone()
	for _, c := range a.Clusters {
		base.Clusters[c], base.Inputs[c] = old.Clusters[c], old.Inputs[c]
	}
	of := func(app string) *branch.State {
		if slices.Contains(a.Apps, app) {
			return old
		}
		return base
	}
	if len(a.Clusters) > 0 && len(a.Apps) > 0 { // apps of these clusters alone
		base = st.Clone()
		mixed := st.Clone()
		for _, c := range a.Clusters {
			mixed.Clusters[c], mixed.Inputs[c] = old.Clusters[c], old.Inputs[c]
		}
		of = func(app string) *branch.State {
			if slices.Contains(a.Apps, app) {
				return mixed
			}
			return base
		}
		source = sourceOf(st)
	}
	tree, err := p.h.Assemble(ctx, hydrate.Recipe{Environment: e.Name, Source: branch.Source(source), Base: base, Of: of}, w)
	return tree, source, err
}

// stateOf reads an earlier tree of an environment.
func (p *promotion) stateOf(ctx context.Context, environment, tree string) (*branch.State, error) {
	entries, err := history(ctx, p.h, p.states[environment].Tip, maxHistory)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.Tree.String() != tree {
			continue
		}
		if err := p.h.Branches.Fetch(ctx, entry.Commit); err != nil {
			return nil, err
		}
		return branch.ReadTree(ctx, p.h.Store, entry.Tree)
	}
	return nil, fmt.Errorf("the tree %.10s is not in the history of %s any more", tree, p.states[environment].Branch)
}
