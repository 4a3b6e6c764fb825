package gitstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
)

// Change is a path whose entry differs between two trees. A zero Hash means that the tree does not have the path.
type Change struct {
	Path     string
	Old, New Entry
}

// Changes lists the files that differ between two trees, by path. It does not read equal subtrees. A zero hash is an
// empty tree. If many folders differ and one of the trees has more paths than anybody can list, it returns
// ErrTooManyPaths.
func (s *Store) Changes(ctx context.Context, a, b Hash) ([]Change, error) {
	out := changeList{most: math.MaxInt, folders: math.MaxInt, entries: fewPaths}
	out.enough = func() error {
		out.entries = math.MaxInt
		return cmp.Or(s.bounded(ctx, a), s.bounded(ctx, b))
	}
	err := s.changes(ctx, "", a, b, &out)
	return out.found, err
}

// FewChanges lists what Changes lists. If there are more than most changes, or more than ten times as many folders
// differ, it stops there and returns ErrTooMany.
func FewChanges(ctx context.Context, s *Store, a, b Hash, most int) ([]Change, error) {
	const foldersOfAFile = 10
	out := changeList{
		most: most, folders: foldersOfAFile * (most + 1), entries: math.MaxInt,
	}
	if err := s.changes(ctx, "", a, b, &out); err != nil {
		return nil, err
	}
	return out.found, nil
}

// ErrTooMany means that two trees differ in more files than the caller wants to know.
var ErrTooMany = errors.New("the trees differ in too many files")

// changeList collects changes.
type changeList struct {
	found []Change
	most  int // changes
	// that differ and may still be read: a few trees can name each other in so many places that no walk ends
	folders int
	entries int          // that may be read before enough is called
	enough  func() error // whose error ends the walk
}

func (s *Store) changes(ctx context.Context, prefix string, a, b Hash, out *changeList) error {
	if a == b {
		return nil
	}
	if out.folders--; out.folders < 0 {
		return ErrTooMany
	}
	before, err := s.entries(ctx, a)
	if err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(prefix, "the root folder"), err)
	}
	after, err := s.entries(ctx, b)
	if err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(prefix, "the root folder"), err)
	}
	if out.entries -= len(before) + len(after); out.entries < 0 {
		if err := out.enough(); err != nil {
			return err
		}
	}
	for i, j := 0, 0; i < len(before) || j < len(after); {
		var x, y Entry
		switch {
		case j == len(after) || i < len(before) && compareEntries(before[i], after[j]) < 0:
			x, i = before[i], i+1
		case i == len(before) || compareEntries(after[j], before[i]) < 0:
			y, j = after[j], j+1
		default:
			x, y, i, j = before[i], after[j], i+1, j+1
		}
		if x == y {
			continue
		}
		if err := s.change(ctx, prefix, x, y, out); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) change(ctx context.Context, prefix string, x, y Entry, out *changeList) error {
	name := prefix + x.Name
	if x.Name == "" {
		name = prefix + y.Name
	}
	var below, above Hash
	if x.Mode == ModeTree {
		below, x = x.Hash, Entry{}
	}
	if y.Mode == ModeTree {
		above, y = y.Hash, Entry{}
	}
	if x != y {
		if len(out.found) == out.most {
			return ErrTooMany
		}
		out.found = append(out.found, Change{Path: name, Old: x, New: y})
	}
	return s.changes(ctx, name+"/", below, above, out)
}

func (s *Store) entries(ctx context.Context, h Hash) ([]Entry, error) {
	if h.IsZero() {
		return nil, nil
	}
	return s.Tree(ctx, h)
}
