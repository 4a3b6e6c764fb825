package verify

import (
	"context"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// render renders an environment again from its source commits. If that is not possible, it returns the zero hash and
// sets the reason in out.
func (r *run) render(ctx context.Context, name string, st *branch.State, source gitstore.Commit,
	out *Verification,
) (gitstore.Hash, error) {
	w, err := r.h.Store.NewWriter()
	if err != nil {
		return gitstore.Hash{}, err
	}
	r.writers = append(r.writers, w)
	fresh := *st
	fresh.Kinds = branch.Kinds{}
	fresh.Foreign = "to be verified" // makes the objects be counted instead of using the recorded number
	if len(st.Record.Apps)+len(st.Record.Clusters) > 0 {
		return r.compose(ctx, name, &fresh, out, w)
	}
	done, err := r.h.RenderCommit(ctx, hydrate.CommitRequest{
		Environment: name, Commit: source, State: &fresh,
		All: true,
	}, w)
	if err != nil {
		return gitstore.Hash{}, err
	}
	if len(done.Failures) > 0 {
		out.Status, out.Reason, out.Failures = StatusFailed, "targets could not be rendered again", done.Failures
	}
	return done.Tree, nil
}

// compose renders an environment whose apps come from several source commits.
func (r *run) compose(ctx context.Context, name string, st *branch.State, out *Verification,
	w *gitstore.Writer,
) (gitstore.Hash, error) {
	source := st.Source()
	st.Tip = gitstore.Commit{} // take no app from the branch
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
	done, err := r.h.Compose(ctx, hydrate.Composition{
		Environment: name, Source: source, Running: st, Commits: commits,
		All: true,
	}, w)
	if err != nil {
		return gitstore.Hash{}, err
	}
	if done.Failure != "" {
		out.Status, out.Reason = StatusFailed, done.Failure
	}
	return done.Tree, nil
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
