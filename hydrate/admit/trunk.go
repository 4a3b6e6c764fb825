package admit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// Trunks reads the trunks of a remote. It lists the remote's branches once. Calls must not overlap.
type Trunks struct {
	store   *gitstore.Store
	sources *source.Reader
	remote  gitstore.Branches
	refs    map[string]gitstore.Hash // nil before the first call
	first   *string                  // the result of defaultTrunk; nil before its first call
}

// NewTrunks returns a reader of the trunks of a remote. sources reads their fleets.
func NewTrunks(store *gitstore.Store, sources *source.Reader, remote gitstore.Branches) *Trunks {
	return &Trunks{store: store, sources: sources, remote: remote}
}

func (t *Trunks) list(ctx context.Context) error {
	if t.refs != nil {
		return nil
	}
	refs, err := t.remote.List(ctx, defaultBranch, "")
	if err != nil {
		return err // it names the remote
	}
	t.refs = refs
	return nil
}

// Named returns a trunk by the name of its branch.
func (t *Trunks) Named(ctx context.Context, name string) (*Trunk, error) {
	if err := t.list(ctx); err != nil {
		return nil, err
	}
	return &Trunk{Name: name, Repository: t.remote.String(), Tip: t.refs[name], trunks: t}, nil
}

// Current returns the trunk that the fleet of the remote's default branch names. Without one, as for a new repository,
// it returns the trunk named own, which the commit's own fleet names: only then may a commit choose its trunk.
func (t *Trunks) Current(ctx context.Context, own string) (*Trunk, error) {
	name, err := t.defaultTrunk(ctx)
	if err != nil {
		return nil, err
	}
	return t.Named(ctx, cmp.Or(name, own))
}

// defaultTrunk returns the name of the trunk that the fleet of the remote's default branch names. It returns "" if the
// remote has no default branch, or if that branch has no valid fleet.
func (t *Trunks) defaultTrunk(ctx context.Context) (string, error) {
	if t.first != nil {
		return *t.first, nil
	}
	if err := t.list(ctx); err != nil {
		return "", err
	}
	name := ""
	if tip, ok := t.refs[defaultBranch]; ok {
		f, err := t.fleetAt(ctx, tip)
		if err != nil {
			return "", err
		}
		if f != nil {
			name = f.Spec.Trunk
		}
	}
	t.first = &name
	return name, nil
}

const defaultBranch = "HEAD" // the name that gitstore.Branches.List uses

// fleetAt reads the newest valid fleet on the first-parent line of a remote's commit; nil if there is none.
func (t *Trunks) fleetAt(ctx context.Context, tip gitstore.Hash) (*fleet.Fleet, error) {
	if err := t.remote.Fetch(ctx, tip); err != nil {
		return nil, err
	}
	commit, err := t.store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	_, f, err := t.sources.Readable(ctx, commit)
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

	trunks *Trunks
}

// Fleet reads the newest valid fleet of the trunk; nil if there is none.
func (t *Trunk) Fleet(ctx context.Context) (*fleet.Fleet, error) {
	if t.Tip.IsZero() {
		return nil, nil //nolint:nilnil // there is none
	}
	return t.trunks.fleetAt(ctx, t.Tip)
}

// rename returns what to do about a trunk that does not exist: name the default branch, such as master.
func (t *Trunks) rename() string {
	name := "BRANCH"
	for _, branch := range slices.Sorted(maps.Keys(t.refs)) {
		if branch != defaultBranch && t.refs[branch] == t.refs[defaultBranch] && !t.refs[branch].IsZero() &&
			(name == "BRANCH" || branch == "master") {
			name = branch
		}
	}
	return fmt.Sprintf("write spec.trunk: %s in sluice.yaml, which is main where it is not set", name)
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
		return &UnmergedError{
			Commit: commit, Trunk: t,
			Reason: fmt.Sprintf("%s has no branch %s, the trunk (%s)", t.Repository, t.Name, t.trunks.rename()),
		}
	}
	merged, err := t.trunks.store.IsAncestor(ctx, commit, t.Tip)
	switch {
	case errors.Is(err, gitstore.ErrShallow):
		reason := fmt.Sprintf("this clone cannot tell whether commit %s is on the trunk %s: run `git fetch --unshallow`", commit.Short(), t)
		return &UnmergedError{Commit: commit, Trunk: t, Reason: reason, Unknown: true}
	case err != nil:
		return err
	case !merged:
		return &UnmergedError{Commit: commit, Trunk: t, Reason: fmt.Sprintf("commit %s is not on the trunk %s",
			commit.Short(), t)}
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
