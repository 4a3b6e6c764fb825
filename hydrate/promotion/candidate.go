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

// candidate renders a source for an environment on top of what its branch holds now.
func (p *promotion) candidate(ctx context.Context, environment string, source promote.Source) (*promote.Candidate, error) {
	tree, failure, _, err := p.once(ctx, environment, source)
	if err != nil {
		return nil, err
	}
	st := p.states[environment]
	out := &promote.Candidate{Source: source, Tree: hashText(tree), Base: hashText(st.Tip.Hash), Policy: promote.Green}
	if failure != "" {
		out.Tree, out.Policy, out.Reason = "", promote.Red, failure
		return out, nil
	}
	if out.Blocked, err = p.tooManyDeletions(ctx, st, tree); err != nil {
		return nil, err
	}
	if p.r.Adapters.Policy != nil {
		out.Policy, out.Reason = p.policy(ctx, environment, source)
	}
	return out, p.addAuthors(ctx, environment, out)
}

// policy judges each part of a promotion by itself: apps may come from other commits than the rest. One that is not known is not judged,
// and so not green.
func (p *promotion) policy(ctx context.Context, environment string, source promote.Source) (promote.State, string) {
	st := p.states[environment]
	running := sourceOf(st)
	parts := map[string]*Part{}
	for app, c := range source.Apps {
		if running.Of(app) == c {
			continue
		}
		if parts[c] == nil {
			parts[c] = &Part{}
		}
		parts[c].Apps = append(parts[c].Apps, app)
	}
	if source.Commit != running.Commit || !st.Exists() {
		parts[source.Commit] = &Part{Without: slices.Sorted(maps.Keys(source.Apps))}
	} else {
		for app, c := range running.Apps { // those that come back to the commit of all the others
			if _, still := source.Apps[app]; !still && c != source.Commit {
				if parts[source.Commit] == nil {
					parts[source.Commit] = &Part{}
				}
				parts[source.Commit].Apps = append(parts[source.Commit].Apps, app)
			}
		}
	}
	state, reason := promote.Green, ""
	for _, c := range slices.Sorted(maps.Keys(parts)) {
		commit, known := p.commits[c]
		if !known {
			return promote.Unknown, fmt.Sprintf("%.10s is not on the trunk as far as is known", c)
		}
		part := parts[c]
		part.Environment, part.Base, part.Source = environment, st.Tip.Hash, commit
		slices.Sort(part.Apps)
		switch s, why := p.r.Adapters.Policy.Judge(ctx, *part); {
		case s == promote.Red:
			return s, why
		case s != promote.Green:
			state, reason = s, why
		}
	}
	return state, reason
}

// addAuthors tells who wrote what a candidate brings, if that matters: where somebody else must agree.
func (p *promotion) addAuthors(ctx context.Context, environment string, out *promote.Candidate) error {
	e, _ := p.fleet.Environment(environment)
	if a := e.Promotion.Approvers; a.Count == 0 && len(a.Users)+len(a.Teams) == 0 && !slices.ContainsFunc(e.Promotion.Rights, func(r fleet.Rights) bool { return r.SecondPerson }) {
		return nil
	}
	brought := p.brought(sourceOf(p.states[environment]), out.Source)
	for _, c := range brought {
		names, err := p.authors(ctx, c)
		if err != nil {
			return err
		}
		out.Authors = append(out.Authors, names...)
	}
	if p.r.Adapters.Authors != nil {
		names, err := p.r.Adapters.Authors.Authors(ctx, brought)
		if err != nil {
			out.AuthorsUnknown = err.Error()
		}
		out.Authors = append(out.Authors, names...)
	}
	return ctx.Err()
}

// tooManyDeletions says that a promotion would take more objects from the environment than the fleet lets go at once.
func (p *promotion) tooManyDeletions(ctx context.Context, st *branch.State, tree gitstore.Hash) (string, error) {
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
	return fmt.Sprintf("%d of %d objects would go, more than the %d that may: if that is right, promote with --max-deletions %d on the command line", removed, st.Record.Objects, most, removed), nil
}

// authors are those whose change a commit of the trunk is: its own author, or those of the commits that a merge brought. Whoever
// merged has changed nothing, and may be who approves.
func (p *promotion) authors(ctx context.Context, c gitstore.Commit) ([]string, error) {
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
			out = append(out, c.Author.Email, c.Author.Name) // what it brought is not here: be careful
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

// brought are the trunk's commits that a source has and another has not.
func (p *promotion) brought(from, to promote.Source) []gitstore.Commit {
	begin, end := -1, -1
	for i, c := range p.trunk {
		if c == from.Commit {
			begin = i
		}
		if slices.Contains(commitsOf(to), c) {
			end = max(end, i)
		}
	}
	var out []gitstore.Commit
	for i := begin + 1; i <= end; i++ {
		out = append(out, p.commits[p.trunk[i]])
	}
	return out
}
