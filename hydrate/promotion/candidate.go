package promotion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// candidate renders a source for an environment on top of what its branch holds.
func (p *pass) candidate(ctx context.Context, environment string, source promote.Source) (*promote.Candidate, error) {
	one, err := p.compose(ctx, environment, source)
	if err != nil {
		return nil, err
	}
	st := p.states[environment]
	tree, failure := one.tree, one.failure
	out := &promote.Candidate{Source: source, Tree: hashText(tree), Base: hashText(st.Tip.Hash), Policy: promote.Green}
	if failure != "" {
		out.Tree, out.Policy, out.Reason = "", promote.Red, failure
		return out, nil
	}
	if out.Blocked, err = p.merged.unmerged(ctx, st.Source(), source); err != nil {
		return nil, err
	}
	if out.Blocked == "" {
		if out.Blocked, err = p.tooManyDeletions(ctx, st, tree); err != nil {
			return nil, err
		}
	}
	if p.r.Adapters.Policy != nil {
		out.Policy, out.Reason = p.policy(ctx, environment, source)
	}
	return out, p.addAuthors(ctx, environment, out)
}

// policy judges each source commit of a promotion, with the apps that it brings. A commit that is unknown is not judged, and
// so not green.
func (p *pass) policy(ctx context.Context, environment string, source promote.Source) (promote.State, string) {
	st := p.states[environment]
	state, reason := promote.Green, ""
	for _, part := range partsOf(st.Source(), source, st.Exists(), st.ClusterNames()) {
		commit, known := p.trunk.commits[part.commit]
		if !known {
			return promote.Unknown, fmt.Sprintf("%.10s is not on the known part of the trunk", part.commit)
		}
		one := Part{Environment: environment, Base: st.Tip.Hash, Source: commit, Apps: part.apps, Without: part.without}
		switch s, why := p.r.Adapters.Policy.Judge(ctx, one); {
		case s == promote.Red:
			return s, why
		case s != promote.Green:
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

// partsOf lists what a promotion brings, by source commit. A commit that any cluster takes as a whole is judged as a whole,
// without the apps that come from elsewhere on every cluster.
func partsOf(runs, next promote.Source, exists bool, clusters []string) []part {
	b := broughtParts{whole: map[string]bool{}, apps: map[string]map[string]bool{}, all: !exists}
	b.add(promote.ClusterSource{Commit: runs.Commit, Apps: runs.Apps}, promote.ClusterSource{Commit: next.Commit, Apps: next.Apps})
	for _, name := range clusters {
		b.add(runs.On(name), next.On(name))
	}
	commits := maps.Clone(b.whole)
	for c := range b.apps {
		commits[c] = true
	}
	var out []part
	for _, c := range slices.Sorted(maps.Keys(commits)) {
		one := part{commit: c}
		if !b.whole[c] {
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

// broughtParts collects the commits that clusters take as a whole, and those that they take for some apps.
type broughtParts struct {
	whole map[string]bool
	apps  map[string]map[string]bool
	all   bool // nothing runs yet
}

func (b *broughtParts) add(have, want promote.ClusterSource) {
	if want.Commit != have.Commit || b.all {
		b.whole[want.Commit] = true
	}
	for _, set := range []map[string]string{have.Apps, want.Apps} {
		for app := range set {
			c := want.Of(app)
			if c == have.Of(app) || c == want.Commit && b.whole[c] {
				continue
			}
			if b.apps[c] == nil {
				b.apps[c] = map[string]bool{}
			}
			b.apps[c][app] = true
		}
	}
}

// addAuthors names the authors of what a candidate brings, where somebody else must agree.
func (p *pass) addAuthors(ctx context.Context, environment string, out *promote.Candidate) error {
	e, _ := p.fleet.Environment(environment)
	if a := e.Promotion.Approvers; a.Count == 0 && len(a.Users)+len(a.Teams) == 0 && !slices.ContainsFunc(e.Promotion.Rights, func(r fleet.Rights) bool { return r.SecondPerson }) {
		return nil
	}
	var err error
	out.Authors, out.AuthorsUnknown, err = p.authorsBetween(ctx, p.states[environment].Source(), out.Source)
	return err
}

// expedition is the request to expedite the rollout under way that needs a second person; nil if there is none. It names the
// authors of what the rollout brings, whose agreement does not count.
func (p *pass) expedition(ctx context.Context, e fleet.Environment, s *promote.Situation) (*promote.Expedition, error) {
	x, err := promote.Expedited(*s)
	if err != nil || x == nil || s.Running.Authors != nil {
		return x, err
	}
	entries, err := p.past[e.Name].history(ctx)
	if err != nil {
		return nil, err
	}
	var from promote.Source // of the state before
	if i := slices.IndexFunc(entries, func(h HistoryEntry) bool { return h.Tree.String() != s.Running.Tree }); i >= 0 {
		from = entries[i].Source
	}
	s.Running.Authors, s.Running.AuthorsUnknown, err = p.authorsBetween(ctx, from, s.Running.Source)
	return x, err
}

// authorsBetween names the authors of what one source has and another has not. unknown says why the names may be incomplete.
func (p *pass) authorsBetween(ctx context.Context, from, to promote.Source) (names []string, unknown string, err error) {
	brought := p.trunk.brought(from, to)
	names = []string{}
	for _, c := range brought {
		some, err := p.authors(ctx, c)
		if err != nil {
			return nil, "", err
		}
		names = append(names, some...)
	}
	if p.r.Adapters.Authors != nil {
		some, err := p.r.Adapters.Authors.Authors(ctx, brought)
		if err != nil {
			unknown = err.Error()
		}
		names = append(names, some...)
	}
	return names, unknown, ctx.Err()
}

// tooManyDeletions refuses a promotion that would remove more objects from the environment than the fleet allows at once.
func (p *pass) tooManyDeletions(ctx context.Context, st *branch.State, tree gitstore.Hash) (string, error) {
	if !st.Exists() {
		return "", nil
	}
	changes, err := p.h.Store.Changes(ctx, st.Tip.Tree, tree)
	if err != nil {
		return "", err
	}
	removed := 0
	for _, c := range changes {
		if c.New.Hash.IsZero() && !strings.HasPrefix(c.Path, branch.Dir+"/") {
			removed++
		}
	}
	most := p.r.MaxDeletions
	if most == 0 {
		most = p.fleet.MaxDeletions(st.Record.Objects)
	}
	if removed <= most {
		return "", nil
	}
	return fmt.Sprintf("%d of %d objects would be removed, and at most %d may be: if that is intended, promote with --max-deletions %d on the command line", removed, st.Record.Objects, most, removed), nil
}

// authors are the authors of a commit of the trunk, or of the commits that a merge brought. Merging a change does not make
// somebody its author.
func (p *pass) authors(ctx context.Context, c gitstore.Commit) ([]string, error) {
	if len(c.Parents) < 2 {
		return []string{c.Author.Email, c.Author.Name}, nil
	}
	const most = 250
	var out []string
	seen := map[gitstore.Hash]bool{}
	for todo := slices.Clone(c.Parents[1:]); len(todo) > 0 && len(seen) < most; todo = todo[1:] {
		if seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		known, err := p.h.Store.IsAncestor(ctx, todo[0], c.Parents[0])
		if err != nil && !errors.Is(err, gitstore.ErrShallow) && !errors.Is(err, gitstore.ErrNotFound) {
			return nil, err
		} else if known {
			continue
		}
		one, err := p.h.Store.Commit(ctx, todo[0])
		if errors.Is(err, gitstore.ErrShallow) || errors.Is(err, gitstore.ErrNotFound) {
			out = append(out, c.Author.Email, c.Author.Name) // the commits that it brought are not in this clone
			continue
		} else if err != nil {
			return nil, err
		}
		if len(one.Parents) < 2 {
			out = append(out, one.Author.Email, one.Author.Name)
		}
		todo = append(todo, one.Parents...)
	}
	return out, nil
}
