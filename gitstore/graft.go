package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// Graft returns a tree with other trees, by name, in the directory dir. dir is one path segment, which the tree must
// not have; otherwise the error matches fs.ErrExist. The new objects exist only in memory.
func (s *Store) Graft(ctx context.Context, tree Hash, dir string, mounts map[string]Hash) (Hash, error) {
	entries, err := s.Tree(ctx, tree)
	if err != nil {
		return Hash{}, err
	}
	if _, ok := find(entries, dir); ok {
		return Hash{}, &fs.PathError{Op: "graft", Path: dir, Err: fs.ErrExist}
	}
	var inner []Entry
	for _, name := range slices.Sorted(maps.Keys(mounts)) {
		inner = append(inner, Entry{Name: name, Mode: ModeTree, Hash: mounts[name]})
	}
	mounted, err := s.keepTree(inner)
	if err != nil {
		return Hash{}, err
	}
	return s.keepTree(append(slices.Clone(entries), Entry{Name: dir, Mode: ModeTree, Hash: mounted}))
}

// Replace returns a tree with new content for the file name at the top of the tree. The new objects exist only in
// memory.
func (s *Store) Replace(ctx context.Context, tree Hash, name string, data []byte) (Hash, error) {
	entries, err := s.Tree(ctx, tree)
	if err != nil {
		return Hash{}, err
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Name == name })
	return s.keepTree(append(entries, Entry{Name: name, Mode: ModeFile, Hash: s.keep("blob", data)}))
}

func (s *Store) keepTree(entries []Entry) (Hash, error) {
	data, err := encodeTree(entries)
	if err != nil {
		return Hash{}, err
	}
	return s.keep("tree", data), nil
}

// Keep stores an object in memory, and returns its name. It fails with ErrTooLarge for one that is too large to be
// read.
func (s *Store) Keep(r Raw) (Hash, error) {
	if len(r.Data) > MaxObject {
		return Hash{}, ErrTooLarge
	}
	return s.keep(r.Kind, r.Data), nil
}

// KeepCommit creates a commit that exists only in memory.
func (s *Store) KeepCommit(c CommitSpec) (Hash, error) {
	data, err := encodeCommit(c)
	if err != nil {
		return Hash{}, err
	}
	return s.keep("commit", data), nil
}

// Borrow lets the store read the objects of another store. Close closes that one too.
func (s *Store) Borrow(other *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lenders = append(slices.Clone(s.lenders), other)
}

// fromLenders makes the stores that this one borrows from fetch missing objects.
func (s *Store) fromLenders(ctx context.Context, hashes []Hash) bool {
	s.mu.RLock()
	lenders := s.lenders
	s.mu.RUnlock()
	return slices.ContainsFunc(lenders, func(other *Store) bool { return other.Ensure(ctx, hashes...) == nil })
}

// lent reads an object from the stores that this one borrows from.
func (s *Store) lent(h Hash) (Raw, error) {
	s.mu.RLock()
	lenders := s.lenders
	s.mu.RUnlock()
	for _, other := range lenders {
		if o, err := other.readLocal(h); !errors.Is(err, ErrNotFound) {
			return o, err
		}
	}
	return Raw{}, fmt.Errorf("%w: %s", ErrNotFound, h)
}
