// Package verify renders environment branches again from the source commits that they record, and compares. It writes
// nothing.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// Difference is a file of a branch that differs from what the recorded source commit renders to.
type Difference struct {
	Branch string `json:"branch"`
	Path   string `json:"path"`
	Effect string `json:"effect"` // added, removed or changed, as seen from the rendering
}

// Statuses of a Verification.
const (
	StatusOK      = "ok"
	StatusBehind  = "behind" // clusters run an earlier state, as planned: a rollout, a freeze, a halt
	StatusDiffers = "differs"
	StatusMissing = "missing" // the branch does not exist
	StatusFailed  = "failed"  // the source commit is unknown or cannot be rendered
)

// Behind is a cluster that runs an earlier state of its environment, as planned.
type Behind struct {
	Cluster string `json:"cluster"`
	Branch  string `json:"branch"`
	Source  string `json:"source"` // what it runs
	Reason  string `json:"reason"`
}

// Verification is the result for one environment.
type Verification struct {
	Environment string            `json:"environment"`
	Branch      string            `json:"branch"`
	Commit      string            `json:"commit,omitempty"`
	Source      string            `json:"source,omitempty"`
	Status      string            `json:"status"`
	Reason      string            `json:"reason,omitempty"`
	Behind      []Behind          `json:"behind,omitempty"`
	Held        []string          `json:"held,omitempty"` // what is held back, in words
	Differences []Difference      `json:"differences,omitempty"`
	Failures    []hydrate.Failure `json:"failures,omitempty"`
}

// Run verifies environments. The fleet of head names the environments and their branches; no names means all. Nothing of
// a branch is reused but the fields that `unstable: keep` keeps. now decides which freezes hold.
func Run(ctx context.Context, h *hydrate.Hydrator, head gitstore.Commit, names []string, now time.Time) ([]Verification, error) {
	f, _, err := h.Fleet(ctx, head.Tree)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, ok := f.Environment(name); !ok {
			return nil, fmt.Errorf("there is no environment %q in the fleet", name)
		}
	}
	refs, err := h.Branches.List(ctx, f.BranchPrefixes()...)
	if err != nil {
		return nil, err
	}
	r := &run{h: h, fleet: f, refs: refs, now: now}
	defer r.close()
	var out []Verification
	for _, e := range f.Spec.Environments {
		if len(names) > 0 && !slices.Contains(names, e.Name) {
			continue
		}
		one, err := r.verify(ctx, e.Name)
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", e.Name, err)
		}
		out = append(out, *one)
	}
	return out, nil
}

// Any reports whether at least one branch existed and was looked at.
func Any(found []Verification) bool {
	return slices.ContainsFunc(found, func(v Verification) bool { return v.Status != StatusMissing })
}

// run is one call of Run.
type run struct {
	h       *hydrate.Hydrator
	fleet   *fleet.Fleet
	refs    map[string]gitstore.Hash
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
	source, err := r.sourceOf(ctx, st)
	if err != nil {
		out.Status, out.Reason = StatusFailed, err.Error()
		return out, nil //nolint:nilerr // the other environments can still be verified
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
	case len(out.Differences) > 0:
		out.Status, out.Reason = StatusDiffers, st.Foreign
	case len(out.Behind) > 0:
		out.Status = StatusBehind
	}
	return out, nil
}

// state fetches the branches of an environment and reads what they hold.
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
	return branch.ReadState(ctx, r.h.Store, r.fleet.EnvironmentBranch(name), tip)
}

// sourceOf returns the commit that a branch was rendered from: the one of its record or, if somebody changed the record,
// the newest trailer in its history.
func (r *run) sourceOf(ctx context.Context, st *branch.State) (gitstore.Commit, error) {
	text := st.Record.Source
	for c := st.Tip; text == ""; {
		if text = branch.Trailer(c.Message, branch.TrailerSource); text != "" || len(c.Parents) == 0 {
			break
		}
		parent, err := r.h.Store.Commit(ctx, c.Parents[0])
		if errors.Is(err, gitstore.ErrNotFound) || errors.Is(err, gitstore.ErrShallow) {
			break // the history that is known ends here
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

// render renders an environment again from its source commits. It returns the zero hash, and says why in out, if that
// is not possible.
func (r *run) render(ctx context.Context, name string, st *branch.State, source gitstore.Commit, out *Verification) (gitstore.Hash, error) {
	w, err := r.h.Store.NewWriter()
	if err != nil {
		return gitstore.Hash{}, err
	}
	r.writers = append(r.writers, w)
	fresh := *st
	fresh.Kinds = branch.Kinds{}
	fresh.Foreign = "to be verified" // the number of objects is counted, not taken from the record
	if len(st.Record.Apps)+len(st.Record.Clusters) > 0 {
		return r.compose(ctx, name, &fresh, out, w)
	}
	done, err := r.h.RenderCommit(ctx, hydrate.CommitRequest{Environment: name, Commit: source, State: &fresh, All: true}, w)
	if err != nil {
		return gitstore.Hash{}, err
	}
	if len(done.Failures) > 0 {
		out.Status, out.Reason, out.Failures = StatusFailed, "targets could not be rendered again", done.Failures
	}
	return done.Tree, nil
}

// compose renders an environment whose apps come from several source commits.
func (r *run) compose(ctx context.Context, name string, st *branch.State, out *Verification, w *gitstore.Writer) (gitstore.Hash, error) {
	source := st.Source()
	st.Tip = gitstore.Commit{} // so that no app is taken from the branch
	commits := map[string]gitstore.Commit{}
	for _, c := range source.Commits() {
		hash, err := gitstore.ParseHash(c)
		if err == nil {
			commits[c], err = r.h.Store.Commit(ctx, hash)
		}
		if err != nil {
			out.Status, out.Reason = StatusFailed, err.Error()
			return gitstore.Hash{}, nil //nolint:nilerr // reported in out
		}
	}
	tree, failure, err := r.h.Compose(ctx, hydrate.Composition{Environment: name, Source: source, Running: st, Commits: commits, All: true}, w)
	if err != nil {
		return gitstore.Hash{}, err
	}
	if failure != "" {
		out.Status, out.Reason = StatusFailed, failure
	}
	return tree, nil
}

// compare adds the files that differ between two trees.
func (r *run) compare(ctx context.Context, out *Verification, ref string, want, have gitstore.Hash) error {
	changes, err := r.h.Store.Changes(ctx, want, have)
	if err != nil {
		return err
	}
	for _, c := range changes {
		d := Difference{Branch: ref, Path: c.Path, Effect: "changed"}
		switch {
		case c.Old.Hash.IsZero():
			d.Effect = "added"
		case c.New.Hash.IsZero():
			d.Effect = "removed"
		}
		out.Differences = append(out.Differences, d)
	}
	return nil
}

// verifyClusters compares the cluster branches with the clusters of a rendered environment. A cluster that runs an earlier
// state of the environment, for a reason that the record names, is behind and does not differ.
func (r *run) verifyClusters(ctx context.Context, out *Verification, f *fleet.Fleet, st *branch.State, tree gitstore.Hash) error {
	rendered, err := branch.ReadTree(ctx, r.h.Store, tree)
	if err != nil {
		return err
	}
	record, err := promotion.ReadRecord(ctx, r.h, out.Environment)
	if err != nil {
		return err
	}
	for _, h := range record.Holds {
		out.Held = append(out.Held, h.String())
	}
	for _, c := range f.ClustersOf(out.Environment) {
		ref := f.ClusterBranch(c)
		want, placed := rendered.Clusters[c.Name]
		tip, ok := r.refs[ref]
		switch {
		case !placed:
			continue
		case !ok:
			if c.State != "frozen" {
				out.Differences = append(out.Differences, Difference{Branch: ref, Path: ".", Effect: "removed"})
			}
			continue
		}
		commit, err := r.h.Store.Commit(ctx, tip)
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

// behind says why a cluster runs an earlier state of its environment; nil if it does not, or if nothing explains it.
func (r *run) behind(ctx context.Context, c *fleet.Cluster, st *branch.State, tree gitstore.Hash, record promote.Record) (*Behind, error) {
	e, _ := r.fleet.Environment(c.Environment) // a removed environment follows nothing
	if len(e.After) == 0 && record.Progress == nil && len(record.Freezes) == 0 && c.State != "frozen" {
		return nil, nil //nolint:nilnil // hydration moves all clusters at once
	}
	reason, ok := promote.BehindAsPlanned(record, hashText(st.Tip.Tree), promote.Cluster{Name: c.Name, State: c.State}, r.now)
	if !ok {
		return nil, nil //nolint:nilnil // nothing explains it
	}
	was, err := promotion.EarlierState(ctx, r.h, st, c.Name, tree)
	if errors.Is(err, promote.ErrNoTree) {
		return nil, nil //nolint:nilnil // the environment never had it
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
