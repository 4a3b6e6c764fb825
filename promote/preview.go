package promote

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// preview describes what a proposal would do, for a dry run.
type preview struct {
	*snapshot
	proposals *proposals
}

// plan adds the effect of a proposal to the status of a dry run.
func (v *preview) plan(ctx context.Context, e fleet.Environment, s *rollout.Situation, out *Status) error {
	next := out.Decision.Proposal
	if next == nil || out.Candidate == "" {
		return nil
	}
	one, err := v.proposals.compose(ctx, e.Name, next.Source, next.Renders)
	if err != nil || one.failure != "" {
		return err // the gate says why it cannot be rendered
	}
	plan := &Plan{Tree: out.Candidate, Commits: v.trunk.subjects(v.states[e.Name], next.Source)}
	after, err := branch.ReadTree(ctx, v.hydrator.Store, one.tree)
	if err != nil {
		return err
	}
	members := make([]rollout.Cluster, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		members = append(members, c.Cluster)
		if after.Clusters[c.Name].String() != c.Tree && !after.Clusters[c.Name].IsZero() {
			plan.Clusters = append(plan.Clusters, c.Name)
		}
	}
	slices.Sort(plan.Clusters)
	if plan.Waves, err = rollout.Waves(e, members); err != nil {
		return err
	}
	if v.states[e.Name].Exists() {
		if err := countObjects(ctx, v.hydrator.Store, v.states[e.Name].Tip.Tree, one.tree, plan); err != nil {
			return err
		}
	}
	out.Plan = plan
	if v.request.Changes == nil {
		return nil
	}
	var before gitstore.Hash
	if st := v.states[e.Name]; st.Exists() {
		before = st.Tip.Tree
	}
	plan.Changes, err = v.request.Changes(ctx, v.fleet, e.Name, before, one.tree)
	return err
}

// countObjects counts the objects that differ between two trees of an environment.
func countObjects(ctx context.Context, store *gitstore.Store, before, after gitstore.Hash, plan *Plan) error {
	changes, err := store.Changes(ctx, before, after)
	if err != nil {
		return err
	}
	for _, c := range changes {
		switch {
		case strings.HasPrefix(c.Path, branch.Dir+"/"):
		case c.Old.Hash.IsZero():
			plan.Added++
		case c.New.Hash.IsZero():
			plan.Removed++
		default:
			plan.Changed++
		}
	}
	return nil
}
