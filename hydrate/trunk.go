package hydrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Trunks reads the trunks of a remote. It lists the remote's branches once.
type Trunks struct {
	h      *Hydrator
	remote gitstore.Branches
	refs   map[string]gitstore.Hash // nil before the first call
}

// NewTrunks returns a reader of the trunks of a remote.
func NewTrunks(h *Hydrator, remote gitstore.Branches) *Trunks { return &Trunks{h: h, remote: remote} }

func (t *Trunks) list(ctx context.Context) error {
	if t.refs != nil {
		return nil
	}
	refs, err := t.remote.List(ctx, defaultBranch, "")
	if err != nil {
		return fmt.Errorf("branches of %s: %w", t.remote, err)
	}
	t.refs = refs
	return nil
}

// Named returns a trunk by the name of its branch.
func (t *Trunks) Named(ctx context.Context, name string) (*Trunk, error) {
	if err := t.list(ctx); err != nil {
		return nil, err
	}
	return &Trunk{Name: name, Repository: t.remote.String(), Tip: t.refs[name], store: t.h.Store, remote: t.remote}, nil
}

// Default returns the name of the trunk that the fleet of the remote's default branch names. It returns "" if the
// remote has no default branch, or if that branch has no valid fleet.
func (t *Trunks) Default(ctx context.Context) (string, error) {
	if err := t.list(ctx); err != nil {
		return "", err
	}
	tip, ok := t.refs[defaultBranch]
	if !ok {
		return "", nil
	}
	f, err := fleetAt(ctx, t.h, t.remote, tip)
	if f == nil {
		return "", err
	}
	return f.Spec.Trunk, err
}

const defaultBranch = "HEAD" // the name that gitstore.Branches.List uses

// fleetAt reads the newest valid fleet on the first-parent line of a remote's commit; nil if there is none.
func fleetAt(ctx context.Context, h *Hydrator, remote gitstore.Branches, tip gitstore.Hash) (*fleet.Fleet, error) {
	if err := remote.Fetch(ctx, tip); err != nil {
		return nil, err
	}
	commit, err := h.Store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	_, f, err := h.Readable(ctx, commit)
	if _, invalid := errors.AsType[fleet.Problems](err); invalid {
		return nil, nil //nolint:nilnil // there is none
	}
	return f, err
}

// Trunk is the trunk of the source repository as its remote has it.
type Trunk struct {
	Name       string        // of the branch
	Repository string        // address, without credentials
	Tip        gitstore.Hash // zero if the remote has no such branch

	store  *gitstore.Store
	remote gitstore.Branches
}

// Fleet reads the newest valid fleet of the trunk; nil if there is none.
func (t *Trunk) Fleet(ctx context.Context, h *Hydrator) (*fleet.Fleet, error) {
	if t.Tip.IsZero() {
		return nil, nil //nolint:nilnil // there is none
	}
	return fleetAt(ctx, h, t.remote, t.Tip)
}

// String names the branch and its repository.
func (t *Trunk) String() string { return t.Name + " of " + t.Repository }

// At returns the trunk with another tip, so that commits of that tip count as merged.
func (t *Trunk) At(tip gitstore.Hash) *Trunk {
	out := *t
	out.Tip = tip
	return &out
}

// Require returns nil if the trunk contains a commit. It returns an *UnmergedError if the trunk does not contain it,
// or if this clone lacks the history to decide. It fetches missing history.
func (t *Trunk) Require(ctx context.Context, commit gitstore.Hash) error {
	if t.Tip.IsZero() {
		return &UnmergedError{Commit: commit, Trunk: t, Reason: fmt.Sprintf("%s has no branch %s, which spec.trunk names", t.Repository, t.Name)}
	}
	merged, err := t.store.IsAncestor(ctx, commit, t.Tip)
	switch {
	case errors.Is(err, gitstore.ErrShallow):
		reason := fmt.Sprintf("this clone cannot tell whether commit %s is on the trunk %s: run `git fetch --unshallow`", commit.Short(), t)
		return &UnmergedError{Commit: commit, Trunk: t, Reason: reason, Unknown: true}
	case err != nil:
		return err
	case !merged:
		return &UnmergedError{Commit: commit, Trunk: t, Reason: fmt.Sprintf("commit %s is not on the trunk %s", commit.Short(), t)}
	}
	return nil
}

// UnmergedError reports a commit that the trunk of the remote does not contain.
type UnmergedError struct {
	Commit gitstore.Hash
	Trunk  *Trunk
	Reason string
	// Unknown means that this clone lacks the history to decide.
	Unknown bool
}

// Error implements error.
func (e *UnmergedError) Error() string { return e.Reason }
