package bot

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
)

// A review compares a merge request with its merge base and judges it by the policy of the trunk. A new commit of the
// trunk concerns a merge request if it changes
//
//   - policy, sluice.yaml, sluice.lock, or the file of a cluster or a workspace;
//   - a file that the merge request changes too: they may conflict, or the merge base moved;
//   - a target that the merge request can affect, for example by a layer that both read.
//
// Other commits cannot change the effect of merging it. If the effect of a commit is unknown, the commit concerns every
// merge request.
//
// A review for a fleet renders the fleet's trunk. A new commit of the trunk does not concern the review if it changes
// only values and Markdown files, and no target that the review compares. Every other file may decide which targets
// read the changed repository.

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

// fleetScope is what the last review of a merge request for one fleet depends on.
type fleetScope struct {
	trunk   gitstore.Hash // tree
	targets []fleet.AffectedTarget
	all     bool // every commit of the trunk concerns the review
}

func fleetScopeKey(p hint.Place, number int, fleetPlace hint.Place) string {
	return headKey(p, number) + " " + string(fleetPlace.Fold())
}

// rememberScope remembers what a review depends on. A review that is incomplete, or larger than maxScopeSize, has no
// scope.
func (t *reviewTask) rememberScope(ctx context.Context, r *report.Review, s scope) {
	key := headKey(t.place, t.mr.Number)
	t.scopes.Remove(key)
	if len(r.Errors) > 0 || r.Changes == nil || len(r.Changes.Withheld) > 0 || r.Changes.Unclaimed() > 0 ||
		len(r.Scope) > maxScopeSize {
		return
	}
	files, err := t.space.Fleets.Changed(ctx, s.base.Tree, s.head.Tree)
	if err != nil || len(files) > maxScopeSize {
		return
	}
	s.targets, s.files = r.Scope, files
	t.scopes.Add(key, &s)
}

// current reports whether the last review of the merge request had the same input, apart from commits of the target
// branch that do not concern the merge request.
func (t *reviewTask) current(ctx context.Context) bool {
	last, now := t.state(t.mr.Number).own.input, inputOf(t.mr, t.target.Hash, t.identity)
	if last == now {
		return true
	}
	key := headKey(t.place, t.mr.Number)
	s, ok := t.scopes.Get(key)
	// Fleets of other branches are read in worker processes only.
	if !ok || last != inputOf(t.mr, s.target.Hash, t.identity) || t.mr.TargetBranch != t.trunkBranch(ctx) {
		return false
	}
	e := t.effects().of(ctx, t.space.Fleets, move{s.target.Tree, t.target.Tree})
	if e.all || overlaps(e.files, s.files) || shares(e.targets, s.targets) {
		return false
	}
	next := *s
	next.target = t.target
	t.scopes.Add(key, &next)
	t.update(t.mr.Number, func(s *headState) { s.reviewedOwn(now) })
	t.log.Debug("the trunk's new commits do not concern the merge request", "merge_request", t.mr.Number, "trunk",
		t.target.Hash.String())
	return true
}

// rememberFleetScope remembers what a review for a fleet depends on. A review that is incomplete, larger than
// maxScopeSize or includes a change of the fleet depends on every commit of the trunk.
func (t *reviewTask) rememberFleetScope(u companions.Use, r *report.Review) {
	change := t.deps.In(u.Fleet).Change
	s := &fleetScope{trunk: u.Trunk, targets: r.Scope}
	if change != nil || len(r.Errors) > 0 || r.Changes == nil || len(r.Changes.Withheld) > 0 || r.Scope == nil ||
		len(r.Scope) > maxScopeSize {
		s.all, s.targets = true, nil
	}
	t.fleetScopes.Add(fleetScopeKey(t.place, t.mr.Number, u.Fleet), s)
	t.update(t.mr.Number, func(s *headState) { s.trunks[u.Fleet.Fold()] = u.Trunk })
}

// currentForFleets reports whether the reviews for fleets need not run: nothing that they depend on has changed since
// the last ones, the same head exceeded a limit before, or there are no such fleets.
func (t *reviewTask) currentForFleets(ctx context.Context) bool {
	uses := t.uses.Of(t.place)
	if len(uses) == 0 {
		return true
	}
	s := t.state(t.mr.Number)
	if same, err := t.status(t.mr, s.verdict).hasBasis(ctx, t.identity); err != nil || !same {
		return false // the review reports the error
	}
	if s.fleets.limit == t.limit() {
		return true
	}
	if s.fleets.input != inputFor(t.mr, t.target.Hash, uses, t.identity) || s.fleets.lacks.due(t.mr.Head, t.Clock()) {
		return false
	}
	return !slices.ContainsFunc(uses, func(u companions.Use) bool { return !t.currentFor(ctx, u) })
}

// currentFor reports whether no commit of a fleet's trunk since the last review for the fleet concerns that review.
func (t *reviewTask) currentFor(ctx context.Context, u companions.Use) bool {
	// also without the scope, which may have been evicted
	if last, ok := t.state(t.mr.Number).trunks[u.Fleet.Fold()]; ok && last == u.Trunk {
		return true
	}
	key := fleetScopeKey(t.place, t.mr.Number, u.Fleet)
	s, ok := t.fleetScopes.Get(key)
	if !ok || s.all {
		return false
	}
	m := move{s.trunk, u.Trunk}
	if t.effects()[m] == nil {
		space, err := t.Open(ctx, u.Fleet)
		if err != nil {
			return false // the review reports it
		}
		t.moves.of(ctx, space.Fleets, m)
		space.Close()
	}
	e := t.moves[m]
	if e.all || slices.ContainsFunc(e.files, decidesReads) || shares(e.targets, s.targets) {
		return false
	}
	next := *s
	next.trunk = u.Trunk
	t.fleetScopes.Add(key, &next)
	t.update(t.mr.Number, func(s *headState) { s.trunks[u.Fleet.Fold()] = u.Trunk })
	t.log.Debug("the new commits of a fleet's trunk do not concern the merge request", "merge_request", t.mr.Number,
		"fleet", u.Fleet.String(), "trunk", u.Trunk.String())
	return true
}

// effects returns what moves of trunks change, as far as the task knows it.
func (t *task) effects() moves {
	if t.moves == nil {
		t.moves = moves{}
	}
	return t.moves
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
		if err != nil || slices.ContainsFunc(f.Clusters, func(c *fleet.Cluster) bool {
			return slices.Contains(files,
				c.File)
		}) ||
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

// shares reports whether two changes affect the same target. If one of them adds or removes targets, a common app or
// cluster suffices, because the other change may affect an added target.
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

// decidesReads reports whether a file of a fleet can decide which other files a target reads. Values and Markdown files
// cannot.
func decidesReads(file string) bool {
	name := path.Base(file)
	switch path.Ext(name) {
	case ".md":
		return false
	case ".yaml", ".yml":
		return !strings.HasPrefix(name, "values")
	}
	return true
}
