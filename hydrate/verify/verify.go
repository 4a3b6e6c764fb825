// Package verify renders environment branches again from the source commits that they record, and compares. It writes
// nothing.
package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
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
	StatusDiffers = "differs"
	StatusMissing = "missing" // the branch does not exist
	StatusFailed  = "failed"  // the source commit is unknown or cannot be rendered
)

// Verification is the result for one environment.
type Verification struct {
	Environment string            `json:"environment"`
	Branch      string            `json:"branch"`
	Commit      string            `json:"commit,omitempty"`
	Source      string            `json:"source,omitempty"`
	Status      string            `json:"status"`
	Reason      string            `json:"reason,omitempty"`
	Differences []Difference      `json:"differences,omitempty"`
	Failures    []hydrate.Failure `json:"failures,omitempty"`
}

// Run verifies environments. The fleet of head names the environments and their branches; no names means all. Nothing of
// a branch is reused but the fields that `unstable: keep` keeps.
func Run(ctx context.Context, h *hydrate.Hydrator, head gitstore.Commit, names []string) ([]Verification, error) {
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
	r := &run{h: h, fleet: f, refs: refs}
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

// run is one call of Run.
type run struct {
	h       *hydrate.Hydrator
	fleet   *fleet.Fleet
	refs    map[string]gitstore.Hash
	writers []*gitstore.Writer
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
	if err := r.verifyClusters(ctx, out, f, name, tree); err != nil {
		return nil, err
	}
	if len(out.Differences) > 0 {
		out.Status, out.Reason = StatusDiffers, st.Foreign
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
		if err != nil {
			break
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
	if len(st.Record.Apps) > 0 {
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
	for _, c := range append(slices.Collect(maps.Values(source.Apps)), source.Commit) {
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

// verifyClusters compares the cluster branches with the clusters of a rendered environment.
func (r *run) verifyClusters(ctx context.Context, out *Verification, f *fleet.Fleet, name string, tree gitstore.Hash) error {
	rendered, err := branch.ReadTree(ctx, r.h.Store, tree)
	if err != nil {
		return err
	}
	for _, c := range f.ClustersOf(name) {
		ref := f.ClusterBranch(c)
		want, placed := rendered.Clusters[c.Name]
		tip, ok := r.refs[ref]
		switch {
		case !placed || c.State == "frozen":
			continue
		case !ok:
			out.Differences = append(out.Differences, Difference{Branch: ref, Path: ".", Effect: "removed"})
			continue
		}
		commit, err := r.h.Store.Commit(ctx, tip)
		if err != nil {
			return err
		}
		if err := r.compare(ctx, out, ref, want, commit.Tree); err != nil {
			return err
		}
	}
	return nil
}
