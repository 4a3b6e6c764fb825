package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Pins replace, on each side of a comparison, the commits at which sluice.lock pins other repositories. The worker process applies them,
// because it alone reads the lock file of a merge request.
type Pins struct{ Base, Head []source.Pinned }

// pinsFor fetches both sides of changes of other repositories. The trunk's fleet declares the repositories; it does not pin a change of a
// repository that it no longer declares.
func pinsFor(ctx context.Context, w *Workspace, f *fleet.Fleet, changes []bot.Pin) (Pins, error) {
	var out Pins
	for _, c := range changes {
		r, ok := f.Repository(c.Name)
		if !ok {
			continue
		}
		for _, side := range []struct {
			commit gitstore.Hash
			to     *[]source.Pinned
		}{{c.Base, &out.Base}, {c.Head, &out.Head}} {
			if err := w.Store.FetchPinned(ctx, r.URL, w.Credentials(r.URL), side.commit); err != nil {
				return out, fmt.Errorf("commit %s of %s: %w", side.commit.Short(), r.URL, err)
			}
			*side.to = append(*side.to, source.Pinned{Name: r.Name, URL: r.URL, Commit: side.commit})
		}
	}
	return out, nil
}

// withPins returns the comparison with both sides pinned.
func withPins(ctx context.Context, s *Session, r compare.Request, p Pins) (compare.Request, error) {
	var err error
	if r.Base, err = pinnedTo(ctx, s, r.Base, p.Base); err != nil {
		return r, err
	}
	r.Head, err = pinnedTo(ctx, s, r.Head, p.Head)
	return r, err
}

// pinnedTo returns a copy of a commit of the fleet in which sluice.lock has the pins. A commit whose fleet cannot be read stays as it is,
// because its review reports the problems.
func pinnedTo(ctx context.Context, s *Session, at gitstore.Commit, pins []source.Pinned) (gitstore.Commit, error) {
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
			lock.SetPin(r.Name, pinOf(v, r, p.Commit))
		}
	}
	return withLock(ctx, s.Store, at, lock, "with companions")
}

// WithPin returns a copy of the fleet's commit at in which sluice.lock pins another repository to a commit. The new commit exists only in
// memory.
func WithPin(ctx context.Context, store *gitstore.Store, v *source.View, at gitstore.Commit, r *fleet.Repository, commit gitstore.Hash) (gitstore.Commit, error) {
	lock := v.Lock()
	lock.SetPin(r.Name, pinOf(v, r, commit))
	return withLock(ctx, store, at, lock, "with "+commit.String())
}

// pinOf returns a pin that keeps the locked branch or tag, so that Kustomize URLs with that name still refer to the repository.
func pinOf(v *source.View, r *fleet.Repository, commit gitstore.Hash) fetch.Pin {
	before, _ := v.Pin(r) // a repository without a lock has no resolved ref
	return fetch.Pin{URL: r.URL, Wanted: r.Wanted, Resolved: cmp.Or(before.Resolved, r.Wanted), Commit: commit.String()}
}

// withLock returns a copy of a commit with another lock file.
func withLock(ctx context.Context, store *gitstore.Store, at gitstore.Commit, lock *fetch.Lock, message string) (gitstore.Commit, error) {
	data, err := lock.Bytes()
	if err != nil {
		return at, err
	}
	tree, err := store.Replace(ctx, at.Tree, fetch.LockFile, data)
	if err != nil {
		return at, err
	}
	hash, err := store.KeepCommit(gitstore.CommitSpec{Tree: tree, Parents: []gitstore.Hash{at.Hash}, Message: message})
	if err != nil {
		return at, err
	}
	return store.Commit(ctx, hash)
}
