package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// trunk is the reference for verification: the trunk of the remote or, for branches of this repository, the local
// trunk and the commit to verify against.
type trunk struct {
	tips    []*admit.Trunk // one of them must contain each source commit
	signers signers.List   // spec.signers
}

func (t *trunk) String() string { return t.tips[0].String() }

// readTrunk reads the trunk of the remote that has the branches. Without a remote, head's fleet names the trunk.
func readTrunk(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, head gitstore.Commit) (*trunk, error) {
	out := &trunk{signers: f.Signers()}
	remote := h.Source
	if remote == nil {
		remote = h.Store.Local()
	}
	named, err := h.Trunks(remote).Current(ctx, f.Spec.Trunk)
	if err != nil {
		return nil, err
	}
	out.tips = append(out.tips, named)
	if h.Source == nil { // `sluice hydrate` without --push writes any checked-out commit
		out.tips = append(out.tips, named.At(head.Hash))
		return out, nil
	}
	current, err := named.Fleet(ctx)
	if current != nil {
		out.signers = current.Signers()
	}
	return out, err
}

// requireMerged records the source commits of an environment that the trunk does not contain, unless the branch
// records them as exceptions, and sets the status. If this clone lacks the history to decide, the status is failed.
func (r *run) requireMerged(ctx context.Context, out *Verification, st *branch.State) error {
	for _, text := range st.Source().Commits() {
		commit, err := gitstore.ParseHash(text)
		if err != nil {
			return err // the record is already validated
		}
		err = r.trunk.require(ctx, commit)
		unmerged, ok := errors.AsType[*admit.UnmergedError](err)
		switch {
		case err == nil:
			continue
		case errors.Is(err, gitstore.ErrNotFound):
			out.Status, out.Reason = StatusFailed, "source commit "+commit.Short()+" does not exist"
			return nil
		case !ok:
			return err
		case unmerged.Unknown:
			out.Status, out.Reason = StatusFailed, unmerged.Reason
			return nil
		}
		if err := r.unmerged(ctx, out, st, commit); err != nil {
			return err
		}
	}
	if r.judgeUnmerged(out, fmt.Sprint(r.trunk)); len(out.Unmerged) > 0 {
		out.Reason += ": hydrate a commit of the trunk, or find out who pushed it"
	}
	return nil
}

// unmerged notes a source commit that the trunk does not contain, as an exception if the branch records it as one.
func (r *run) unmerged(ctx context.Context, out *Verification, st *branch.State, commit gitstore.Hash) error {
	if st.Origin.Unsigned == nil { // everybody who may push can write the trailer of an unsigned commit
		recorded, err := r.exception(ctx, st, commit)
		if err != nil {
			return err
		}
		if recorded {
			out.Exceptions = append(out.Exceptions, commit.String())
			return nil
		}
	}
	out.Unmerged = append(out.Unmerged, commit.String())
	return nil
}

// judgeUnmerged sets the status of an environment with source commits that the trunk does not contain.
func (r *run) judgeUnmerged(out *Verification, trunk string) {
	switch {
	case len(out.Unmerged) > 0: // rendering such a commit proves nothing, and it may be hostile
		out.Status = StatusUnmerged
		out.Reason = fmt.Sprintf("%s does not contain the source commit %s", trunk, strings.Join(out.Unmerged, ", "))
	case len(out.Exceptions) > 0 && r.trunk.signers.Empty(): // everybody who may push to the branch can write the trailer
		out.Status = StatusUnproven
		out.Reason = fmt.Sprintf("%s does not contain the source commit %s; the branch records that as an exception, but nothing proves who recorded it: "+
			"list the keys that may in spec.signers, or hydrate a commit of the trunk", trunk, strings.Join(out.Exceptions, ", "))
	}
}

func (t *trunk) require(ctx context.Context, commit gitstore.Hash) error {
	var last error
	for _, tip := range t.tips {
		err := tip.Require(ctx, commit)
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*admit.UnmergedError](err); !ok {
			return err
		}
		last = cmp.Or(last, err)
	}
	return last
}

// exception reports whether a commit of the branch records that an unmerged source commit was allowed.
func (r *run) exception(ctx context.Context, st *branch.State, source gitstore.Hash) (bool, error) {
	const limit = 1000 // commits of the branch
	at := st.Origin.Rendered
	for range limit {
		if branch.Trailer(at.Message, branch.TrailerUnmerged) != "" &&
			branch.Trailer(at.Message, branch.TrailerSource) == source.String() {
			return true, nil
		}
		if len(at.Parents) == 0 {
			break
		}
		parent, err := r.h.Store.Commit(ctx, at.Parents[0])
		if errors.Is(err, gitstore.ErrNotFound) || errors.Is(err, gitstore.ErrShallow) {
			break // end of the available history
		}
		if err != nil {
			return false, fmt.Errorf("history of %s: %w", st.Branch, err)
		}
		at = parent
	}
	return false, nil
}
