package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/promote"
)

// maxElsewhere limits the commits of another repository whose authors are looked up for one promotion.
const maxElsewhere = 200

// AuthorsElsewhere implements promotion.AuthorFinder. A commit without a merge request into the pinned branch is an error: Git's name of its
// author is not one on the forge, and anybody can choose it.
func (o *outside) AuthorsElsewhere(ctx context.Context, m promote.MovedPin) ([]string, error) {
	if o.forge == nil {
		return nil, errors.New("there is no forge to ask")
	}
	repo, ok := sibling(o.session.Store.RemoteURL(), o.repo.Path, m.URL)
	if !ok {
		return nil, fmt.Errorf("%s is not on the forge of the fleet", m.URL)
	}
	store := o.session.Store
	if err := store.FetchPinned(ctx, m.URL, o.session.Credentials(m.URL), m.To); err != nil {
		return nil, err
	}
	commits, err := store.Between(ctx, m.From, m.To, maxElsewhere)
	if err != nil {
		return nil, err
	}
	if forward, err := store.IsAncestor(ctx, m.From, m.To); err != nil {
		return nil, err
	} else if !forward {
		return nil, fmt.Errorf("%s lacks commits of %s, and who took them away is unknown", m.To.Short(), m.From.Short())
	}
	var out []string
	for _, c := range commits {
		names, err := o.mergedBy(ctx, repo, c, m.Wanted)
		if err != nil {
			return nil, err
		}
		if out = append(out, names...); len(c.Parents) < 2 { // merging a change does not make somebody its author
			out = append(out, c.Author.Email, c.Author.Name)
		}
	}
	return out, nil
}

// sibling returns the repository that an address names on the forge of the fleet, whose address ends with its path; false if there is none.
func sibling(fleet, path, address string) (forge.Repository, bool) {
	own, place := giturl.Plain(fleet), "/"+path
	if len(own) <= len(place) || !strings.EqualFold(own[len(own)-len(place):], place) {
		return forge.Repository{}, false
	}
	other, ok := giturl.Below("https://"+own[:len(own)-len(place)], address) // without a scheme, a port would be a path
	return forge.Repository{Path: other}, ok
}

// mergedBy returns the authors of the merge requests that have a commit. One of them must be merged into the pinned branch; for tags,
// into any.
func (o *outside) mergedBy(ctx context.Context, repo forge.Repository, c gitstore.Commit, wanted string) ([]string, error) {
	key := fmt.Sprint("authors elsewhere ", repo.Path, " ", wanted, " ", c.Hash)
	names, err := o.verdicts.authorsOf(key, o.session.runtime.Clock(), func() (names []string, err error) {
		list, err := o.forge.MergeRequestsOf(ctx, repo, c.Hash.String())
		if slices.ContainsFunc(list, func(mr *forge.MergeRequest) bool { return merged(mr, wanted) }) {
			for _, mr := range list {
				names = append(names, mr.Author.Login)
			}
		}
		return names, err
	})
	if err != nil {
		return nil, fmt.Errorf("authors of %s: %w", c.Hash.Short(), err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("commit %s came without a merge request", c.Hash.Short())
	}
	return names, nil
}

// merged reports whether a merge request with a known author brought its commits to the branch that a ref names; tags stand for any branch.
func merged(mr *forge.MergeRequest, wanted string) bool {
	return mr.State == forge.Merged && mr.Author.Login != "" && (strings.HasPrefix(wanted, "refs/tags/") || "refs/heads/"+mr.TargetBranch == wanted)
}
