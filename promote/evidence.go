package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// evidence asks the forge and the checks for statuses and results that decide what is promoted next.
type evidence struct {
	*snapshot
	statuses *statusCache
}

// collect adds to a situation the statuses, checks and merge requests on which the choice of the next promotion
// depends.
func (v *evidence) collect(ctx context.Context, e fleet.Environment, s *rollout.Situation) error {
	if len(e.Promotion.Health.CommitStatuses) > 0 {
		if err := v.health(ctx, e.Name, s.Clusters); err != nil {
			return err
		}
		for i := range s.Before {
			if err := v.health(ctx, s.Before[i].Name, s.Before[i].Clusters); err != nil {
				return err
			}
		}
	}
	if len(e.Promotion.Checks) > 0 && v.request.Adapters.Checks != nil && s.Checks == nil {
		s.Checks = v.request.Adapters.Checks.Check(ctx, e, v.request.Now)
	}
	return v.openRequest(ctx, e, s)
}

// health reads the statuses on the tips of cluster branches.
func (v *evidence) health(ctx context.Context, environment string, clusters []rollout.ClusterState) error {
	if v.sites[environment] != nil {
		return v.apps(ctx, environment, clusters)
	}
	for _, c := range v.fleet.ClustersOf(environment) {
		i := slices.IndexFunc(clusters, func(s rollout.ClusterState) bool { return s.Name == c.Name })
		tip := v.refs[v.fleet.ClusterBranch(c)]
		if i < 0 || tip.IsZero() || c.Retired() {
			continue
		}
		a := v.statuses.of(ctx, tip.String())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		clusters[i].Statuses, clusters[i].StatusesUnknown = a.list, a.unknown
		apps, err := appsOn(ctx, v.hydrator.Store, tip)
		if err != nil {
			return err
		}
		clusters[i].Apps = apps
	}
	return nil
}

// apps lists the apps that clusters have by a receipt, which names the statuses as well.
func (v *evidence) apps(ctx context.Context, environment string, clusters []rollout.ClusterState) error {
	for i, c := range clusters {
		if c.Tree == "" {
			continue
		}
		tree, err := gitstore.ParseHash(c.Tree)
		if err != nil {
			return err
		}
		if clusters[i].Apps, err = appsIn(ctx, v.hydrator.Store, tree); err != nil {
			return fmt.Errorf("cluster %s of %s: %w", c.Name, environment, err)
		}
	}
	return nil
}

func (v *evidence) openRequest(ctx context.Context, e fleet.Environment, s *rollout.Situation) error {
	if e.Promotion.Mode != "request" || v.request.Adapters.MergeRequests == nil {
		return nil
	}
	open, err := v.request.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), v.states[e.Name].Branch)
	if errors.Is(err, ErrNoForge) {
		return nil
	}
	if err != nil {
		return err
	}
	s.RequestKnown = true
	if open == nil {
		return nil
	}
	s.Request = &rollout.MergeRequest{}
	if tip := v.refs[requestBranch(e.Name)]; !tip.IsZero() && tip.String() == open.Head {
		if err := v.hydrator.Branches.Fetch(ctx, tip); err != nil {
			return err
		}
		st, err := branch.ReadState(ctx, v.hydrator.Store, requestBranch(e.Name), e.Name, tip, v.fleet.Signers())
		if err != nil {
			return err
		}
		if st.Foreign == "" { // else the merge request does not offer what Sluice rendered, and Sluice replaces it
			s.Request = &rollout.MergeRequest{Source: st.Source(), Tree: st.Tip.Tree.String()}
		}
	}
	return nil
}

// appsOn lists the apps that a cluster's branch holds: its folders. The result is never nil.
func appsOn(ctx context.Context, store *gitstore.Store, tip gitstore.Hash) ([]string, error) {
	commit, err := store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	return appsIn(ctx, store, commit.Tree)
}

// appsIn lists the apps in a cluster's tree. The result is never nil.
func appsIn(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) ([]string, error) {
	entries, err := branch.Apps(ctx, store, tree)
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out, err
}
