package promote

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/rollout"
)

// authors finds the authors of the changes that a promotion brings. Their own approvals do not count.
type authors struct{ *snapshot }

// add names the authors of the changes of a candidate, where somebody else must approve them. Those in other
// repositories are looked up only if approvers of a workspace may approve what was requested.
func (a *authors) add(ctx context.Context, environment string, request *rollout.Request, out *rollout.Candidate) error {
	e, _ := a.fleet.Environment(environment)
	if by := e.Promotion.Approvers; by.Count == 0 && len(by.Users)+len(by.Teams) == 0 &&
		!slices.ContainsFunc(e.Promotion.Rights, func(r fleet.Rights) bool { return r.SecondPerson }) &&
		!e.Promotion.GatesAsk("approvals") {
		return nil
	}
	var err error
	if out.Authors, out.AuthorsUnknown, err = a.between(ctx, a.states[environment].Source(), out.Source); err != nil {
		return err
	}
	others, unknown, err := a.elsewhere(ctx, environment, request, out.Source)
	out.Authors, out.OthersUnknown = append(out.Authors, others...), unknown
	return err
}

// expedition returns the pending request to expedite the current rollout (--now) that a second person must approve, or
// nil. It also sets the authors of the rollout's changes in s, because their approvals do not count.
func (a *authors) expedition(ctx context.Context, e fleet.Environment, s *rollout.Situation) (*rollout.Expedition,
	error,
) {
	x, err := rollout.Expedited(*s)
	if err != nil || x == nil || s.Running.Authors != nil {
		return x, err
	}
	entries, err := a.past[e.Name].history(ctx)
	if err != nil {
		return nil, err
	}
	var from rollout.Source // of the state before
	if i := slices.IndexFunc(entries, func(h HistoryEntry) bool { return h.Tree.String() != s.Running.Tree }); i >= 0 {
		from = entries[i].Source
	}
	s.Running.Authors, s.Running.AuthorsUnknown, err = a.between(ctx, from, s.Running.Source)
	return x, err
}

// between names the authors of the commits that one source has and another has not. unknown says why the names may be
// incomplete.
func (a *authors) between(ctx context.Context, from, to rollout.Source) (names []string, unknown string, err error) {
	brought := a.trunk.brought(from, to)
	names = []string{}
	for _, c := range brought {
		some, err := authorsOf(ctx, a.hydrator.Store, c)
		if err != nil {
			return nil, "", err
		}
		names = append(names, some...)
	}
	if a.request.Adapters.Authors != nil {
		some, err := a.request.Adapters.Authors.Authors(ctx, brought)
		if err != nil {
			unknown = err.Error()
		}
		names = append(names, some...)
	}
	return names, unknown, ctx.Err()
}

// authorsOf returns the authors of a commit of the trunk, or of the commits that a merge brought. Merging a change does
// not make somebody its author.
func authorsOf(ctx context.Context, store *gitstore.Store, c gitstore.Commit) ([]string, error) {
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
		known, err := store.IsAncestor(ctx, todo[0], c.Parents[0])
		if err != nil && !unknownHistory(err) {
			return nil, err
		} else if known {
			continue
		}
		one, err := store.Commit(ctx, todo[0])
		if unknownHistory(err) {
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
