package bot

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// A review for a fleet renders the fleet's trunk. A new commit of the trunk does not concern the review if it changes only values and
// Markdown files, and no target that the review compares. Every other file may decide which targets read the changed repository.

// companionScope is what the last review of a merge request for one fleet depends on.
type companionScope struct {
	trunk   gitstore.Hash // tree
	targets []fleet.AffectedTarget
	all     bool // every commit of the trunk concerns the review
}

func companionScopeKey(number int, u use) string {
	return fmt.Sprintf("companion/%d of %s", number, fold(u.fleet))
}

// rememberCompanionScope remembers what a review for a fleet depends on. A review that is incomplete, larger than maxScopeSize or includes a
// change of the fleet depends on every commit of the trunk.
func rememberCompanionScope(j *job, number int, u use, r *report.Review, deps *dependencies) {
	_, change, _ := deps.in(u.fleet)
	key, s := companionScopeKey(number, u), &companionScope{trunk: u.trunk, targets: r.Scope}
	if change != nil || len(r.Errors) > 0 || r.Changes == nil || len(r.Changes.Withheld) > 0 || r.Scope == nil || len(r.Scope) > maxScopeSize {
		s.all, s.targets = true, nil
	}
	j.companionScopes.Add(j.subject(key), s)
	j.remember(key, u.trunk.String())
}

// companionState returns what the reviews of a merge request depend on, apart from the trunks of the fleets.
func companionState(mr *forge.MergeRequest, target gitstore.Hash, uses []use, identity string) string {
	var b strings.Builder
	b.WriteString(reviewState(mr, target, identity))
	for _, u := range uses {
		fmt.Fprintf(&b, "\n%s %s %s", u.fleet, u.name, u.branch)
		for _, more := range u.more {
			fmt.Fprintf(&b, " %s %s", more.name, more.branch)
		}
	}
	return b.String()
}

// companionsUnchanged reports whether the reviews for fleets need not run: nothing that they depend on has changed since the last ones,
// the same head exceeded a limit before, or there are no such fleets.
func companionsUnchanged(ctx context.Context, j *job, mr *forge.MergeRequest, target gitstore.Hash, identity string) bool {
	uses := j.uses.of(j.place)
	if len(uses) == 0 {
		return true
	}
	name, state, _ := strings.Cut(j.recall(companionKey(mr.Number)), "\n")
	if same, err := stands(ctx, j, mr, name, identity); err != nil || !same {
		return false // the review reports the error
	}
	if j.seen(companionLimitKey(mr.Number), limitState(mr, identity)) {
		return true
	}
	if state != companionState(mr, target, uses, identity) || repeatsUnreached(j, mr, verdictFleets) {
		return false
	}
	for _, u := range uses {
		if !unconcerned(ctx, j, mr.Number, u) {
			return false
		}
	}
	return true
}

// unconcerned reports whether no commit of a fleet's trunk since the last review for the fleet concerns that review.
func unconcerned(ctx context.Context, j *job, number int, u use) bool {
	key := companionScopeKey(number, u)
	if j.seen(key, u.trunk.String()) { // also without the scope, which may have been evicted
		return true
	}
	s, ok := j.companionScopes.Get(j.subject(key))
	if !ok || s.all {
		return false
	}
	m := move{s.trunk, u.trunk}
	if j.moves == nil {
		j.moves = moves{}
	}
	if j.moves[m] == nil {
		space, err := j.Open(ctx, u.fleet)
		if err != nil {
			return false // the review reports it
		}
		j.moves.of(ctx, space.Fleets, m)
		space.Close()
	}
	e := j.moves[m]
	if e.all || slices.ContainsFunc(e.files, decidesReads) || shares(e.targets, s.targets) {
		return false
	}
	next := *s
	next.trunk = u.trunk
	j.companionScopes.Add(j.subject(key), &next)
	j.remember(key, u.trunk.String())
	j.log.Debug("the new commits of a fleet's trunk do not concern the merge request", "merge_request", number, "fleet", u.fleet.String(), "trunk", u.trunk.String())
	return true
}

// decidesReads reports whether a file of a fleet can decide which other files a target reads. Values and Markdown files cannot.
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
