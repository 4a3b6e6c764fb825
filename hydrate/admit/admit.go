package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// RefusedError is a reason not to write an environment that a person must resolve.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason }

// Refusef returns a *RefusedError.
func Refusef(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// SupersededError is a reason not to write an environment that needs no action: its branch is newer than the commit.
type SupersededError struct{ Reason string }

// Error implements error.
func (e *SupersededError) Error() string { return e.Reason }

func superseded(format string, args ...any) error {
	return &SupersededError{Reason: fmt.Sprintf(format, args...)}
}

// PromotedError is the reason not to hydrate an environment that comes after others: only a promotion moves it, because
// only that asks its gates. Its text names the command for each intention.
type PromotedError struct {
	Environment string
	After       []string
	Refused     error // another reason not to write the commit; nil if there is none
}

// Error implements error.
func (e *PromotedError) Error() string {
	return fmt.Sprintf("it comes after %s, and hydrate asks no gate: `sluice promote %[2]s` brings a commit, also the first one; `sluice hydrate --again --env %[2]s --reason WHY` renders again what it runs; `sluice repair %[2]s` brings back branches that somebody moved",
		strings.Join(e.After, ", "), e.Environment)
}

// Exception is a reason to refuse a commit that the request overrules. The zero value is no exception.
type Exception struct {
	Reason string
	Trunk  gitstore.Hash // the tip of the trunk that does not contain the commit; zero if the remote has no trunk
}

// Request is what a run is going to write.
type Request struct {
	Commit gitstore.Hash
	Fleet  *fleet.Fleet // of Commit

	AllowUnmerged []string // environments that may be written from a commit that the trunk does not contain
	Recreate      bool     // create branches again that somebody deleted
	Overwrite     bool     // write on top of commits that Sluice did not make
}

// Checker checks the environments of one run. Calls must not overlap, because Trunks does not allow it.
type Checker struct {
	Store    *gitstore.Store
	Branches gitstore.Branches // where rendered branches live
	Trunks   *Trunks           // of the source repository; nil admits commits that no trunk contains
	Signers  signers.List      // spec.signers of the trunk; see Signers
	Request  Request
}

// Check returns a *RefusedError, a *PromotedError or a *SupersededError if the run must not write the commit to an
// environment. refs are the branches as listed, and st is the state of the environment's branch. Other errors come from
// Git and decide nothing. The exception counts if the run goes on.
func (c *Checker) Check(ctx context.Context, environment string, refs *Refs, st *branch.State) (Exception, error) {
	exception, err := c.check(ctx, environment, refs, st)
	_, older := errors.AsType[*SupersededError](err)
	_, refused := errors.AsType[*RefusedError](err)
	if older || err != nil && !refused {
		return exception, err
	}
	after, failed := c.after(ctx, environment)
	if failed != nil {
		return exception, failed
	}
	if len(after) > 0 {
		return exception, &PromotedError{environment, after, err}
	}
	return exception, err
}

// after returns the environments that an environment comes after, by the trunk of the remote or by the commit: a commit
// from before the environment was promoted, or one that is not merged, must not pass its gates. Branches of the local
// repository are free.
func (c *Checker) after(ctx context.Context, environment string) ([]string, error) {
	if c.Trunks == nil {
		return nil, nil
	}
	trunk, err := c.Trunks.Current(ctx, c.Request.Fleet.Spec.Trunk)
	if err != nil {
		return nil, err
	}
	current, err := trunk.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range []*fleet.Fleet{current, c.Request.Fleet} {
		if f == nil {
			continue
		}
		if e, ok := f.Environment(environment); ok && len(e.After) > 0 {
			return e.After, nil
		}
	}
	return nil, nil
}

func (c *Checker) check(ctx context.Context, environment string, refs *Refs, st *branch.State) (Exception, error) {
	exception, err := c.requireMerged(ctx, environment, st)
	if err != nil {
		return exception, err
	}
	switch {
	case !st.Exists():
		return exception, c.requireNew(ctx, environment, refs, st.Branch)
	case st.Foreign != "" && c.Request.Overwrite:
		return exception, nil
	case st.Foreign != "":
		return exception, Foreign(st.Branch, branch.Origin{Foreign: st.Foreign, Unsigned: st.Origin.Unsigned},
			c.Branches)
	}
	return exception, c.requireNewer(ctx, st)
}

// Foreign returns the *RefusedError for a branch that has a commit of somebody else. Its text names the next step.
func Foreign(name string, o branch.Origin, where gitstore.Branches) error {
	return Refusef("%s: %s: %s", name, o.Foreign, Resolve(o, where, "run with --overwrite-foreign"))
}

// Resolve says what a person does about a commit of somebody else on a branch. then is the last step, which overwrites
// the commit.
func Resolve(o branch.Origin, where gitstore.Branches, then string) string {
	verify := "sluice verify"
	if !gitstore.IsLocal(where) {
		verify += " --from-remote"
	}
	if o.Unsigned != nil {
		return fmt.Sprintf("if the branch is right (`%s`), an allowed signer accepts it with `git commit --allow-empty -S` on it; otherwise %s", verify, then)
	}
	return fmt.Sprintf("`%s` names what differs; bring it into the source, then %s", verify, then)
}

// Signers returns spec.signers of the trunk of the source repository. Without a remote, or without a trunk there, it
// returns those of f, the fleet of the commit.
func Signers(ctx context.Context, trunks *Trunks, f *fleet.Fleet) (signers.List, error) {
	if trunks == nil {
		return f.Signers(), nil
	}
	trunk, err := trunks.Current(ctx, f.Spec.Trunk)
	if err != nil {
		return signers.List{}, err
	}
	current, err := trunk.Fleet(ctx)
	if current == nil { // Check refuses a commit that this trunk does not contain
		current = f
	}
	return current.Signers(), err
}

// requireMerged refuses a commit that the trunk of the remote does not contain, unless the request makes an exception
// for the environment. The trailers of the commits record the exception, with the tip of the trunk at that time.
func (c *Checker) requireMerged(ctx context.Context, environment string, st *branch.State) (Exception, error) {
	if c.Trunks == nil {
		return Exception{}, nil
	}
	trunks, err := c.trunks(ctx, st)
	if err != nil {
		return Exception{}, err
	}
	var out Exception
	for _, trunk := range trunks {
		err := trunk.Require(ctx, c.Request.Commit)
		unmerged, ok := errors.AsType[*UnmergedError](err)
		switch {
		case err == nil:
		case !ok:
			return out, err
		case !slices.Contains(c.Request.AllowUnmerged, environment):
			return out, Refusef("%s: push or merge it first, or run with --allow-unmerged %s as a recorded exception",
				unmerged.Reason, environment)
		case out.Trunk.IsZero():
			out = Exception{Reason: unmerged.Reason, Trunk: trunk.Tip}
		}
	}
	return out, nil
}

// trunks returns the trunks that must contain the commit: the current one, and the one that the fleet of the branch's
// source commit names. A trunk that the remote no longer has was renamed and does not count.
func (c *Checker) trunks(ctx context.Context, st *branch.State) ([]*Trunk, error) {
	current, err := c.Trunks.Current(ctx, c.Request.Fleet.Spec.Trunk)
	if err != nil {
		return nil, err
	}
	only := []*Trunk{current}
	hash, err := gitstore.ParseHash(st.Record.Source)
	if err != nil {
		return only, nil //nolint:nilerr // the branch has no record: Check refuses it
	}
	commit, err := c.Store.Commit(ctx, hash)
	if errors.Is(err, gitstore.ErrNotFound) {
		return only, nil // requireNewer reports it
	}
	if err != nil {
		return nil, err
	}
	v, err := c.Trunks.sources.Open(ctx, commit.Tree)
	if _, invalid := errors.AsType[fleet.Problems](err); invalid {
		return only, nil // an invalid fleet names no trunk
	}
	if err != nil {
		return nil, err
	}
	recorded, err := c.Trunks.Named(ctx, v.Fleet.Spec.Trunk)
	if err != nil || recorded.Name == current.Name || recorded.Tip.IsZero() {
		return only, err
	}
	return []*Trunk{current, recorded}, nil
}

// requireNewer refuses a commit that does not descend from the source commit of the branch. A branch that runs an
// unmerged commit by exception accepts the next commit of the trunk after the exception.
func (c *Checker) requireNewer(ctx context.Context, st *branch.State) error {
	recorded, err := gitstore.ParseHash(st.Record.Source)
	if err != nil {
		return fmt.Errorf("the source commit that %s records: %w", st.Branch, err)
	}
	head, from := c.Request.Commit, recorded
	// the tip of the trunk when the exception was made
	if trunk, err := gitstore.ParseHash(st.Trailer(branch.TrailerUnmerged)); err == nil {
		from = trunk
	}
	if from == head && from != recorded {
		if c.Request.Overwrite {
			return nil
		}
		return superseded("%s runs the unmerged commit %s by exception, until the trunk moves on from %s", st.Branch,
			recorded.Short(), head.Short())
	}
	newer, err := c.Store.IsAncestor(ctx, from, head)
	if err == nil && newer {
		return nil
	}
	shallow := errors.Is(err, gitstore.ErrShallow)
	if err != nil && !shallow {
		return err
	}
	why, err := c.offTrunk(ctx, from)
	if err != nil {
		return err
	}
	older, err := c.Store.IsAncestor(ctx, head, from)
	unknown := shallow || errors.Is(err, gitstore.ErrShallow)
	switch {
	case err != nil && !unknown:
		return err
	case err == nil && older && why == "":
		return superseded("%s was rendered from the newer commit %s", st.Branch, from.Short())
	case c.Request.Overwrite:
		return nil
	case why != "":
		return Refusef("%s was rendered from %s, %s: merge that commit, or run with --overwrite-foreign to go back to the trunk", st.Branch, from.Short(), why)
	case unknown:
		return Refusef("%s was rendered from %s, and this clone cannot tell whether that is older: run `git fetch --unshallow`", st.Branch, from.Short())
	}
	return Refusef("%s was rendered from %s, which is not an ancestor of %s: the trunk was rewritten; run with --overwrite-foreign if that is right",
		st.Branch, from.Short(), head.Short())
}

// offTrunk returns why a source commit of a branch is not on the trunk of the remote; "" if it is, or if there is no
// remote.
func (c *Checker) offTrunk(ctx context.Context, from gitstore.Hash) (string, error) {
	if c.Trunks == nil {
		return "", nil
	}
	if _, err := c.Store.Commit(ctx, from); errors.Is(err, gitstore.ErrNotFound) {
		return fmt.Sprintf("a commit that neither this clone nor %s has", c.Trunks.remote), nil
	} else if err != nil {
		return "", err
	}
	trunk, err := c.Trunks.Current(ctx, c.Request.Fleet.Spec.Trunk)
	if err != nil || trunk.Tip.IsZero() {
		return "", err
	}
	merged, err := c.Store.IsAncestor(ctx, from, trunk.Tip)
	if errors.Is(err, gitstore.ErrShallow) {
		return "", nil // unknown: the caller reports it
	}
	if err != nil || merged {
		return "", err
	}
	return fmt.Sprintf("which is not on the trunk %s", trunk), nil
}
