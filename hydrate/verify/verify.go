// Package verify checks rendered branches. It renders environment branches again from the source commits that they
// record and compares file by file. It requires that the trunk contains those commits, and checks signatures against
// spec.signers of the trunk. It trusts no record of a branch without checking it, and writes nothing.
//
// The package is not API: it can change in every release.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// Difference is a file of a branch that differs from the rendering of the recorded source commit.
type Difference struct {
	Branch string `json:"branch"`
	Path   string `json:"path"`
	Effect string `json:"effect"` // added, removed or changed, relative to the rendering
}

// Statuses of a Verification. The three after Behind mean that somebody else wrote to a branch.
const (
	StatusOK       = "ok"
	StatusBehind   = "behind"   // clusters run an earlier state, as planned: a rollout, a freeze, a halt
	StatusDiffers  = "differs"  // files differ, or Sluice did not make a commit
	StatusUnsigned = "unsigned" // spec.signers does not allow the signature of a commit
	StatusUnmerged = "unmerged" // the trunk does not contain a source commit, and no exception is recorded
	// the branch records an exception for an unmerged source commit, and no spec.signers says who may
	StatusUnproven = "unproven"
	StatusMissing  = "missing" // the branch does not exist
	StatusFailed   = "failed"  // the source commit is unknown or cannot be rendered
)

// Tampered reports whether a status means that somebody else wrote to a branch.
func Tampered(status string) bool {
	return status == StatusDiffers || status == StatusUnsigned || status == StatusUnmerged
}

// Behind is a cluster that runs an earlier state of its environment, as planned.
type Behind struct {
	Cluster string `json:"cluster"`
	Branch  string `json:"branch"`
	Source  string `json:"source"` // what it runs
	Reason  string `json:"reason"`
}

// Verification is the result for one environment.
type Verification struct {
	Environment string      `json:"environment"`
	Branch      string      `json:"branch"`
	Commit      string      `json:"commit,omitempty"`
	Source      string      `json:"source,omitempty"`
	Status      string      `json:"status"`
	Reason      string      `json:"reason,omitempty"`
	Behind      []Behind    `json:"behind,omitempty"`
	Unsigned    []Signature `json:"unsigned,omitempty"` // commits that spec.signers does not allow
	Unmerged    []string    `json:"unmerged,omitempty"` // source commits that the trunk does not contain
	// source commits that were allowed although unmerged, as recorded; proven by a signature unless the status is
	// unproven
	Exceptions  []string     `json:"exceptions,omitempty"`
	Held        []string     `json:"held,omitempty"` // descriptions of holds
	Differences []Difference `json:"differences,omitempty"`
	// tips that Sluice did not make, whatever they change, or that somebody set a branch back to
	Foreign  []Signature       `json:"foreign,omitempty"`
	Failures []hydrate.Failure `json:"failures,omitempty"`
}

// Run verifies environments. The fleet of head names the environments and their branches; no names means all, but those that belong to home
// where the repository is a site. Nothing of a branch is reused but the fields that `unstable: keep` keeps. now decides which freezes hold.
func Run(ctx context.Context, h *hydrate.Hydrator, head gitstore.Commit, names []string, now time.Time) ([]Verification,
	error,
) {
	f, _, err := h.Fleet(ctx, head.Tree)
	if err != nil {
		return nil, err
	}
	environments, err := environmentsOf(f, names)
	if err != nil {
		return nil, err
	}
	refs, err := h.Branches.List(ctx, append(f.BranchPrefixes(), incoming.Prefixes(f)...)...)
	if err != nil {
		return nil, err
	}
	r := &run{h: h, fleet: f, refs: refs, now: now}
	defer r.close()
	if r.trunk, err = readTrunk(ctx, h, f, head); err != nil {
		return nil, err
	}
	var out []Verification
	for _, name := range environments {
		if len(names) == 0 && incoming.AtHome(f, name, refs) != "" {
			continue
		}
		one, err := r.verify(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", name, err)
		}
		out = append(out, *one)
	}
	return out, nil
}

// environmentsOf returns the named environments in the order of the fleet. No names means all.
func environmentsOf(f *fleet.Fleet, names []string) ([]string, error) {
	for _, name := range names {
		if _, ok := f.Environment(name); !ok {
			return nil, fmt.Errorf("there is no environment %q in the fleet", name)
		}
	}
	var out []string
	for _, e := range f.Spec.Environments {
		if len(names) == 0 || slices.Contains(names, e.Name) {
			out = append(out, e.Name)
		}
	}
	return out, nil
}

// Any reports whether at least one branch existed and was verified.
func Any(found []Verification) bool {
	return slices.ContainsFunc(found, func(v Verification) bool { return v.Status != StatusMissing })
}

// run is one call of Run.
type run struct {
	h       *hydrate.Hydrator
	fleet   *fleet.Fleet
	refs    map[string]gitstore.Hash
	trunk   *trunk
	writers []*gitstore.Writer
	now     time.Time
}

func (r *run) close() {
	for _, w := range r.writers {
		_ = w.Close() // nothing of it is kept
	}
}

func (r *run) verify(ctx context.Context, name string) (*Verification, error) {
	ref := r.fleet.EnvironmentBranch(name)
	out := &Verification{Environment: name, Branch: ref, Status: StatusOK}
	tip, ok := r.refs[ref]
	if !ok {
		out.Status, out.Reason = StatusMissing, "branch does not exist yet"
		return out, nil
	}
	out.Commit = tip.String()
	st, err := r.state(ctx, name, tip)
	if err != nil {
		return nil, err
	}
	out.Source = st.Record.Source
	if err := st.Source().Validate(); err != nil && st.Record.Source != "" {
		out.Status = StatusFailed
		out.Reason = fmt.Sprintf("%s/environment.yaml is invalid: %v (the next `sluice promote %s` or `sluice rollback %s` writes it again)", branch.Dir, err, name, name)
		return out, nil
	}
	if st.Origin.Unsigned != nil {
		out.Unsigned = append(out.Unsigned, unsigned(ref, st.Origin.Unsigned))
	}
	source, err := r.sourceOf(ctx, st)
	if err != nil {
		out.Status, out.Reason = StatusFailed, err.Error()
		return out, nil //nolint:nilerr // the other environments can still be verified
	}
	if err := r.requireMerged(ctx, out, st); err != nil || out.Status != StatusOK {
		return out, err
	}
	f, _, err := r.h.Fleet(ctx, source.Tree)
	if err != nil {
		return nil, fmt.Errorf("source commit %s: %w", source.Hash.Short(), err)
	}
	tree, err := r.render(ctx, name, st, source, out)
	if err != nil || tree.IsZero() {
		return out, err
	}
	if err := r.compare(ctx, out, ref, tree, st.Tip.Tree); err != nil {
		return nil, err
	}
	if err := r.verifyClusters(ctx, out, f, st, tree); err != nil {
		return nil, err
	}
	switch {
	case len(out.Differences)+len(out.Foreign) > 0:
		out.Status, out.Reason = StatusDiffers, st.Foreign
	case len(out.Unsigned) > 0:
		out.Status, out.Reason = StatusUnsigned, hydrate.Count(len(out.Unsigned), "commit")+
			" without a signature that spec.signers allows"
	case len(out.Behind) > 0:
		out.Status = StatusBehind
	}
	return out, nil
}

// state fetches the branches of an environment and reads their content.
func (r *run) state(ctx context.Context, name string, tip gitstore.Hash) (*branch.State, error) {
	fetch := []gitstore.Hash{tip}
	for _, c := range r.fleet.ClustersOf(name) {
		if h := r.refs[r.fleet.ClusterBranch(c)]; !h.IsZero() {
			fetch = append(fetch, h)
		}
	}
	if err := r.h.Branches.Fetch(ctx, fetch...); err != nil {
		return nil, err
	}
	return branch.ReadState(ctx, r.h.Store, r.fleet.EnvironmentBranch(name), name, tip, r.trunk.signers)
}

// sourceOf returns the source commit of a branch: the one in its record or, if somebody changed the record, the one
// in the newest trailer of its history.
func (r *run) sourceOf(ctx context.Context, st *branch.State) (gitstore.Commit, error) {
	text := st.Record.Source
	for c := st.Tip; text == ""; {
		if text = branch.Trailer(c.Message, branch.TrailerSource); text != "" || len(c.Parents) == 0 {
			break
		}
		parent, err := r.h.Store.Commit(ctx, c.Parents[0])
		if errors.Is(err, gitstore.ErrNotFound) || errors.Is(err, gitstore.ErrShallow) {
			break // end of the available history
		}
		if err != nil {
			return gitstore.Commit{}, err
		}
		c = parent
	}
	hash, err := gitstore.ParseHash(text)
	if err != nil {
		return gitstore.Commit{}, fmt.Errorf("%s does not say which commit it was rendered from", st.Branch)
	}
	return r.h.Store.Commit(ctx, hash)
}
