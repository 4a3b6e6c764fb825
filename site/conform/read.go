package conform

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// Read lists the members of a fleet as the cluster branches hold them. A cluster without a branch has no member.
func Read(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet) ([]Member, error) {
	refs, err := h.Branches.List(ctx, f.BranchPrefixes()...)
	if err != nil {
		return nil, err
	}
	var tips []gitstore.Hash
	for _, c := range f.Clusters {
		if tip := refs[f.ClusterBranch(c)]; !tip.IsZero() && !c.Retired() {
			tips = append(tips, tip)
		}
	}
	if len(tips) == 0 {
		return nil, nil
	}
	if err := h.Branches.Fetch(ctx, tips...); err != nil {
		return nil, err
	}
	var out []Member
	for _, c := range f.Clusters {
		tip := refs[f.ClusterBranch(c)]
		if tip.IsZero() || c.Retired() {
			continue
		}
		list, err := membersOf(ctx, h.Store, f, c, tip)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		out = append(out, list...)
	}
	return out, nil
}

func membersOf(ctx context.Context, store *gitstore.Store, f *fleet.Fleet, c *fleet.Cluster,
	tip gitstore.Hash,
) ([]Member, error) {
	commit, err := store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	entries, err := branch.Apps(ctx, store, commit.Tree)
	if err != nil {
		return nil, err
	}
	apps := map[string]string{}
	for _, t := range gitstore.Trailers(commit.Message) {
		if name, source, ok := strings.Cut(t.Value, " "); ok && t.Key == branch.TrailerAppSource {
			apps[name] = source
		}
	}
	common := branch.Trailer(commit.Message, branch.TrailerSource)
	var out []Member
	for _, e := range entries {
		a, ok := f.App(e.Name)
		if !ok || e.Mode != gitstore.ModeTree {
			continue
		}
		m := Member{Target: fleet.Target{App: a, Cluster: c}, Tree: e.Hash, Commit: common}
		if source := apps[e.Name]; source != "" {
			m.Commit = source
		}
		out = append(out, m)
	}
	return out, nil
}
