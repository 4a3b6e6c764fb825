package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
	"github.com/sluice-gitops/sluice/internal/lru"
)

// Store reads a repository. It is safe for concurrent use.
type Store struct {
	dir      string // the .git folder, of the main working tree if there are several; "" in memory
	gitDir   string // the folder of this working tree; equal to dir if there are no linked ones
	worktree string // "" for a bare repository
	bare     bool
	temp     []string // removed by Close

	disk disk.Disk

	refs sync.Mutex          // guards repo: go-git's storage is not safe for concurrent use
	repo *filesystem.Storage // refs, configuration and index; nil in memory

	own      *pack.Folder
	borrowed []*pack.Folder

	fetching chan struct{} // a semaphore of one: the second of two fetches often finds that nothing is missing

	mu      sync.RWMutex
	side    *pack.Folder     // the cache of fetched and pushed objects; see sideFolder
	overlay map[Hash]Raw     // objects that exist only in memory
	writers []*Writer        // objects that are not pushed yet
	sources []endpoint       // remotes for missing objects, the last one that succeeded first
	others  []endpoint       // other repositories for missing objects; see AddRemote
	foreign bool             // one of the others had the last missing object: ask these first
	lenders []*Store         // see Borrow
	supply  Supply           // source of missing objects in a store without files; see OpenSupplied
	trees   map[Hash][]Entry // trees are read repeatedly, blobs are not
	below   map[Hash]int64   // numbers of paths of trees; see paths
	auth    Auth
	remote  string // URL of the repository's remote, may be ""

	listed *listings // nil unless Options.OneListing

	signatures *lru.Cache[*verdict] // by commit and list of signers
}

func newStore() *Store {
	signatures := lru.New[*verdict](knownSignatures)
	return &Store{
		disk: disk.OS{}, overlay: map[Hash]Raw{}, trees: map[Hash][]Entry{}, below: map[Hash]int64{},
		fetching: make(chan struct{}, 1), signatures: signatures,
	}
}

// OpenMemory returns a store without a repository, for files that are not in Git.
func OpenMemory() *Store { return newStore() }

// Close closes the store's files, and removes a temporary mirror.
func (s *Store) Close() error {
	var errs []error
	for _, f := range s.folders() {
		errs = append(errs, f.Close())
	}
	for _, other := range s.lenders {
		errs = append(errs, other.Close())
	}
	for _, dir := range s.temp {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// Worktree returns the folder of the working tree, or "" if there is none.
func (s *Store) Worktree() string { return s.worktree }

// RemoteURL returns the address of the repository's remote without credentials; "" if it has none.
func (s *Store) RemoteURL() string { return redactURL(s.remote) }

func (s *Store) folders() []*pack.Folder {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*pack.Folder
	if s.own != nil {
		out = append(out, s.own)
	}
	if s.side != nil && s.side != s.own {
		out = append(out, s.side)
	}
	return append(out, s.borrowed...)
}

// read returns an object from memory, from the repository or from a remote.
func (s *Store) read(ctx context.Context, h Hash) (Raw, error) {
	o, err := s.readLocal(h)
	if !errors.Is(err, ErrNotFound) {
		return o, err
	}
	if err := s.Ensure(ctx, h); err != nil {
		return Raw{}, err
	}
	return s.readLocal(h)
}

func (s *Store) readLocal(h Hash) (Raw, error) {
	if o, ok, err := s.readNew(h); ok || err != nil {
		return o, err
	}
	folders := s.folders()
	for _, f := range folders {
		if o, err := f.ReadPacked(h); err == nil {
			return o, nil
		}
	}
	var broken error // another folder may have a good copy
	for _, f := range folders {
		o, err := f.Read(h)
		switch {
		case err == nil:
			return o, nil
		case errors.Is(err, ErrDamaged):
			broken = fmt.Errorf("object %s: %w", h, err)
		case !errors.Is(err, ErrNotFound):
			return Raw{}, fmt.Errorf("object %s in %s: %w", h, f.Dir(), err)
		}
	}
	if broken != nil {
		return Raw{}, broken
	}
	return s.lent(h)
}

// readNew reads an object that is not in the repository yet.
func (s *Store) readNew(h Hash) (Raw, bool, error) {
	s.mu.RLock()
	o, ok := s.overlay[h]
	writers := s.writers
	s.mu.RUnlock()
	for i := 0; i < len(writers) && !ok; i++ {
		var err error
		if o, ok, err = writers[i].pack.Read(h); err != nil {
			return Raw{}, true, err
		}
	}
	return o, ok, nil
}

// Has reports whether the object can be read without a remote.
func (s *Store) Has(h Hash) bool {
	s.mu.RLock()
	_, ok := s.overlay[h]
	writers := s.writers
	s.mu.RUnlock()
	for i := 0; i < len(writers) && !ok; i++ {
		ok = writers[i].Has(h)
	}
	if ok {
		return true
	}
	folders := s.folders()
	if slices.ContainsFunc(folders, func(f *pack.Folder) bool { return f.HasPacked(h) }) ||
		slices.ContainsFunc(folders, func(f *pack.Folder) bool { return f.Has(h) }) {
		return true
	}
	s.mu.RLock()
	lenders := s.lenders
	s.mu.RUnlock()
	return slices.ContainsFunc(lenders, func(other *Store) bool { return other.Has(h) })
}

func (s *Store) typed(ctx context.Context, h Hash, kind string) ([]byte, error) {
	o, err := s.read(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, h.Short(), err)
	}
	if o.Kind != kind {
		return nil, fmt.Errorf("%s is a %s, not a %s", h, o.Kind, kind)
	}
	return o.Data, nil
}

// Blob returns a blob's bytes, or ErrTooLarge if it has more than 32 MiB.
func (s *Store) Blob(ctx context.Context, h Hash) ([]byte, error) { return s.typed(ctx, h, "blob") }

// Tree returns a tree's entries. The caller must not change them.
func (s *Store) Tree(ctx context.Context, h Hash) ([]Entry, error) {
	if err := ctx.Err(); err != nil { // here, so that every walk over trees ends
		return nil, err
	}
	s.mu.RLock()
	known, ok := s.trees[h]
	s.mu.RUnlock()
	if ok {
		return known, nil
	}
	data, err := s.typed(ctx, h, "tree")
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", h, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.trees) >= maxTrees {
		clear(s.trees)
	}
	s.trees[h] = entries
	return entries, nil
}

// maxTrees limits the cache of trees in a long-running service.
const maxTrees = 100_000

// Commit returns a commit.
func (s *Store) Commit(ctx context.Context, h Hash) (Commit, error) {
	data, err := s.typed(ctx, h, "commit")
	if err != nil {
		return Commit{}, err
	}
	return parseCommit(h, data)
}

// keep holds an object in memory.
func (s *Store) keep(kind string, data []byte) Hash {
	h := pack.Sum(kind, data)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlay[h] = Raw{Kind: kind, Data: data}
	return h
}

// hint returns the next step when an object is missing.
func (s *Store) hint(h Hash) string {
	if s.dir == "" {
		return "the store has no repository to read it from"
	}
	if _, err := os.Stat(filepath.Join(s.dir, "shallow")); err == nil {
		return "the repository is a shallow clone: run `git fetch --unshallow`"
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.others) > 0 { // it may be one of another repository
		return "no remote gives it"
	}
	return "get it with `git fetch origin " + h.String() + "`, or clone without --depth and --filter"
}

// ref reads a ref by its full name; ErrNotFound if it does not exist.
func (s *Store) ref(name string) (Hash, error) {
	if s.repo == nil {
		return Hash{}, ErrNotFound
	}
	s.refs.Lock()
	defer s.refs.Unlock()
	ref, err := storer.ResolveReference(s.repo, plumbing.ReferenceName(name))
	if err == nil && !ref.Hash().IsZero() {
		return Hash(ref.Hash()), nil
	}
	file := filepath.Join(s.dir, filepath.FromSlash(name))
	if info, statErr := os.Stat(file); statErr == nil && info.Mode().IsRegular() && strings.HasPrefix(name, "refs/") &&
		fs.ValidPath(name) {
		return Hash{}, &DamagedError{Path: file, Err: errors.New("the ref does not name an object")}
	}
	return Hash{}, fmt.Errorf("%w: %s", ErrNotFound, name) // go-git has no type for names that cannot be refs
}
