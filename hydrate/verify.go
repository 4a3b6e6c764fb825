package hydrate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Difference is a file of a branch that is not what its recorded source commit gives.
type Difference struct {
	Branch string `json:"branch"`
	Path   string `json:"path"`
	Effect string `json:"effect"` // added, removed or changed by somebody else
}

// Verification is what Verify found for one environment.
type Verification struct {
	Environment string       `json:"environment"`
	Branch      string       `json:"branch"`
	Commit      string       `json:"commit,omitempty"`
	Source      string       `json:"source,omitempty"`
	Status      string       `json:"status"` // ok, differs, missing or failed
	Reason      string       `json:"reason,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
	Failures    []Failure    `json:"failures,omitempty"`
}

// Verify renders environments again from the commits that their branches record, taking nothing from them but the values
// that `unstable: keep` keeps, and compares. head's fleet says which environments and branches there are; no names means
// all.
func (h *Hydrator) Verify(ctx context.Context, head gitstore.Commit, names []string) ([]Verification, error) {
	v, err := h.open(ctx, head.Tree)
	if err != nil {
		return nil, err
	}
	if _, err := wantedEnvironments(v.fleet, names); err != nil {
		return nil, err
	}
	refs, err := h.Branches.List(ctx, v.fleet.BranchPrefixes()...)
	if err != nil {
		return nil, err
	}
	r := &run{h: h, request: Request{Commit: head}, view: v, refs: refs}
	defer r.close()
	var out []Verification
	for _, e := range v.fleet.Spec.Environments {
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

func (r *run) verify(ctx context.Context, name string) (*Verification, error) {
	branch := r.view.fleet.EnvironmentBranch(name)
	out := &Verification{Environment: name, Branch: branch, Status: "ok"}
	tip, ok := r.refs[branch]
	if !ok {
		out.Status, out.Reason = "missing", "there is no such branch yet"
		return out, nil
	}
	out.Commit = tip.String()
	st, err := r.state(ctx, name, branch, tip)
	if err != nil {
		return nil, err
	}
	out.Source = st.Record.Source
	source, err := r.sourceOf(ctx, st)
	if err != nil {
		out.Status, out.Reason = "failed", err.Error()
		return out, nil //nolint:nilerr // the other environments can still be verified
	}
	v, err := r.h.open(ctx, source.Tree)
	if err != nil {
		return nil, fmt.Errorf("source commit %s: %w", source.Hash.Short(), err)
	}
	tree, err := r.renderAgain(ctx, v, name, st, source, out)
	if err != nil || tree == nil {
		return out, err
	}
	if err := r.compare(ctx, out, branch, tree.tree, st.Tip.Tree); err != nil {
		return nil, err
	}
	if err := r.verifyClusters(ctx, out, v, name, tree); err != nil {
		return nil, err
	}
	if len(out.Differences) > 0 {
		out.Status = "differs"
		if st.Foreign != "" {
			out.Reason = st.Foreign
		}
	}
	return out, nil
}

// sourceOf is the commit that a branch was rendered from: what its record says, or, if somebody changed that, the newest
// trailer in its history.
func (r *run) sourceOf(ctx context.Context, st *branch.State) (gitstore.Commit, error) {
	text := st.Record.Source
	for c := st.Tip; text == ""; {
		if text = branch.Trailer(c.Message, branch.TrailerSource); text != "" || len(c.Parents) == 0 {
			break
		}
		parent, err := r.h.store.Commit(ctx, c.Parents[0])
		if err != nil {
			break
		}
		c = parent
	}
	hash, err := gitstore.ParseHash(text)
	if err != nil {
		return gitstore.Commit{}, fmt.Errorf("%s does not say which commit it was rendered from", st.Branch)
	}
	return r.h.store.Commit(ctx, hash)
}

func (r *run) renderAgain(ctx context.Context, v *view, name string, st *branch.State, source gitstore.Commit, out *Verification) (*written, error) {
	if len(st.Record.Apps) > 0 {
		return r.mixedAgain(ctx, name, st, out)
	}
	fresh := *st
	fresh.Kinds = branch.Kinds{}
	fresh.Foreign = "verify" // so that objects are counted, not taken from the record
	plan, err := r.h.plan(ctx, v, name, &fresh, nil, true)
	if err != nil {
		return nil, err
	}
	w, err := r.h.store.NewWriter()
	if err != nil {
		return nil, err
	}
	r.writers = append(r.writers, w)
	tree, _, err := r.h.render(ctx, plan, source.Hash.String(), w)
	if err != nil {
		return nil, err
	}
	if tree == nil {
		out.Status, out.Reason, out.Failures = "failed", "targets could not be rendered again", plan.failures
	}
	return tree, nil
}

// mixedAgain renders an environment whose apps come from several source commits.
func (r *run) mixedAgain(ctx context.Context, name string, st *branch.State, out *Verification) (*written, error) {
	fresh := *st
	fresh.Kinds, fresh.Foreign = branch.Kinds{}, "verify"
	fresh.Tip = gitstore.Commit{} // nothing is taken from the branch
	source := st.Source()
	commits := map[string]gitstore.Commit{}
	for _, c := range append(slices.Collect(maps.Values(source.Apps)), source.Commit) {
		hash, err := gitstore.ParseHash(c)
		if err == nil {
			commits[c], err = r.h.store.Commit(ctx, hash)
		}
		if err != nil {
			out.Status, out.Reason = "failed", err.Error()
			return nil, nil //nolint:nilnil,nilerr // told in out
		}
	}
	w, err := r.h.store.NewWriter()
	if err != nil {
		return nil, err
	}
	r.writers = append(r.writers, w)
	tree, failure, err := r.h.Compose(ctx, Composition{Environment: name, Source: source, Running: &fresh, Commits: commits, All: true}, w)
	if err != nil {
		return nil, err
	}
	if failure != "" {
		out.Status, out.Reason = "failed", failure
		return nil, nil //nolint:nilnil // told in out
	}
	done, err := branch.ReadTree(ctx, r.h.store, tree)
	if err != nil {
		return nil, err
	}
	return &written{tree: tree, clusters: done.Clusters}, nil
}

func (r *run) compare(ctx context.Context, out *Verification, branch string, want, have gitstore.Hash) error {
	changes, err := r.h.store.Changes(ctx, want, have)
	if err != nil {
		return err
	}
	for _, c := range changes {
		d := Difference{Branch: branch, Path: c.Path, Effect: "changed"}
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

// verifyClusters holds the cluster branches against the environment as it should be.
func (r *run) verifyClusters(ctx context.Context, out *Verification, v *view, name string, tree *written) error {
	for _, c := range v.fleet.ClustersOf(name) {
		branch := v.fleet.ClusterBranch(c)
		want, placed := tree.clusters[c.Name]
		tip, ok := r.refs[branch]
		switch {
		case !placed || c.State == "frozen":
			continue
		case !ok:
			out.Differences = append(out.Differences, Difference{Branch: branch, Path: ".", Effect: "removed"})
			continue
		}
		commit, err := r.h.store.Commit(ctx, tip)
		if err != nil {
			return err
		}
		if err := r.compare(ctx, out, branch, want, commit.Tree); err != nil {
			return err
		}
	}
	return nil
}
