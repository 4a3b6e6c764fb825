package hydrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Trunk is the trunk of the source repository as its remote has it.
type Trunk struct {
	Name       string        // of the branch
	Repository string        // address, without credentials
	Tip        gitstore.Hash // zero if the remote has no such branch

	store *gitstore.Store
}

// ReadTrunk reads the tip of a trunk from the remote of the source repository.
func ReadTrunk(ctx context.Context, store *gitstore.Store, remote gitstore.Branches, name string) (*Trunk, error) {
	refs, err := remote.List(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("trunk %s of %s: %w", name, remote, err)
	}
	return &Trunk{Name: name, Repository: remote.String(), Tip: refs[name], store: store}, nil
}

// String names the branch and its repository.
func (t *Trunk) String() string { return t.Name + " of " + t.Repository }

// Require returns nil if the trunk contains a commit, and an *UnmergedError if it does not, or if this clone cannot tell.
// Missing history is fetched.
func (t *Trunk) Require(ctx context.Context, commit gitstore.Hash) error {
	if t.Tip.IsZero() {
		return &UnmergedError{Commit: commit, Trunk: t, Reason: fmt.Sprintf("%s has no branch %s, which spec.trunk names", t.Repository, t.Name)}
	}
	merged, err := t.store.IsAncestor(ctx, commit, t.Tip)
	switch {
	case errors.Is(err, gitstore.ErrShallow):
		reason := fmt.Sprintf("this clone cannot tell whether commit %s is on the trunk %s: run `git fetch --unshallow`", commit.Short(), t)
		return &UnmergedError{Commit: commit, Trunk: t, Reason: reason}
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
}

// Error returns the reason.
func (e *UnmergedError) Error() string { return e.Reason }
