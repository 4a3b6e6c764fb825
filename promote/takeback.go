package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// without describes the state of an environment without the changes of the workspaces that alone are red, judged like a
// promotion to it. It returns nil if no workspace alone is red.
func (p *proposals) without(ctx context.Context, e fleet.Environment, s *rollout.Situation) (*rollout.Without, error) {
	red, err := rollout.RedAlone(*s)
	if err != nil || red == nil || s.Running.Foreign != "" {
		return nil, err
	}
	t := &takeBack{proposals: p, environment: e, red: red, separation: newSeparation(p.hydrator.Store, red.Names, nil,
		p.states[e.Name])}
	out := &rollout.Without{Workspaces: red.Names, From: s.Running.Tree}
	switch out.Refused, err = t.prepare(ctx, s); {
	case errors.Is(err, rollout.ErrNoTree), errors.Is(err, errNoObject):
		out.Refused = err.Error()
		return out, nil
	case err != nil || out.Refused != "":
		return out, err
	}
	out.Apps = t.apps
	w, err := p.hydrator.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // the rollback writes it again
	a := rollout.Action{Kind: rollout.DoRollback, Apps: t.apps, Workspaces: red.Names}
	tree, source, err := p.restore(ctx, e, a, t.before, w)
	if err != nil {
		return nil, err
	}
	out.Tree = tree.String()
	out.Refused, err = t.judge(ctx, tree, source)
	return out, err
}

// takeBack is a check whether workspaces can go back alone.
type takeBack struct {
	*proposals
	*separation
	environment fleet.Environment
	red         *rollout.RedWorkspaces
}

// prepare finds the state before the rollout and what the rollout changes in the workspaces. It returns why they cannot
// go back alone.
func (t *takeBack) prepare(ctx context.Context, s *rollout.Situation) (string, error) {
	past := t.past[t.environment.Name]
	var err error
	if t.before, err = past.stateOf(ctx, t.red.Before.Tree); err != nil {
		return "", err
	}
	if t.before.Foreign != "" {
		return "the state before the rollout cannot be read: " + t.before.Foreign, nil
	}
	if !slices.Equal(t.before.ClusterNames(), t.now.ClusterNames()) {
		return "the rollout adds or removes clusters", nil
	}
	for _, c := range s.Clusters {
		if before := t.before.Clusters[c.Name]; c.State != "retired" && c.Tree != c.Desired &&
			c.Tree != before.String() {
			return fmt.Sprintf("cluster %s runs neither the state before the rollout nor that of the rollout", c.Name),
				nil
		}
	}
	read := past.read(ctx)
	apps, refused, err := t.red.Changed(t.red.Before.Tree, s.Running.Tree, t.now.ClusterNames(), read)
	if err != nil || refused != "" {
		return refused, err
	}
	t.apps = apps
	for _, cluster := range t.now.ClusterNames() {
		if refused, err = t.moves(ctx, cluster); err != nil || refused != "" {
			return refused, err
		}
	}
	return "", nil
}

// judge applies to the state without the workspaces' changes what a promotion to it would have to pass. It returns why
// the state is refused.
func (t *takeBack) judge(ctx context.Context, tree gitstore.Hash, source rollout.Source) (string, error) {
	for _, commit := range source.Commits() {
		if _, known := t.trunk.commits[commit]; !known {
			return fmt.Sprintf("%.10s is not on the known part of the trunk", commit), nil
		}
	}
	why, err := t.merged.unmerged(ctx, t.now.Source(), source)
	if err != nil || why != "" {
		return why, err
	}
	// what the clusters run that the rollout has reached, and the others
	for _, st := range []*branch.State{t.now, t.before} {
		if why, err := t.deletes(ctx, st, rollout.Scope{}, tree); err != nil || why != "" {
			return why, err
		}
	}
	if t.request.Adapters.Policy == nil {
		return "", nil
	}
	if state, why := t.policy(ctx, t.environment.Name, source, false); state != rollout.Green {
		return strings.TrimSuffix(fmt.Sprintf("policy is %s for the state without %s: %s", state,
			rollout.Few(t.red.Names), why), ": "), nil
	}
	return "", nil
}
