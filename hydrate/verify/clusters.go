package verify

import (
	"context"
	"errors"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// verifyClusters compares the cluster branches with the clusters of a rendered environment. If the record explains
// why a cluster runs an earlier state of the environment, the cluster is behind; otherwise it differs.
func (r *run) verifyClusters(ctx context.Context, out *Verification, f *fleet.Fleet, st *branch.State,
	tree gitstore.Hash,
) error {
	rendered, err := branch.ReadTree(ctx, r.h.Store, tree)
	if err != nil {
		return err
	}
	record, err := promote.ReadRecord(ctx, r.h, out.Environment, r.trunk.signers)
	if refused, ok := errors.AsType[*gitstore.SignatureError](err); ok { // an unsigned record explains nothing
		out.Unsigned = append(out.Unsigned, unsigned(rollout.StateBranch, refused))
		record, err = rollout.NewRecord(out.Environment), nil
	}
	if err != nil {
		return err
	}
	for _, h := range record.Holds {
		out.Held = append(out.Held, h.String())
	}
	e, _ := r.fleet.Environment(out.Environment) // Run verifies only environments of this fleet
	elsewhere := false
	if len(e.After) > 0 {
		refs, err := r.h.Branches.List(ctx, promote.BranchPrefixes(r.fleet)...) // after the record, which names the tips
		if err != nil {
			return err
		}
		elsewhere = promote.Elsewhere(r.fleet, *e, refs)
		moved, err := promote.SetBacks(ctx, r.h, r.fleet, out.Environment, record, refs)
		if err != nil {
			return err
		}
		for _, b := range moved {
			out.Foreign = append(out.Foreign, Signature{Branch: b.Branch, Commit: b.Has.Hash.String(), Reason: b.String()})
		}
	}
	merged := e.Promotion.Mode == "request" && record.Knows(st.Tip.Tree.String()) // the forge's merge or squash
	if st.Foreign != "" && st.Origin.Unsigned == nil && !merged {
		out.Foreign = append(out.Foreign, Signature{Branch: out.Branch, Commit: out.Commit, Reason: st.Foreign})
	}
	if elsewhere { // the branches of its clusters are those of another repository
		return nil
	}
	for _, c := range f.ClustersOf(out.Environment) {
		ref := f.ClusterBranch(c)
		want, placed := rendered.Clusters[c.Name]
		tip, ok := r.refs[ref]
		switch {
		case !placed:
			continue
		case !ok:
			if !c.Frozen() {
				out.Differences = append(out.Differences, Difference{Branch: ref, Path: ".", Effect: "removed"})
			}
			continue
		}
		commit, err := r.h.Store.Commit(ctx, tip)
		if err == nil {
			err = r.verifyOrigin(ctx, out, ref, commit, c)
		}
		if err != nil {
			return err
		}
		if commit.Tree == want {
			continue
		}
		behind, err := r.behind(ctx, c, st, commit.Tree, record)
		if err != nil {
			return err
		}
		if behind != nil {
			behind.Branch = ref
			out.Behind = append(out.Behind, *behind)
			continue
		}
		if err := r.compare(ctx, out, ref, want, commit.Tree); err != nil {
			return err
		}
	}
	return nil
}

// verifyOrigin reports a cluster branch whose tip Sluice did not make for it, or no allowed key signed.
func (r *run) verifyOrigin(ctx context.Context, out *Verification, ref string, commit gitstore.Commit,
	c *fleet.Cluster,
) error {
	origin, err := branch.Inspect(ctx, r.h.Store, commit, branch.Owner{Environment: out.Environment, Cluster: c.Name},
		r.trunk.signers)
	if err != nil {
		return err
	}
	if origin.Unsigned != nil {
		out.Unsigned = append(out.Unsigned, unsigned(ref, origin.Unsigned))
	}
	found := Signature{Branch: ref, Commit: commit.Hash.String(), Reason: origin.Foreign}
	switch {
	case origin.Misplaced && !r.trunk.signers.Empty():
		out.Unsigned = append(out.Unsigned, found)
	case origin.Foreign != "" && origin.Unsigned == nil:
		out.Foreign = append(out.Foreign, found)
	}
	return nil
}

// behind returns the reason why a cluster runs an earlier state of its environment. It returns nil if the cluster
// does not, or if nothing explains it.
func (r *run) behind(ctx context.Context, c *fleet.Cluster, st *branch.State, tree gitstore.Hash,
	record rollout.Record,
) (*Behind, error) {
	e, _ := r.fleet.Environment(c.Environment) // a removed environment follows nothing
	if len(e.After) == 0 && record.Progress == nil && len(record.Freezes) == 0 && !c.Frozen() {
		return nil, nil //nolint:nilnil // hydration moves all clusters at once
	}
	reason, ok := rollout.BehindAsPlanned(record, hashText(st.Tip.Tree), rollout.Cluster{Name: c.Name, State: c.State},
		r.now)
	if !ok {
		return nil, nil //nolint:nilnil // nothing explains it
	}
	was, err := promote.EarlierState(ctx, r.h, st, c.Name, tree)
	if errors.Is(err, rollout.ErrNoTree) {
		return nil, nil //nolint:nilnil // the environment never had this tree
	}
	if err != nil {
		return nil, err
	}
	return &Behind{Cluster: c.Name, Source: was.Source().On(c.Name).String(), Reason: reason}, nil
}

func hashText(h gitstore.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}
