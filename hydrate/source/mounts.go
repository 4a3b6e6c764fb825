package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Credentials returns the credentials for another repository of the fleet. They belong to the host of the URL; a
// fleet cannot choose them.
type Credentials func(url string) gitstore.Auth

// mounts implements fleet.Mounts for one tree. It resolves repositories to the commits in the tree's lock file, and
// fetches commits that the store does not have.
type mounts struct {
	store       *gitstore.Store
	snap        *gitstore.Snapshot
	credentials Credentials
	alone       bool
	only        []Pinned // with alone, the commits that are read all the same
	mirror      Mirror   // nil: there is none
	exact       exactCommits
	found       map[string]gitstore.Hash // trees of repositories, by name
	missing     map[string]error         // of the others

	mounted gitstore.Hash // the tree with the repositories
}

// Pinned is a commit of another repository. It counts only where the fleet declares the repository with this name and
// this URL.
type Pinned struct {
	Name, URL string
	Commit    gitstore.Hash
}

var errAlone = errors.New("other repositories are not read for a change by somebody without write access")

// Mount implements fleet.Mounts.
func (m *mounts) Mount(ctx context.Context, tree fleet.Tree, repositories []*fleet.Repository) (fleet.Tree,
	map[string]error,
) {
	all := func(err error) (fleet.Tree, map[string]error) {
		for _, r := range repositories {
			m.missing[r.Name] = err
		}
		return tree, m.missing
	}
	for _, r := range repositories {
		if _, known := m.found[r.Name]; known || m.missing[r.Name] != nil {
			continue // of an earlier call
		}
		if at, err := m.treeOf(ctx, r); err != nil {
			m.missing[r.Name] = err
		} else {
			m.found[r.Name] = at
		}
	}
	if len(m.found) == 0 {
		return tree, m.missing
	}
	mounted, err := m.store.Graft(ctx, m.snap.Root(), fleet.MountDir, m.found)
	switch {
	case errors.Is(err, fs.ErrExist):
		return all(errMountDir)
	case err != nil:
		return all(err)
	}
	m.mounted = mounted
	m.exact.outages.repositories = repositories
	return m.store.Snapshot(ctx, mounted).OnLack(m.exact.outages.lacks), m.missing
}

var errMountDir = fmt.Errorf("the fleet has a directory %s, in which other repositories appear: rename it",
	fleet.MountDir)

// Exact implements fleet.Mounts.
func (m *mounts) Exact() bool { return m.exact.commits != nil }

// treeOf returns the tree of a repository's commit, and sets its commit.
func (m *mounts) treeOf(ctx context.Context, r *fleet.Repository) (gitstore.Hash, error) {
	if r.Exact {
		at, err := m.exact.tree(ctx, fleet.GitCommit{URL: r.URL, Commit: r.Wanted, Nested: r.Nested})
		if err == nil {
			r.Commit = r.Wanted
		}
		return at, err
	}
	if m.alone && len(m.only) == 0 {
		return gitstore.Hash{}, errAlone
	}
	lock, err := readLock(m.snap)
	if err != nil {
		return gitstore.Hash{}, err
	}
	if m.alone && !m.allows(lock, r) {
		return gitstore.Hash{}, errAlone
	}
	at, err := m.pinned(ctx, lock, r)
	if err == nil {
		pin, _ := lock.Pin(r.Name) // found: pinned has looked it up
		r.Commit, r.Resolved = pin.Commit, pin.Resolved
	}
	return at, err
}

// allows reports whether the lock file pins a repository to one of the commits that are read all the same. The fleet
// and its lock file can be those of the untrusted change, so a name alone identifies no repository.
func (m *mounts) allows(lock *fetch.Lock, r *fleet.Repository) bool {
	pin, ok := lock.Pin(r.Name)
	return ok && slices.ContainsFunc(m.only, func(p Pinned) bool {
		return p.Name == r.Name && p.URL == r.URL && p.URL == pin.URL && p.Commit.String() == pin.Commit
	})
}

// pinned returns the tree of a repository's pinned commit.
func (m *mounts) pinned(ctx context.Context, lock *fetch.Lock, r *fleet.Repository) (gitstore.Hash, error) {
	pin, ok := lock.Pin(r.Name)
	if !ok || pin.URL != r.URL || pin.Wanted != r.Wanted {
		return gitstore.Hash{}, fmt.Errorf("%s of %s is not in %s: run `sluice deps lock`", r.Wanted, r.URL,
			fetch.LockFile)
	}
	commit, err := gitstore.ParseHash(pin.Commit)
	if err != nil {
		return gitstore.Hash{}, err
	}
	if !m.store.Has(commit) {
		mirrored(ctx, m.mirror, commit, false)
	}
	if m.credentials != nil {
		err = m.store.FetchPinned(ctx, r.URL, m.credentials(r.URL), commit)
	} else {
		err = m.store.Ensure(ctx, commit)
	}
	if err != nil {
		m.exact.outages.note()
		return gitstore.Hash{}, fmt.Errorf("commit %s of %s cannot be fetched: %w", commit.Short(), r.URL, err)
	}
	c, err := m.store.Commit(ctx, commit)
	if err != nil {
		m.exact.outages.note()
		return gitstore.Hash{}, err
	}
	return c.Tree, nil
}

// ReadLock reads sluice.lock of a tree. It is empty if there is none.
func ReadLock(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (*fetch.Lock, error) {
	return readLock(store.Snapshot(ctx, tree))
}

func readLock(snap *gitstore.Snapshot) (*fetch.Lock, error) {
	data, err := snap.ReadFile(fetch.LockFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lock, err := fetch.ParseLock(data)
	if err != nil {
		return nil, lockProblems(err)
	}
	return lock, nil
}

// lockProblems turns the errors of a lock file into problems of the fleet, because the change causes them.
func lockProblems(err error) fleet.Problems {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // of errors.Join: each part is one problem
		all = joined.Unwrap()
	}
	var out fleet.Problems
	for _, one := range all {
		p := fleet.Problem{
			File: fetch.LockFile, Severity: fleet.SeverityError,
			Message: strings.TrimPrefix(one.Error(), fetch.LockFile+": "),
		}
		if rest, ok := strings.CutPrefix(one.Error(), fetch.LockFile+":"); ok {
			if number, message, ok := strings.Cut(rest, ": "); ok {
				if line, err := strconv.Atoi(number); err == nil {
					p.Line, p.Message = line, message
				}
			}
		}
		out = append(out, p)
	}
	return out
}
