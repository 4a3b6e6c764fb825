package hydrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// commit makes the environment's commits and moves its branches: cluster branches first, the environment branch last.
// If a run is interrupted, the environment branch still has its old record, so the next run does the missing moves.
func (r *run) commit(ctx context.Context, out *EnvironmentResult, p *environmentPlan, tree *written,
	w *gitstore.Writer,
) error {
	moves, err := r.clusterMoves(ctx, out, p, tree, w)
	if err != nil {
		return err
	}
	tip := p.state.Tip
	out.New = hashText(tip.Hash)
	// Overwrite puts a commit of Sluice on a foreign one
	if tree.tree != tip.Tree || !p.state.Exists() || p.state.Foreign != "" {
		h, err := r.describe(out, tree.tree, tip.Hash, &tree.counts).Write(w)
		if err != nil {
			return err
		}
		moves = append(moves, gitstore.Move{Branch: out.Branch, Old: tip.Hash, New: h})
		out.New = h.String()
	}
	switch {
	case len(moves) == 0:
		out.Status = StatusUnchanged
		return nil
	case !r.request.Write:
		out.Status = StatusPlanned
		return nil
	}
	if err := RequireSigner(ctx, r.h.Store, moves, r.signers); err != nil {
		return err
	}
	r.h.Progress("push "+p.name, 0, len(moves))
	out.Status, out.Reason, err = r.push(ctx, out, !p.state.Exists(), moves, w)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil { // this fails only this environment
		out.Status, out.Reason = StatusRejected, err.Error()
	}
	if out.Status != StatusUpdated {
		out.New, out.Clusters = "", nil
	}
	return nil
}

// clusterMoves returns the moves of cluster branches, and an *admit.RefusedError if one of them must not move.
func (r *run) clusterMoves(ctx context.Context, out *EnvironmentResult, p *environmentPlan, tree *written,
	w *gitstore.Writer,
) ([]gitstore.Move, error) {
	var moves []gitstore.Move
	for _, c := range r.view.Fleet.ClustersOf(p.name) {
		name := r.view.Fleet.ClusterBranch(c)
		tip := r.refs.Output[name]
		want, ok := tree.clusters[c.Name]
		switch {
		case c.Frozen():
			continue
		case !ok || c.Retired():
			if r.request.Prune && !tip.IsZero() && !c.Detached {
				moves = append(moves, r.deletion(out, c.Name, name, tip))
			}
			continue
		}
		if _, held := p.state.Clusters[c.Name]; held && tip.IsZero() && !r.request.Recreate {
			return nil, admit.Refusef("somebody deleted the branch %s: run with --recreate to create it again, or retire the cluster", name)
		}
		changed, err := r.changes(ctx, out.Name, c, tip, want)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		rendered := r.describe(out, want, tip, nil)
		rendered.Trailers = append(rendered.Trailers, gitstore.Trailer{Key: branch.TrailerCluster, Value: c.Name})
		rendered.Trailers = append(rendered.Trailers, heldTrailers(tree.source, c.Name)...)
		h, err := rendered.Write(w)
		if err != nil {
			return nil, err
		}
		moves = append(moves, gitstore.Move{Branch: name, Old: tip, New: h})
		out.Clusters = append(out.Clusters, ClusterResult{
			Cluster: c.Name, Branch: name, Old: hashText(tip),
			New: h.String(),
		})
	}
	if r.request.Prune {
		gone, err := r.goneBranches(ctx, out, nil)
		if err != nil {
			return nil, err
		}
		moves = append(moves, gone...)
	}
	return moves, nil
}

func (r *run) deletion(out *EnvironmentResult, cluster, branch string, tip gitstore.Hash) gitstore.Move {
	out.Clusters = append(out.Clusters, ClusterResult{Cluster: cluster, Branch: branch, Old: hashText(tip)})
	return gitstore.Move{Branch: branch, Old: tip}
}

// changes reports whether a cluster branch needs a commit: its tree differs, or its tip is foreign and the request
// overwrites it. Otherwise a foreign commit is an *admit.RefusedError.
func (r *run) changes(ctx context.Context, environment string, c *fleet.Cluster, tip, want gitstore.Hash) (bool,
	error,
) {
	if tip.IsZero() {
		return true, nil
	}
	current, err := r.h.Store.Commit(ctx, tip)
	if err != nil {
		return false, err
	}
	origin, err := branch.Inspect(ctx, r.h.Store, current, branch.Owner{Environment: environment, Cluster: c.Name},
		r.signers)
	switch {
	case err != nil:
		return false, err
	case origin.Unsigned == nil && !origin.Misplaced && current.Tree == want:
		return false, nil
	case origin.Foreign != "" && !r.request.Overwrite:
		return false, admit.Foreign(r.view.Fleet.ClusterBranch(c), origin, r.h.Branches)
	}
	return current.Tree != want || origin.Foreign != "", nil
}

// prune deletes the branches of clusters that left an environment which this run does not write otherwise: only those
// that the environment branch does not have any more. It asks no gate, because nothing else moves.
func (r *run) prune(ctx context.Context, out *EnvironmentResult, st *branch.State) error {
	var moves []gitstore.Move
	for _, c := range r.view.Fleet.ClustersOf(out.Name) {
		name := r.view.Fleet.ClusterBranch(c)
		if tip := r.refs.Output[name]; c.Retired() && !c.Detached && !tip.IsZero() && st.Clusters[c.Name].IsZero() {
			moves = append(moves, r.deletion(out, c.Name, name, tip))
		}
	}
	gone, err := r.goneBranches(ctx, out, st.Clusters)
	if err != nil {
		return err
	}
	if moves = append(moves, gone...); len(moves) == 0 {
		out.Status, out.Reason = StatusUnchanged, "every cluster branch is of a cluster that the environment has"
		return nil
	}
	w, err := r.h.Store.NewWriter()
	if err != nil {
		return err
	}
	r.writers = append(r.writers, w)
	if out.Status, out.Reason, err = r.push(ctx, out, false, moves, w); err != nil {
		out.Status, out.Reason = StatusRejected, err.Error()
	}
	if out.Status != StatusUpdated {
		out.Clusters = nil
	}
	return ctx.Err()
}

// goneBranches deletes the branches of clusters that the registry no longer has, apart from those in keep. It deletes
// only branches whose last commit Sluice made for this environment.
func (r *run) goneBranches(ctx context.Context, out *EnvironmentResult, keep map[string]gitstore.Hash) ([]gitstore.Move,
	error,
) {
	known := map[string]bool{}
	for _, c := range r.view.Fleet.Clusters {
		known[r.view.Fleet.ClusterBranch(c)] = true
	}
	for _, e := range r.view.Fleet.Spec.Environments {
		known[r.view.Fleet.EnvironmentBranch(e.Name)] = true
	}
	var unknown []string
	var tips []gitstore.Hash
	for name, tip := range r.refs.Output {
		if !known[name] {
			unknown, tips = append(unknown, name), append(tips, tip)
		}
	}
	if err := r.h.Branches.Fetch(ctx, tips...); err != nil {
		return nil, err
	}
	slices.Sort(unknown)
	var moves []gitstore.Move
	for _, name := range unknown {
		tip, err := r.h.Store.Commit(ctx, r.refs.Output[name])
		if err != nil {
			return nil, err
		}
		origin, err := branch.Inspect(ctx, r.h.Store, tip, branch.Owner{Environment: out.Name}, r.signers)
		if err != nil {
			return nil, err
		}
		made := origin.Rendered.Message
		if origin.Foreign == "" && branch.Trailer(made, branch.TrailerEnvironment) == out.Name &&
			branch.Trailer(made, branch.TrailerSource) != "" && name != out.Branch &&
			keep[branch.Trailer(made, branch.TrailerCluster)].IsZero() {
			moves = append(moves, r.deletion(out, name, name, tip.Hash))
		}
	}
	return moves, nil
}

// describe returns the metadata of a rendered commit. Author, date and message come from the source commit, so that
// equal inputs give equal commit ids.
func (r *run) describe(out *EnvironmentResult, tree, parent gitstore.Hash, counts *ObjectCounts) branch.Commit {
	source := r.request.Commit
	subject, _, _ := strings.Cut(strings.TrimSpace(source.Message), "\n")
	body := fmt.Sprintf("Rendered from %s.", source.Hash)
	if counts != nil {
		body = fmt.Sprintf("Rendered from %s: %d objects, %d added, %d changed, %d removed.", source.Hash, counts.Total,
			counts.Added, counts.Changed, counts.Removed)
	}
	return branch.Commit{
		Tree: tree, Parent: parent, Author: source.Author,
		Committer: branch.Committer(r.view.Fleet.Spec.Output.Committer).At(source.Committer.When),
		Subject:   cmp.Or(subject, "(no subject)"), Body: body,
		Trailers: r.trailers(out), Version: r.h.Version, Signer: r.h.Signer,
	}
}

// trailers returns the trailers of a rendered commit, including the exceptions of this run.
func (r *run) trailers(out *EnvironmentResult) []gitstore.Trailer {
	list := []gitstore.Trailer{
		{Key: branch.TrailerSource, Value: r.request.Commit.Hash.String()},
		{Key: branch.TrailerEnvironment, Value: out.Name},
	}
	if !out.unmergedAt.IsZero() {
		list = append(list, gitstore.Trailer{Key: branch.TrailerUnmerged, Value: out.unmergedAt.String()})
	}
	for _, exception := range out.policyExceptions {
		list = append(list, gitstore.Trailer{Key: branch.TrailerPolicyException, Value: exception})
	}
	return list
}

// hashText returns the hash as text, and "" for the zero hash.
func hashText(h gitstore.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}
