package gitstore

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
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
	slices.SortStableFunc(bases, func(x, y Hash) int { return bytes.Compare(x[:], y[:]) })
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

// maxBetween limits the commits that Between visits.
const maxBetween = 20_000

// Between returns the commits that to contains and from does not, the newest first. It fetches history that a shallow
// clone lacks. It returns ErrShallow if that is not possible and the local history does not suffice, and
// ErrTooManyCommits if there are more than most. It leaves none out; where a commit is older than its parent by its date, the list can have
// some that from contains too.
func (s *Store) Between(ctx context.Context, from, to Hash, most int) ([]Commit, error) {
	if from == to {
		return nil, nil
	}
	w := newWalk(s)
	w.most = maxBetween
	if _, err := w.run(ctx, to, from); err != nil {
		return nil, err
	}
	if w.cut != nil {
		return nil, w.cut
	}
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	var out []Commit
	for h, flags := range w.flags {
		if flags != fromA {
			continue
		}
		c, err := s.Commit(ctx, h)
		if err != nil {
			return nil, err
		}
		if out = append(out, c); len(out) > most {
			return nil, fmt.Errorf("%w: more than %d between %s and %s", ErrTooManyCommits, most, from.Short(), to.Short())
		}
	}
	slices.SortStableFunc(out, func(a, b Commit) int {
		return cmp.Or(b.Committer.When.Compare(a.Committer.When), bytes.Compare(a.Hash[:], b.Hash[:]))
	})
	return out, nil
}

// FirstParents returns the first-parent line of a commit, which comes first: at most n commits, fewer where the history
// begins. It fetches what a shallow clone lacks, with the files of all commits in one request. If that fails, it
// returns the commits that are there and an error that wraps ErrShallow.
func (s *Store) FirstParents(ctx context.Context, from Hash, n int) ([]Commit, error) {
	var out []Commit
	for at := from; len(out) < n; {
		if !s.Has(at) {
			err := s.fromSources(ctx, []Hash{at}, func(e endpoint, still []Hash) error {
				return s.fetch(ctx, e, fetchRequest{objects: still, depth: n - len(out)})
			})
			if err != nil {
				return out, cmp.Or(ctx.Err(), incomplete(err))
			}
		}
		c, err := s.Commit(ctx, at)
		if err != nil {
			return out, err
		}
		if out = append(out, c); len(c.Parents) == 0 {
			break
		}
		at = c.Parents[0]
	}
	return out, nil
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
	most  int   // commits that are visited; 0 is no limit
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
		if w.most > 0 && len(w.flags) > w.most {
			return nil, fmt.Errorf("%w: the histories of %s and %s differ by more than %d", ErrTooManyCommits, a.Short(), b.Short(),
				w.most)
		}
		c, common, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		if common && !slices.Contains(bases, c) {
			bases = append(bases, c)
		}
	}
	return slices.DeleteFunc(bases, func(h Hash) bool { return w.flags[h]&stale != 0 }), nil
}

// next visits the parents of the newest commit of the queue. common reports whether both histories have it and no such
// commit before it.
func (w *walk) next(ctx context.Context) (h Hash, common bool, err error) {
	if err := ctx.Err(); err != nil {
		return Hash{}, false, err
	}
	c, _ := heap.Pop(&w.queue).(Commit)
	flags := w.flags[c.Hash]
	if common = flags == fromA|fromB; common {
		flags |= stale
	}
	for _, p := range c.Parents {
		if err := w.visit(ctx, p, flags); err != nil {
			return Hash{}, false, err
		}
	}
	return c.Hash, common, nil
}

// settle passes the flags of common ancestors on to commits that seem to be in the first history only. The walk visits
// commits of one date, as a rebase makes them, in any order.
func (w *walk) settle(ctx context.Context) error {
	var oldest time.Time
	for h, flags := range w.flags {
		if flags != fromA {
			continue
		}
		c, err := w.store.Commit(ctx, h)
		if err != nil {
			return err
		}
		if when := c.Committer.When; oldest.IsZero() || when.Before(oldest) {
			oldest = when
		}
	}
	for !oldest.IsZero() && len(w.queue) > 0 && !w.queue[0].Committer.When.Before(oldest) {
		if _, _, err := w.next(ctx); err != nil {
			return err
		}
	}
	return nil
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
	c, err := parseCommit(p, o.Data)
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
