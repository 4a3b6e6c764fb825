package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		switch {
		case errors.Is(err, gitstore.ErrTooManyCommits), unknownHistory(err):
			unknown = err.Error()
		case err != nil:
			return nil, "", err
		}
		names = append(names, some...)
	}
	if a.request.Adapters.Authors != nil {
		some, err := a.request.Adapters.Authors.Authors(ctx, brought)
		if err != nil {
			unknown = cmp.Or(unknown, err.Error())
		}
		names = append(names, some...)
	}
	return names, unknown, ctx.Err()
}

// Limits of one merge whose authors are read.
const (
	maxMerged      = 10_000 // commits
	maxMergedInner = 500    // merges among them, whose content is compared
)

// authorsOf returns the authors of a commit of the trunk, or of the commits that a merge brought. Merging a change does
// not make somebody its author; content of a merge that none of its parents has does. The error is a
// gitstore.ErrTooManyCommits if a merge brought more than the limits, and one of unknownHistory if the clone lacks its commits.
func authorsOf(ctx context.Context, store *gitstore.Store, c gitstore.Commit) ([]string, error) {
	if len(c.Parents) < 2 {
		return []string{c.Author.Email, c.Author.Name}, nil
	}
	var out []string
	all := []gitstore.Commit{c}
	for _, parent := range c.Parents[1:] {
		brought, err := store.Between(ctx, c.Parents[0], parent, maxMerged)
		if err != nil {
			return nil, fmt.Errorf("authors of the merge %s: %w", c.Hash.Short(), err)
		}
		all = append(all, brought...)
	}
	merges := 0
	for _, one := range all {
		own := len(one.Parents) < 2
		if !own {
			if merges++; merges > maxMergedInner {
				return nil, fmt.Errorf("authors of the merge %s: %w: it brings more than %d merges", c.Hash.Short(),
					gitstore.ErrTooManyCommits, maxMergedInner)
			}
			var err error
			if own, err = hasOwnContent(ctx, store, one); err != nil {
				return nil, err
			}
		}
		if own {
			out = append(out, one.Author.Email, one.Author.Name)
		}
	}
	return out, nil
}

// hasOwnContent reports whether a merge has a file that differs from that of each parent. That is so after a conflict, and
// where Git merged changes of both sides into one file.
func hasOwnContent(ctx context.Context, store *gitstore.Store, merge gitstore.Commit) (bool, error) {
	var own map[string]bool
	for i, hash := range merge.Parents {
		parent, err := store.Commit(ctx, hash)
		if err != nil {
			return false, fmt.Errorf("parents of the merge %s: %w", merge.Hash.Short(), err)
		}
		changes, err := store.Changes(ctx, parent.Tree, merge.Tree)
		if errors.Is(err, gitstore.ErrTooManyPaths) {
			return true, nil // not known, so its author does not approve it
		} else if err != nil {
			return false, fmt.Errorf("content of the merge %s: %w", merge.Hash.Short(), err)
		}
		differ := make(map[string]bool, len(changes))
		for _, c := range changes {
			if i == 0 || own[c.Path] {
				differ[c.Path] = true
			}
		}
		own = differ
	}
	return len(own) > 0, nil
}
