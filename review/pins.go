package review

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Pin is a change of a repository that a fleet takes content from. It replaces, on each side of a comparison, the
// commit at which sluice.lock pins that repository. The worker process applies pins, because it alone reads the lock
// file of a merge request.
type Pin struct {
	Name       string        // of the repository in the fleet
	URL        string        // of the repository, as the trunk declares it; see FetchPins
	Base, Head gitstore.Hash // commits of that repository
}

// FetchPins fetches both sides of changes of other repositories, and returns the changes with the URLs of the
// repositories. The trunk's fleet declares the repositories; FetchPins leaves out the change of a repository that it no
// longer declares.
func FetchPins(ctx context.Context, s *session.Session, f *fleet.Fleet, pins []Pin) ([]Pin, error) {
	var out []Pin
	for _, p := range pins {
		r, ok := f.Repository(p.Name)
		if !ok {
			continue
		}
		for _, commit := range []gitstore.Hash{p.Base, p.Head} {
			if err := s.Store.FetchPinned(ctx, r.URL, s.Credentials(r.URL), commit); err != nil {
				return out, fmt.Errorf("commit %s of %s: %w", commit.Short(), r.URL, err)
			}
		}
		p.URL = r.URL
		out = append(out, p)
	}
	return out, nil
}

// PinnedCommits returns the commits of other repositories that a review with pins reads: both sides of the pins, and
// those at which the trunk pins the same repositories, because the own policies of workspaces in them are from there.
func PinnedCommits(ctx context.Context, s *session.Session, trunk gitstore.Hash, pins []Pin) []source.Pinned {
	var out []source.Pinned
	for _, p := range pins {
		out = append(out, source.Pinned{Name: p.Name, URL: p.URL, Commit: p.Base},
			source.Pinned{Name: p.Name, URL: p.URL, Commit: p.Head})
	}
	v, err := s.Open(ctx, trunk)
	if err != nil {
		return out // the review reports an invalid fleet
	}
	for _, r := range v.Fleet.Repositories {
		pin, ok := v.Pin(r)
		commit, err := gitstore.ParseHash(pin.Commit)
		named := slices.ContainsFunc(pins, func(p Pin) bool { return p.Name == r.Name && p.URL == r.URL })
		if ok && err == nil && named {
			out = append(out, source.Pinned{Name: r.Name, URL: r.URL, Commit: commit})
		}
	}
	return out
}

// pin replaces both sides of a comparison by copies with the pins of the request. These commits exist only in memory.
func (l Local) pin(ctx context.Context, r *Request) error {
	var base, head []source.Pinned
	for _, p := range r.Pins {
		base = append(base, source.Pinned{Name: p.Name, URL: p.URL, Commit: p.Base})
		head = append(head, source.Pinned{Name: p.Name, URL: p.URL, Commit: p.Head})
	}
	var err error
	if r.Base, err = pinnedTo(ctx, l.Session, r.Base, base); err != nil {
		return err
	}
	r.Head, err = pinnedTo(ctx, l.Session, r.Head, head)
	return err
}

// pinnedTo returns a copy of a commit of the fleet in which sluice.lock has the pins. A commit whose fleet cannot be
// read stays as it is, because its review reports the problems.
func pinnedTo(ctx context.Context, s *session.Session, at gitstore.Commit, pins []source.Pinned) (gitstore.Commit,
	error,
) {
	if len(pins) == 0 {
		return at, nil
	}
	v, err := s.Open(ctx, at.Tree)
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	lock := v.Lock()
	for _, p := range pins {
		if r, ok := v.Fleet.Repository(p.Name); ok && r.URL == p.URL {
			lock.SetPin(r.Name, v.PinTo(r, p.Commit))
		}
	}
	return withLock(ctx, s.Store, at, lock, "with companions")
}

// WithPin returns a copy of the fleet's commit at in which sluice.lock pins another repository to a commit. The new
// commit exists only in memory.
func WithPin(ctx context.Context, store *gitstore.Store, v *source.View, at gitstore.Commit, r *fleet.Repository,
	commit gitstore.Hash,
) (gitstore.Commit, error) {
	lock := v.Lock()
	lock.SetPin(r.Name, v.PinTo(r, commit))
	return withLock(ctx, store, at, lock, "with "+commit.String())
}

// withLock returns a copy of a commit with another lock file.
func withLock(ctx context.Context, store *gitstore.Store, at gitstore.Commit, lock *fetch.Lock,
	message string,
) (gitstore.Commit, error) {
	tree, err := source.ReplaceLock(ctx, store, at.Tree, lock)
	if err != nil {
		return at, err
	}
	hash, err := store.KeepCommit(gitstore.CommitSpec{Tree: tree, Parents: []gitstore.Hash{at.Hash}, Message: message})
	if err != nil {
		return at, err
	}
	return store.Commit(ctx, hash)
}
