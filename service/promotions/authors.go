package promotions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/promote"
)

const (
	maxAuthored  = 500         // commits of one promotion whose authors are looked up
	noAuthorsFor = time.Minute // how long a first answer is cached, because forges list new merge requests with a delay
	authorsFor   = time.Hour   // how long any answer is cached, because a later merge request can have the commit too
	maxKnown     = 2000        // commits whose authors are cached
)

// Authors caches who wrote the merge requests that brought commits, because the promotion loop asks in each pass. It is
// safe for concurrent use.
type Authors struct {
	cache *lru.Cache[authorsKey, *knownAuthors]
}

// authorsKey names a commit, and which merge requests count.
type authorsKey struct {
	repository string
	commit     gitstore.Hash
	merged     bool // only if one of the merge requests is merged into the ref wanted
	wanted     string
}

// knownAuthors is one cached answer.
type knownAuthors struct {
	at    time.Time
	since time.Time // when the first author was known
	names []string  // logins
}

// NewAuthors returns an empty cache.
func NewAuthors() *Authors {
	cache, err := lru.New[authorsKey, *knownAuthors](maxKnown)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return &Authors{cache}
}

// of returns the authors that are cached under a key, or asks for them. Authors that were known stay, also if the forge
// cannot be asked again.
func (c *Authors) of(key authorsKey, now time.Time, ask func() ([]string, error)) ([]string, error) {
	v, known := c.cache.Get(key)
	if known && !v.outdated(now) {
		return v.names, nil
	}
	names, err := ask()
	if err != nil && known && len(v.names) > 0 {
		return v.names, nil
	}
	if err != nil {
		return nil, err
	}
	next := &knownAuthors{at: now, since: now}
	if known && len(v.names) > 0 {
		next.since = v.since
		names = append(names, v.names...)
	}
	slices.Sort(names)
	next.names = slices.Compact(names)
	c.cache.Add(key, next)
	return next.names, nil
}

// outdated reports whether the authors must be asked for again: after a minute, and then after as long as they are
// known, up to an hour. The forge may list the merge request of the true author last, who could approve their own
// change until then.
func (v *knownAuthors) outdated(now time.Time) bool {
	return now.Sub(v.at) >= min(max(v.at.Sub(v.since), noAuthorsFor), authorsFor)
}

// authors implements promote.AuthorFinder.
type authors struct {
	session *session.Session
	forge   Forge
	sources forge.Repository
	cache   *Authors
}

// Authors implements promote.AuthorFinder: it returns the authors of the merge requests that the commits came from.
func (a *authors) Authors(ctx context.Context, commits []gitstore.Commit) ([]string, error) {
	if len(commits) > maxAuthored {
		return nil, fmt.Errorf("the promotion brings %d commits, and Sluice looks up the authors of at most %d: promote in smaller steps", len(commits), maxAuthored)
	}
	var out []string
	for _, c := range commits {
		names, err := a.cache.of(authorsKey{repository: a.sources.Path, commit: c.Hash}, a.session.Runtime.Clock(),
			func() (names []string, err error) {
				list, err := a.forge.MergeRequestsOf(ctx, a.sources, c.Hash.String())
				for _, mr := range list {
					names = append(names, mr.Author.Login)
				}
				return names, err
			})
		if err != nil {
			return nil, fmt.Errorf("authors of %s: %w", c.Hash.Short(), err)
		}
		out = append(out, names...)
	}
	return out, nil
}

// maxElsewhere limits the commits of another repository whose authors are looked up for one promotion.
const maxElsewhere = 200

// AuthorsElsewhere implements promote.AuthorFinder. A commit without a merge request into the pinned branch is an
// error: Git's name of its author is not one on the forge, and anybody can choose it.
func (a *authors) AuthorsElsewhere(ctx context.Context, m promote.MovedPin) ([]string, error) {
	repo, ok := sibling(a.session.Store.RemoteURL(), a.sources.Path, m.URL)
	if !ok {
		return nil, fmt.Errorf("%s is not on the forge of the fleet", m.URL)
	}
	store := a.session.Store
	if err := store.FetchPinned(ctx, m.URL, a.session.Credentials(m.URL), m.To); err != nil {
		return nil, err
	}
	commits, err := store.Between(ctx, m.From, m.To, maxElsewhere)
	if err != nil {
		return nil, err
	}
	if forward, err := store.IsAncestor(ctx, m.From, m.To); err != nil {
		return nil, err
	} else if !forward {
		return nil, fmt.Errorf("%s lacks commits of %s, and who took them away is unknown", m.To.Short(),
			m.From.Short())
	}
	var out []string
	for _, c := range commits {
		names, err := a.mergedBy(ctx, repo, c, m.Wanted)
		if err != nil {
			return nil, err
		}
		if out = append(out, names...); len(c.Parents) < 2 { // merging a change does not make somebody its author
			out = append(out, c.Author.Email, c.Author.Name)
		}
	}
	return out, nil
}

// sibling returns the repository that an address names on the forge of the fleet, whose address ends with its path;
// false if there is none.
func sibling(fleet, path, address string) (forge.Repository, bool) {
	own, place := giturl.Plain(fleet), "/"+path
	if len(own) <= len(place) || !strings.EqualFold(own[len(own)-len(place):], place) {
		return forge.Repository{}, false
	}
	other, ok := giturl.Below("https://"+own[:len(own)-len(place)], address) // without a scheme, a port would be a path
	return forge.Repository{Path: other}, ok
}

// mergedBy returns the authors of the merge requests that have a commit. One of them must be merged into the pinned
// branch; for tags, into any.
func (a *authors) mergedBy(ctx context.Context, repo forge.Repository, c gitstore.Commit, wanted string) ([]string,
	error,
) {
	names, err := a.cache.of(authorsKey{repo.Path, c.Hash, true, wanted}, a.session.Runtime.Clock(),
		func() (names []string, err error) {
			list, err := a.forge.MergeRequestsOf(ctx, repo, c.Hash.String())
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

// merged reports whether a merge request with a known author brought its commits to the branch that a ref names; tags
// stand for any branch.
func merged(mr *forge.MergeRequest, wanted string) bool {
	return mr.State == forge.Merged && mr.Author.Login != "" &&
		(strings.HasPrefix(wanted, "refs/tags/") || "refs/heads/"+mr.TargetBranch == wanted)
}
