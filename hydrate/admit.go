package hydrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/signers"
)

// admit checks, before anything is rendered, whether the run may write the commit to an environment's branch: the
// trunk contains the commit, the branch has no foreign commit, nobody deleted the branch, and the branch does not
// have a newer source commit. If not, admit sets the reason in out.
func (r *run) admit(ctx context.Context, out *EnvironmentResult, st *branch.State) error {
	if err := r.requireMerged(ctx, out, st); err != nil || out.Status != "" {
		return err
	}
	switch {
	case !st.Exists():
		return r.admitNew(ctx, out, st)
	case st.Foreign != "" && r.request.Overwrite:
		return nil
	case st.Foreign != "":
		out.refuse("%s", foreignBranch(st.Branch, branch.Origin{Foreign: st.Foreign, Unsigned: st.Origin.Unsigned}))
		return nil
	}
	return r.admitNewer(ctx, out, st)
}

// foreignBranch returns the reason not to write a branch that has a foreign commit, and the next step.
func foreignBranch(name string, o branch.Origin) string {
	if o.Unsigned != nil {
		return fmt.Sprintf("%s: %s: if the branch is right (`sluice verify`), an allowed signer accepts it with `git commit --allow-empty -S` on it; or run with --overwrite-foreign", name, o.Foreign)
	}
	return fmt.Sprintf("%s: %s: `sluice verify` names what differs; bring it into the source, or run with --overwrite-foreign", name, o.Foreign)
}

func (e *EnvironmentResult) refuse(format string, args ...any) {
	e.Status, e.Reason = StatusRefused, fmt.Sprintf(format, args...)
}

// refusal turns a *RefusedError into the environment's status, and returns any other error.
func (e *EnvironmentResult) refusal(err error) error {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		e.refuse("%s", refused.Reason)
		return nil
	}
	return err
}

// requireMerged refuses a commit that the trunk of the remote does not contain, unless the request makes an exception
// for the environment. The trailers of the commits record the exception, with the tip of the trunk at that time.
func (r *run) requireMerged(ctx context.Context, out *EnvironmentResult, st *branch.State) error {
	if r.h.Source == nil || !r.request.Write {
		return nil
	}
	names, err := r.trunkNames(ctx, st)
	if err != nil {
		return err
	}
	for _, name := range names {
		trunk, err := r.trunks.Named(ctx, name)
		if err != nil {
			return err
		}
		err = trunk.Require(ctx, r.request.Commit.Hash)
		unmerged, ok := errors.AsType[*UnmergedError](err)
		switch {
		case err == nil:
		case !ok:
			return err
		case !slices.Contains(r.request.AllowUnmerged, out.Name):
			out.refuse("%s: push or merge it first, or run with --allow-unmerged %s as a recorded exception", unmerged.Reason, out.Name)
			return nil
		case out.unmergedAt.IsZero():
			out.unmergedAt = trunk.Tip
			out.Exceptions = append(out.Exceptions, unmerged.Reason)
		}
	}
	return nil
}

// trunkNames returns the trunks that must contain the commit: the one that the fleet of the remote's default branch
// names, and the one that the fleet of the branch's source commit names. The commit's own fleet does not count, since
// a commit must not choose its own trunk; it is used only if the other two do not exist, as for a new repository. A
// trunk that does not exist on the remote was renamed and does not count.
func (r *run) trunkNames(ctx context.Context, st *branch.State) ([]string, error) {
	trunk, err := r.sourceTrunk(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{trunk}
	hash, err := gitstore.ParseHash(st.Record.Source)
	if err != nil {
		return names, nil //nolint:nilerr // the branch has no record: admit refuses it
	}
	commit, err := r.h.Store.Commit(ctx, hash)
	if errors.Is(err, gitstore.ErrNotFound) {
		return names, nil // admitNewer reports it
	}
	if err != nil {
		return nil, err
	}
	f, _, err := r.h.Fleet(ctx, commit.Tree)
	if _, invalid := errors.AsType[fleet.Problems](err); invalid {
		return names, nil // an invalid fleet names no trunk
	}
	if err != nil || f.Spec.Trunk == names[0] {
		return names, err
	}
	recorded, err := r.trunks.Named(ctx, f.Spec.Trunk)
	if err == nil && !recorded.Tip.IsZero() {
		names = append(names, f.Spec.Trunk)
	}
	return names, err
}

// sourceTrunk returns the name of the trunk from the fleet of the remote's default branch or, without one, from the
// commit's own fleet.
func (r *run) sourceTrunk(ctx context.Context) (string, error) {
	if r.trunkName != "" {
		return r.trunkName, nil
	}
	name, err := r.trunks.Default(ctx)
	if err != nil {
		return "", err
	}
	r.trunkName = cmp.Or(name, r.view.Fleet.Spec.Trunk)
	return r.trunkName, nil
}

// allowedSigners returns spec.signers of the remote's trunk. If the run writes branches of this repository, it
// returns those of the commit.
func (r *run) allowedSigners(ctx context.Context) (signers.List, error) {
	if r.h.Source == nil {
		return r.view.Fleet.Signers(), nil
	}
	name, err := r.sourceTrunk(ctx)
	if err != nil {
		return signers.List{}, err
	}
	trunk, err := r.trunks.Named(ctx, name)
	if err != nil {
		return signers.List{}, err
	}
	f, err := trunk.Fleet(ctx, r.h)
	if f == nil { // admit refuses a commit that this trunk does not contain
		f = r.view.Fleet
	}
	return f.Signers(), err
}

// admitNewer refuses a commit that does not descend from the source commit of the branch. A branch that runs an
// unmerged commit by exception accepts the next commit of the trunk after the exception.
func (r *run) admitNewer(ctx context.Context, out *EnvironmentResult, st *branch.State) error {
	recorded, err := gitstore.ParseHash(st.Record.Source)
	if err != nil {
		return err
	}
	head, from := r.request.Commit.Hash, recorded
	exception, err := gitstore.ParseHash(st.Trailer(branch.TrailerUnmerged))
	if err == nil {
		from = exception
	}
	if from == head && from != recorded {
		if r.request.Overwrite {
			return nil
		}
		out.supersede("%s runs the unmerged commit %s by exception, until the trunk moves on from %s", st.Branch, recorded.Short(), head.Short())
		return nil
	}
	newer, err := r.h.Store.IsAncestor(ctx, from, head)
	if err == nil && newer {
		return nil
	}
	shallow := errors.Is(err, gitstore.ErrShallow)
	if err != nil && !shallow {
		return err
	}
	why, err := r.offTrunk(ctx, from)
	if err != nil {
		return err
	}
	older, err := r.h.Store.IsAncestor(ctx, head, from)
	unknown := shallow || errors.Is(err, gitstore.ErrShallow)
	switch {
	case err != nil && !unknown:
		return err
	case err == nil && older && why == "":
		out.supersede("%s was rendered from the newer commit %s", st.Branch, from.Short())
	case r.request.Overwrite:
	case why != "":
		out.refuse("%s was rendered from %s, %s: merge that commit, or run with --overwrite-foreign to go back to the trunk", st.Branch, from.Short(), why)
	case unknown:
		out.refuse("%s was rendered from %s, and this clone cannot tell whether that is older: run `git fetch --unshallow`", st.Branch, from.Short())
	default:
		out.refuse("%s was rendered from %s, which is not an ancestor of %s: the trunk was rewritten; run with --overwrite-foreign if that is right",
			st.Branch, from.Short(), head.Short())
	}
	return nil
}

func (e *EnvironmentResult) supersede(format string, args ...any) {
	e.Status, e.Reason = StatusSuperseded, fmt.Sprintf(format, args...)
}

// offTrunk returns why a source commit of a branch is not on the trunk of the remote; "" if it is, or if there is no
// remote.
func (r *run) offTrunk(ctx context.Context, from gitstore.Hash) (string, error) {
	if r.h.Source == nil || !r.request.Write {
		return "", nil
	}
	if _, err := r.h.Store.Commit(ctx, from); errors.Is(err, gitstore.ErrNotFound) {
		return fmt.Sprintf("a commit that neither this clone nor %s has", r.h.Source), nil
	} else if err != nil {
		return "", err
	}
	name, err := r.sourceTrunk(ctx)
	if err != nil {
		return "", err
	}
	trunk, err := r.trunks.Named(ctx, name)
	if err != nil || trunk.Tip.IsZero() {
		return "", err
	}
	merged, err := r.h.Store.IsAncestor(ctx, from, trunk.Tip)
	if errors.Is(err, gitstore.ErrShallow) {
		return "", nil // unknown: the caller reports it
	}
	if err != nil || merged {
		return "", err
	}
	return fmt.Sprintf("which is not on the trunk %s", trunk), nil
}
