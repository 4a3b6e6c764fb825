package verify

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// Commit verifies one commit of an environment branch that need not be its tip, such as one that a transfer bundle brings. It
// renders the commit again and compares. The fleet of the trunk's commit says whose signatures count, and the commit must
// contain the source commits. No cluster branch is read.
func Commit(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, environment string, tip, trunkTip gitstore.Hash) (*Verification, error) {
	r := &run{h: h, fleet: f, trunk: &trunk{signers: f.Signers()}}
	defer r.close()
	ref := f.EnvironmentBranch(environment)
	out := &Verification{Environment: environment, Branch: ref, Commit: tip.String(), Status: StatusOK}
	st, err := branch.ReadState(ctx, h.Store, ref, environment, tip, r.trunk.signers)
	if err != nil {
		return nil, err
	}
	out.Source = st.Record.Source
	if err := st.Source().Validate(); err != nil || st.Record.Source == "" {
		out.Status, out.Reason = StatusFailed, fmt.Sprintf("%s/environment.yaml does not say what it was rendered from", branch.Dir)
		return out, nil
	}
	if st.Origin.Unsigned != nil {
		out.Unsigned = append(out.Unsigned, unsigned(ref, st.Origin.Unsigned))
	}
	source, err := r.within(ctx, out, st, trunkTip)
	if err != nil || out.Status != StatusOK {
		return out, err
	}
	tree, err := r.render(ctx, environment, st, source, out)
	if err != nil || tree.IsZero() {
		return out, err
	}
	if err := r.compare(ctx, out, ref, tree, st.Tip.Tree); err != nil {
		return nil, err
	}
	switch {
	case out.Status != StatusOK: // some targets could not be rendered
	case len(out.Differences) > 0 || st.Foreign != "" && st.Origin.Unsigned == nil:
		out.Status, out.Reason = StatusDiffers, st.Foreign
	case len(out.Unsigned) > 0:
		out.Status, out.Reason = StatusUnsigned, "a commit without a signature that spec.signers allows"
	}
	return out, nil
}

// within returns the source commit, and sets the status if one of the source commits is missing, or the trunk does not
// contain it and no exception is proven.
func (r *run) within(ctx context.Context, out *Verification, st *branch.State, trunkTip gitstore.Hash) (gitstore.Commit, error) {
	for _, text := range st.Source().Commits() {
		hash, err := gitstore.ParseHash(text)
		if err != nil {
			return gitstore.Commit{}, err // the record is already validated
		}
		if !r.h.Store.Has(hash) {
			out.Status, out.Reason = StatusFailed, fmt.Sprintf("source commit %s is not here: home exports it with --source", hash.Short())
			return gitstore.Commit{}, nil
		}
		merged, err := r.h.Store.IsAncestor(ctx, hash, trunkTip)
		if err != nil {
			return gitstore.Commit{}, err
		}
		if merged {
			continue
		}
		if err := r.unmerged(ctx, out, st, hash); err != nil {
			return gitstore.Commit{}, err
		}
	}
	if r.judgeUnmerged(out, "the trunk at "+trunkTip.Short()); out.Status != StatusOK {
		return gitstore.Commit{}, nil
	}
	return r.sourceOf(ctx, st)
}
