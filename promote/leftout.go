package promote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// leftOut describes a proposal without the workspaces that are red in an environment before. It takes the list of their
// apps from the rendered trees, so that it includes apps that no cluster runs yet and apps without a status.
func (p *proposals) leftOut(ctx context.Context, e fleet.Environment, next *rollout.Proposal) (*rollout.LeftOut,
	error,
) {
	now := p.states[e.Name]
	out := &rollout.LeftOut{Whole: next.Whole, From: now.Tip.Tree.String(), Workspaces: next.Without}
	composed, err := p.compose(ctx, e.Name, next.Whole, false)
	if err != nil {
		return nil, err
	}
	if composed.failure != "" {
		out.Refused = composed.failure
		return out, nil
	}
	then, err := branch.ReadTree(ctx, p.hydrator.Store, composed.tree)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(now.ClusterNames(), then.ClusterNames()) {
		out.Refused = "the promotion adds or removes clusters"
		return out, nil
	}
	t := newSeparation(p.hydrator.Store, next.Without, now, then)
	if out.Apps, err = t.appsOf(ctx); err != nil {
		return nil, err
	}
	for _, cluster := range now.ClusterNames() {
		out.Refused, err = t.moves(ctx, cluster)
		if errors.Is(err, errNoObject) {
			out.Refused, err = err.Error(), nil
		}
		if err != nil || out.Refused != "" {
			return out, err
		}
	}
	return out, nil
}

// appsOf returns all apps of the workspaces in both states, and finds those that differ.
func (t *separation) appsOf(ctx context.Context) ([]string, error) {
	all, differing := appSet{}, appSet{}
	for _, cluster := range t.now.ClusterNames() {
		before, err := t.trees(ctx, t.before, cluster)
		if err != nil {
			return nil, err
		}
		now, err := t.trees(ctx, t.now, cluster)
		if err != nil {
			return nil, err
		}
		for app := range union(before, now) {
			all.add(app)
			if before[app] != now[app] {
				differing.add(app)
			}
		}
	}
	t.apps = slices.Sorted(maps.Keys(differing))
	return slices.Sorted(maps.Keys(all)), nil
}

// trees returns the tree of each app of the workspaces on a cluster.
func (t *separation) trees(ctx context.Context, st *branch.State, cluster string) (map[string]string, error) {
	out := map[string]string{}
	tree := st.Clusters[cluster]
	if tree.IsZero() {
		return out, nil
	}
	apps, err := branch.Apps(ctx, t.store, tree)
	if err != nil {
		return nil, err
	}
	for _, a := range apps {
		if slices.Contains(t.workspaces, fleet.WorkspaceOf(a.Name)) {
			out[a.Name] = a.Hash.String()
		}
	}
	return out, nil
}

// brings returns why a rendered promotion that leaves workspaces out must not land: it would change one of their apps.
// It returns "" if it changes none.
func (p *proposals) brings(ctx context.Context, e fleet.Environment, next *rollout.Proposal,
	c *rollout.Candidate,
) (string, error) {
	if len(next.Without) == 0 || next.Refused != "" || c.Tree == "" {
		return "", nil
	}
	one, err := p.compose(ctx, e.Name, next.Source, false)
	if err != nil {
		return "", err
	}
	then, err := branch.ReadTree(ctx, p.hydrator.Store, one.tree)
	if err != nil {
		return "", err
	}
	t := newSeparation(p.hydrator.Store, next.Without, p.states[e.Name], then)
	if _, err := t.appsOf(ctx); err != nil || len(t.apps) == 0 {
		return "", err
	}
	const why = "it would change %s, which is left out because its workspace is red in an environment before"
	return fmt.Sprintf(why, rollout.Few(t.apps)), nil
}
