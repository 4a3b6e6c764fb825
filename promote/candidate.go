package promote

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// candidate judges a rendered proposal for an environment. request is what somebody asked for; nil if nobody did.
func (p *proposals) candidate(ctx context.Context, environment string, next *rollout.Proposal, request *rollout.Request,
	one rendered,
) (*rollout.Candidate, error) {
	st, source := p.states[environment], next.Source
	out := &rollout.Candidate{
		Source: source, Tree: hashText(one.tree), Base: hashText(st.Tip.Hash),
		Policy: rollout.Green, Same: one.same,
	}
	if one.failure != "" {
		out.Tree, out.Policy, out.Reason = "", rollout.Red, one.failure
		return out, nil
	}
	var err error
	if p.imports[environment] == nil {
		if out.Blocked, err = p.merged.unmerged(ctx, st.Source(), source); err != nil {
			return nil, err
		}
	}
	if out.Blocked == "" && st.Exists() {
		upgrades, err := p.upgrades(ctx, environment, source)
		if err != nil {
			return nil, err
		}
		_, out.Blocked = skipsMinor(upgrades)
	}
	if out.Blocked == "" && st.Exists() {
		if out.Blocked, err = p.dropsDescribed(ctx, environment, next); err != nil {
			return nil, err
		}
	}
	if out.Blocked == "" && st.Exists() {
		out.Blocked = p.tooMany(st, rollout.Scope{Apps: next.Apps, Workspaces: next.Workspaces}, one.removed, one.excess)
	}
	if p.request.Adapters.Policy != nil {
		out.Policy, out.Reason = p.policy(ctx, environment, source, next.Renders)
	}
	return out, p.authors.add(ctx, environment, request, out)
}

// sameManifests reports whether a tree differs from what an environment branch has in Sluice's own records only.
func (p *proposals) sameManifests(ctx context.Context, st *branch.State, tree gitstore.Hash) (bool, error) {
	if !st.Exists() {
		return false, nil
	}
	var lists [2][]gitstore.Entry
	for i, h := range []gitstore.Hash{st.Tip.Tree, tree} {
		entries, err := p.hydrator.Store.Tree(ctx, h)
		if err != nil {
			return false, err
		}
		lists[i] = slices.DeleteFunc(slices.Clone(entries), func(e gitstore.Entry) bool { return e.Name == branch.Dir })
	}
	return slices.Equal(lists[0], lists[1]), nil
}

// policy judges each source commit of a promotion, with the apps that it brings; with again, also those that run. A
// commit without a verdict blocks the promotion.
func (p *proposals) policy(ctx context.Context, environment string, source rollout.Source, again bool) (rollout.State,
	string,
) {
	st := p.states[environment]
	state, reason := rollout.Green, ""
	if i := p.imports[environment]; i != nil {
		return p.imported(ctx, environment, source, i)
	}
	for _, part := range partsOf(st.Source(), source, st.Exists() && !again, st.ClusterNames()) {
		commit, known := p.trunk.commits[part.commit]
		if !known {
			return rollout.Unknown, fmt.Sprintf("%.10s is not on the known part of the trunk", part.commit)
		}
		one := Part{
			Environment: environment, Base: st.Tip.Hash, Source: commit, Apps: part.apps, Without: part.without,
			Rendered: p.composed.known(environment, source, again || p.foreign(environment)).part(part.commit),
		}
		switch s, why := p.request.Adapters.Policy.Judge(ctx, one); {
		case s == rollout.Red:
			return s, why
		case s != rollout.Green:
			state, reason = s, why
		}
	}
	return state, reason
}

// part is a source commit with what a promotion takes from it.
type part struct {
	commit  string
	apps    []string // none means all
	without []string
}

// partsOf lists the parts of a promotion, one for each source commit. If a commit becomes the source of a whole
// cluster, its part contains all apps; for next.Commit, it leaves out apps that every cluster takes from other commits.
// Otherwise the part names its apps.
func partsOf(runs, next rollout.Source, exists bool, clusters []string) []part {
	b := broughtParts{entire: map[string]bool{}, apps: map[string]map[string]bool{}, all: !exists}
	b.add(rollout.ClusterSource{Commit: runs.Commit, Apps: runs.Apps},
		rollout.ClusterSource{Commit: next.Commit, Apps: next.Apps})
	for _, name := range clusters {
		b.add(runs.On(name), next.On(name))
	}
	commits := maps.Clone(b.entire)
	for c := range b.apps {
		commits[c] = true
	}
	var out []part
	for _, c := range slices.Sorted(maps.Keys(commits)) {
		one := part{commit: c}
		if !b.entire[c] {
			one.apps = slices.Sorted(maps.Keys(b.apps[c]))
		} else if c == next.Commit {
			for _, app := range slices.Sorted(maps.Keys(next.Apps)) {
				if !slices.ContainsFunc(clusters, func(name string) bool { return next.On(name).Of(app) == c }) {
					one.without = append(one.without, app)
				}
			}
		}
		out = append(out, one)
	}
	return out
}

// broughtParts collects the commits that become the source of a whole cluster, and those that become the source of
// single apps.
type broughtParts struct {
	entire map[string]bool
	apps   map[string]map[string]bool
	all    bool // nothing runs yet
}

func (b *broughtParts) add(have, want rollout.ClusterSource) {
	if want.Commit != have.Commit || b.all {
		b.entire[want.Commit] = true
	}
	for _, set := range []map[string]string{have.Apps, want.Apps} {
		for app := range set {
			c := want.Of(app)
			if c == have.Of(app) || c == want.Commit && b.entire[c] {
				continue
			}
			if b.apps[c] == nil {
				b.apps[c] = map[string]bool{}
			}
			b.apps[c][app] = true
		}
	}
}

// deletes refuses a tree that has too few of the objects of a state.
func (p *proposals) deletes(ctx context.Context, st *branch.State, scope rollout.Scope, tree gitstore.Hash) (string,
	error,
) {
	removed, excess, err := p.removed(ctx, st, tree)
	if err != nil {
		return "", err
	}
	return p.tooMany(st, scope, removed, excess), nil
}

// removed counts the objects of a state that a tree does not have, and says what would lose too many of them.
func (p *proposals) removed(ctx context.Context, st *branch.State, tree gitstore.Hash) (removed int, excess string,
	err error,
) {
	lost, loss, removed, err := branch.Losses(ctx, p.hydrator.Store, st, tree)
	if err != nil {
		return 0, "", err
	}
	found, err := hydrate.Excesses(ctx, p.hydrator.Store, p.fleet, st, loss, lost)
	if err != nil || len(found) == 0 {
		return removed, "", err
	}
	return removed, found[0].Reason, nil
}

// tooMany refuses to remove more objects of a state than the fleet allows at once.
func (p *proposals) tooMany(st *branch.State, scope rollout.Scope, removed int, excess string) string {
	most := p.request.MaxDeletions
	if most == 0 {
		most = p.fleet.MaxDeletions(st.Record.Objects)
	}
	switch {
	case removed > most:
		excess = fmt.Sprintf("%d of %d objects would be removed, and at most %d may be", removed, st.Record.Objects, most)
	case excess == "" || p.request.MaxDeletions > 0: // somebody has named the number
		return ""
	}
	return fmt.Sprintf("%s: if that is intended, run `sluice promote %s%s --max-deletions %d`", excess,
		st.Record.Environment, flagsOf(scope), removed)
}
