package gitstore

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
)

// IsAncestor reports whether old is new or an ancestor of it. It fetches history that a shallow clone lacks. It
// returns ErrShallow if that is not possible and the local history does not suffice.
func (s *Store) IsAncestor(ctx context.Context, old, new Hash) (bool, error) {
	if old == new {
		return true, nil
	}
	w := newWalk(s)
	bases, err := w.run(ctx, new, old)
	switch {
	case err != nil:
		return false, err
	case slices.Contains(bases, old):
		return true, nil
	case w.cut != nil:
		return false, w.cut
	}
	return false, nil
}

// MergeBase returns the best common ancestor of two commits; of several equally good ones always the same. It returns
// ErrUnrelated if they have no common ancestor, and ErrShallow if the available history does not suffice.
func (s *Store) MergeBase(ctx context.Context, a, b Hash) (Hash, error) {
	if a == b {
		return a, nil
	}
	w := newWalk(s)
	bases, err := w.run(ctx, a, b)
	switch {
	case err != nil:
		return Hash{}, err
	case slices.Contains(bases, a): // one commit is an ancestor of the other: older history cannot change that
		return a, nil
	case slices.Contains(bases, b):
		return b, nil
	case w.cut != nil:
		return Hash{}, w.cut
	case len(bases) == 0:
		return Hash{}, fmt.Errorf("%w: %s and %s have no ancestor in common", ErrUnrelated, a.Short(), b.Short())
	}
	slices.SortFunc(bases, func(x, y Hash) int { return bytes.Compare(x[:], y[:]) })
	best := bases[:0:0]
	for _, candidate := range bases { // with wrong commit dates, bases can contain ancestors of better ones
		redundant := false
		for _, other := range bases {
			if other == candidate || redundant {
				continue
			}
			if redundant, err = s.IsAncestor(ctx, candidate, other); err != nil {
				return Hash{}, err
			}
		}
		if !redundant {
			best = append(best, candidate)
		}
	}
	return best[0], nil
}

// Flags of a commit in a walk.
const (
	fromA = 1 << iota
	fromB
	stale // an ancestor of a common ancestor
)

// walk visits the history of two commits, newest first, until only common ancestors are left. The algorithm is
// paint_down_to_common of Git.
type walk struct {
	store *Store
	queue byTime
	flags map[Hash]int
	depth int
	cut   error // ErrShallow and its cause, if a relevant commit is missing
}

func newWalk(s *Store) *walk {
	const firstDepth = 64
	return &walk{store: s, flags: map[Hash]int{}, depth: firstDepth}
}

func (w *walk) run(ctx context.Context, a, b Hash) ([]Hash, error) {
	for _, start := range []struct {
		at   Hash
		flag int
	}{{a, fromA}, {b, fromB}} {
		if !w.store.Has(start.at) {
			_ = w.store.deepen(ctx, start.at, w.depth) // if it fails, reading the commit fails below
		}
		c, err := w.store.Commit(ctx, start.at)
		if errors.Is(err, ErrNotFound) {
			return nil, incomplete(err)
		}
		if err != nil {
			return nil, err
		}
		w.flags[start.at] |= start.flag
		heap.Push(&w.queue, c)
	}
	var bases []Hash
	for w.interesting() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, _ := heap.Pop(&w.queue).(Commit)
		flags := w.flags[c.Hash]
		if flags == fromA|fromB {
			if !slices.Contains(bases, c.Hash) {
				bases = append(bases, c.Hash)
			}
			flags |= stale
		}
		for _, p := range c.Parents {
			if err := w.visit(ctx, p, flags); err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(bases, func(h Hash) bool { return w.flags[h]&stale != 0 }), nil
}

func (w *walk) interesting() bool {
	return slices.ContainsFunc(w.queue, func(c Commit) bool { return w.flags[c.Hash]&stale == 0 })
}

// visit passes flags on to a parent.
func (w *walk) visit(ctx context.Context, p Hash, flags int) error {
	if w.flags[p]&flags == flags {
		return nil
	}
	w.flags[p] |= flags
	if flags&stale == 0 && !w.store.Has(p) {
		if err := w.store.deepen(ctx, p, w.depth); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.cut = incomplete(err) // no remote has the commit, or none can be reached
			return nil
		}
		w.depth *= 8
	}
	o, err := w.store.readLocal(p)
	if errors.Is(err, ErrNotFound) {
		if w.cut == nil && flags&stale == 0 {
			w.cut = fmt.Errorf("%w (commit %s is missing)", ErrShallow, p.Short())
		}
		return nil
	}
	if err != nil {
		return err
	}
	c, err := parseCommit(p, o.data)
	if err != nil {
		return err
	}
	heap.Push(&w.queue, c)
	return nil
}

// byTime is a heap of commits, the newest first.
type byTime []Commit

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, j int) bool { return b[i].Committer.When.After(b[j].Committer.When) }
func (b byTime) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// Push adds a commit.
func (b *byTime) Push(x any) { *b = append(*b, x.(Commit)) } //nolint:forcetypeassert // only commits are pushed

// Pop removes the last commit.
func (b *byTime) Pop() any {
	old := *b
	last := old[len(old)-1]
	*b = old[:len(old)-1]
	return last
}
