package gitstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
)

// Limits of the paths of a tree. A walk over a few trees that name each other many times would never end.
const (
	mostPaths  = 2_000_000
	mostLevels = 500    // folders in each other
	fewPaths   = 20_000 // entries that are listed before somebody counts the paths
)

// ErrTooManyPaths means that a tree has more paths than Sluice lists. It is an ErrMalformed: only the author of the
// commit can mend it.
var ErrTooManyPaths = fmt.Errorf("%w: too many paths", ErrMalformed)

// pathsError is an ErrTooManyPaths.
type pathsError struct {
	folder string // "" for the root
	levels bool
}

// Error names the folder and the limit.
func (e *pathsError) Error() string {
	where := cmp.Or(e.folder, "the root folder")
	if e.levels {
		return fmt.Sprintf("%s has more than %d levels of folders, more than Sluice reads (remove it)", where, mostLevels)
	}
	return fmt.Sprintf("%s has more than %d files and folders, more than Sluice lists (remove the folders that repeat)",
		where, mostPaths)
}

// Unwrap returns ErrTooManyPaths.
func (e *pathsError) Unwrap() error { return ErrTooManyPaths }

// bounded returns an ErrTooManyPaths if a tree has more than mostPaths paths. It reads each different tree once, and
// names the folder of the root that has most of the paths.
func (s *Store) bounded(ctx context.Context, root Hash) error {
	total, err := s.paths(ctx, root, 0)
	if err != nil || total <= mostPaths {
		return err
	}
	entries, err := s.Tree(ctx, root)
	if err != nil {
		return err
	}
	out, most := &pathsError{}, int64(mostPaths)
	for _, e := range entries {
		if e.Mode != ModeTree {
			continue
		}
		if n, err := s.paths(ctx, e.Hash, 1); err == nil && n > most {
			out.folder, most = e.Name, n
		}
	}
	return out
}

// paths returns the number of paths below a tree; more than mostPaths if there are more, or too many levels. A tree
// that cannot be read has none: who reads it gets the error.
func (s *Store) paths(ctx context.Context, tree Hash, level int) (int64, error) {
	if level > mostLevels {
		return mostPaths + 1, nil
	}
	s.mu.RLock()
	known, ok := s.below[tree]
	s.mu.RUnlock()
	if ok {
		return known, nil
	}
	entries, err := s.Tree(ctx, tree)
	if err != nil {
		return 0, ctx.Err() // nil for what cannot be read
	}
	total := int64(len(entries))
	for _, e := range entries {
		if e.Mode != ModeTree {
			continue
		}
		n, err := s.paths(ctx, e.Hash, level+1)
		if err != nil {
			return 0, err
		}
		if total += n; total > mostPaths {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.below) >= maxTrees {
		clear(s.below)
	}
	s.below[tree] = total
	return total, nil
}

// Bounded returns an ErrTooManyPaths if there are more paths below a folder than anybody can list. It reads each
// different folder once. Call it before reading all files of a folder.
func (s *Snapshot) Bounded(dir string) error {
	e, err := s.Entry(dir)
	if err != nil || e.Mode != ModeTree {
		return err
	}
	err = s.store.bounded(s.ctx, e.Hash)
	if tooMany, ok := errors.AsType[*pathsError](err); ok {
		tooMany.folder = path.Join(dir, tooMany.folder)
	}
	return err
}

// list counts the entries of a folder that somebody lists. After many, it returns an ErrTooManyPaths if the snapshot
// has too many paths for anybody to list.
func (s *Snapshot) list(dir string, entries int) error {
	if strings.Count(dir, "/") >= mostLevels {
		first, _, _ := strings.Cut(dir, "/")
		return &pathsError{folder: first, levels: true}
	}
	if s.listed.Add(int64(entries)+1) < fewPaths {
		return nil
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	if !s.counted {
		err := s.store.bounded(s.ctx, s.root)
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		s.counted, s.tooMany = true, err
	}
	return s.tooMany
}
