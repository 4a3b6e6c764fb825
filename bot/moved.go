package bot

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
)

// A review compares a merge request with its merge base and judges it by the policy of the trunk. A new commit of the trunk concerns a
// merge request if it changes
//
//   - policy, sluice.yaml, sluice.lock, or the file of a cluster or a workspace;
//   - a file that the merge request changes too: they may conflict, or the merge base moved;
//   - a target that the merge request can affect, for example by a layer that both read.
//
// Other commits cannot change the effect of merging it. If the effect of a commit is unknown, the commit concerns every merge request.

const (
	maxScopes    = 500
	maxScopeSize = 2000 // targets, and files
)

// scope is what the last review of a merge request depends on.
type scope struct {
	target, base, head gitstore.Commit
	targets            []fleet.AffectedTarget
	files              []string
}

// move is a move of the trunk from one tree to another.
type move struct{ from, to gitstore.Hash }

// moves keep the effects of moves during a job.
type moves map[move]*effect

// effect is what a move of the trunk changes.
type effect struct {
	files   []string
	targets []fleet.AffectedTarget
	all     bool // it concerns every merge request
}

// rememberScope remembers what a review depends on. A review that is incomplete, or larger than maxScopeSize, has no scope.
func rememberScope(ctx context.Context, j *job, mr *forge.MergeRequest, r *report.Review, s scope) {
	key := j.subject(reviewKey(mr.Number))
	j.scopes.Remove(key)
	if len(r.Errors) > 0 || r.Changes == nil || len(r.Changes.Withheld) > 0 || len(r.Scope) > maxScopeSize {
		return
	}
	files, err := j.space.Fleets.Changed(ctx, s.base.Tree, s.head.Tree)
	if err != nil || len(files) > maxScopeSize {
		return
	}
	s.targets, s.files = r.Scope, files
	j.scopes.Add(key, &s)
}

// reviewedAt reports whether the last review of a merge request is still valid: it had the same head, labels and dependencies, and the same tip of the
// target branch or an earlier one whose later commits do not concern the merge request.
func (j *job) reviewedAt(ctx context.Context, mr *forge.MergeRequest, target gitstore.Commit, identity string) bool {
	key := reviewKey(mr.Number)
	if j.seen(key, reviewState(mr, target.Hash, identity)) {
		return true
	}
	s, ok := j.scopes.Get(j.subject(key))
	// Fleets of other branches are read in worker processes only.
	if !ok || !j.seen(key, reviewState(mr, s.target.Hash, identity)) || mr.TargetBranch != j.trunkBranch(ctx) {
		return false
	}
	if j.moves == nil {
		j.moves = moves{}
	}
	e := j.moves.of(ctx, j.space.Fleets, move{s.target.Tree, target.Tree})
	if e.all || overlaps(e.files, s.files) || shares(e.targets, s.targets) {
		return false
	}
	next := *s
	next.target = target
	j.scopes.Add(j.subject(key), &next)
	j.remember(key, reviewState(mr, target.Hash, identity))
	j.log.Debug("the trunk's new commits do not concern the merge request", "merge_request", mr.Number, "trunk", target.Hash.String())
	return true
}

// of returns what a move of the trunk changes.
func (m moves) of(ctx context.Context, fleets Fleets, one move) *effect {
	if have := m[one]; have != nil {
		return have
	}
	m[one] = &effect{}
	if one.from != one.to {
		m[one] = effectOf(ctx, fleets, one)
	}
	return m[one]
}

func effectOf(ctx context.Context, fleets Fleets, m move) *effect {
	all := &effect{all: true}
	files, err := fleets.Changed(ctx, m.from, m.to)
	if err != nil || slices.ContainsFunc(files, decidesAll) {
		return all
	}
	for _, tree := range []gitstore.Hash{m.from, m.to} {
		f, _, err := fleets.Fleet(ctx, tree)
		if err != nil || slices.ContainsFunc(f.Clusters, func(c *fleet.Cluster) bool { return slices.Contains(files, c.File) }) ||
			slices.ContainsFunc(f.Workspaces, func(w *fleet.Workspace) bool { return slices.Contains(files, w.File) }) {
			return all
		}
	}
	targets, err := fleets.Affected(ctx, m.from, m.to)
	if err != nil {
		return all
	}
	return &effect{files: files, targets: targets}
}

// decidesAll reports whether every review depends on a file.
func decidesAll(file string) bool {
	return file == fleet.File || file == fetch.LockFile || strings.HasPrefix(file, policy.Dir+"/")
}

// overlaps reports whether two lists have a file in common, or one has a file where the other has a folder.
func overlaps(a, b []string) bool {
	held := map[string]bool{}
	for _, file := range a {
		for _, folder := range prefixes(file) {
			held[folder] = held[folder] || folder == file
		}
	}
	return slices.ContainsFunc(b, func(file string) bool {
		if _, ok := held[file]; ok { // the file, or a folder of a
			return true
		}
		return slices.ContainsFunc(prefixes(file), func(folder string) bool { return held[folder] })
	})
}

// prefixes returns a path and the folders that it is in.
func prefixes(file string) []string {
	out := []string{file}
	for i, c := range file {
		if c == '/' {
			out = append(out, file[:i])
		}
	}
	return out
}

// shares reports whether two changes affect the same target. If one of them adds or removes targets, a common app or cluster
// suffices, because the other change may affect an added target.
func shares(a, b []fleet.AffectedTarget) bool {
	exists := func(t fleet.AffectedTarget) bool { return t.Effect != fleet.EffectChanged }
	wide := slices.ContainsFunc(a, exists) || slices.ContainsFunc(b, exists)
	clusters, apps, targets := map[string]bool{}, map[string]bool{}, map[[2]string]bool{}
	for _, t := range a {
		clusters[t.Cluster], apps[t.App], targets[[2]string{t.Cluster, t.App}] = true, true, true
	}
	return slices.ContainsFunc(b, func(t fleet.AffectedTarget) bool {
		return targets[[2]string{t.Cluster, t.App}] || wide && (clusters[t.Cluster] || apps[t.App])
	})
}
