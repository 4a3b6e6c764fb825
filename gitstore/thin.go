package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// Range is a part of a history: the commits that To contains and From does not; all if From is zero. With Tree, both are
// trees: what To has and From does not have at the same path.
type Range struct {
	From, To Hash
	Tree     bool
}

// maxHistory limits the commits of a Range without From.
const maxHistory = 200_000

// WriteThin writes a thin packfile: the objects of the ranges' commits that neither their first parents nor From have at
// the same path. The base of a delta is the object that the parent has there. Whoever has the commits of From can read it, also with
// `git index-pack --fix-thin`. Equal ranges give equal bytes. It returns the number of objects.
func (s *Store) WriteThin(ctx context.Context, to io.Writer, ranges ...Range) (int, error) {
	l := thinList{store: s, has: map[Hash]bool{}, bases: map[Hash]bool{}, depth: map[Hash]int{}}
	for _, r := range ranges {
		if r.Tree {
			if err := l.tree(ctx, r.From, r.From, r.To); err != nil {
				return 0, err
			}
			continue
		}
		commits, err := s.oldestFirst(ctx, r)
		if err != nil {
			return 0, err
		}
		var has Hash
		if !r.From.IsZero() {
			c, err := s.Commit(ctx, r.From)
			if err != nil {
				return 0, err
			}
			has = c.Tree
		}
		for _, c := range commits {
			if err := l.commit(ctx, c, has); err != nil {
				return 0, err
			}
		}
	}
	return l.write(ctx, to)
}

// WriteMissing writes a thin packfile with what somebody lacks of commits, with their history. has reports whether they
// have an object; then they have all that it names. Whoever has the rest can read it with ReadThin. Equal input gives
// equal bytes. It returns the number of objects, and writes nothing if there are none.
func (s *Store) WriteMissing(ctx context.Context, to io.Writer, has func(Hash) bool, tips ...Hash) (int, error) {
	l := thinList{store: s, theirs: has, has: map[Hash]bool{}, bases: map[Hash]bool{}, depth: map[Hash]int{}}
	for _, tip := range tips {
		if err := l.line(ctx, tip); err != nil {
			return 0, err
		}
	}
	if len(l.order) == 0 {
		return 0, nil
	}
	return l.write(ctx, to)
}

// line adds a commit and those before it that the receiver lacks, parents first.
func (l *thinList) line(ctx context.Context, tip Hash) error {
	visited := map[Hash]bool{}
	for stack := []Hash{tip}; len(stack) > 0; {
		h := stack[len(stack)-1]
		if l.has[h] || l.theirs(h) {
			stack = stack[:len(stack)-1]
			continue
		}
		c, err := l.store.Commit(ctx, h)
		if err != nil {
			return err
		}
		if !visited[h] { // first what it follows
			if visited[h] = true; len(visited) > maxHistory {
				return ErrTooManyCommits
			}
			stack = append(stack, c.Parents...)
			continue
		}
		stack = stack[:len(stack)-1]
		if err := l.commit(ctx, c, Hash{}); err != nil {
			return err
		}
	}
	return nil
}

// write writes the packfile, and returns the number of objects.
func (l *thinList) write(ctx context.Context, to io.Writer) (int, error) {
	needed := make([]Hash, 0, 2*len(l.order))
	for _, o := range l.order {
		if needed = append(needed, o.hash); !o.base.IsZero() {
			needed = append(needed, o.base)
		}
	}
	if err := l.store.Ensure(ctx, needed...); err != nil {
		return 0, err
	}
	out, err := pack.NewThin(to, len(l.order))
	if err != nil {
		return 0, err
	}
	for _, o := range l.order {
		raw, err := l.store.read(ctx, o.hash)
		if err != nil {
			return 0, err
		}
		var base Raw
		if !o.base.IsZero() {
			if base, err = l.store.read(ctx, o.base); err != nil {
				return 0, err
			}
		}
		if err := out.Add(raw, o.base, base.Data); err != nil {
			return 0, err
		}
	}
	return len(l.order), out.Close()
}

// maxChain limits the deltas that a reader applies to get one object, as Git does.
const maxChain = 50

// thinList collects the objects of a packfile, bases before the deltas against them.
type thinList struct {
	store  *Store
	theirs func(Hash) bool // what the receiver has; nil: nothing that is known
	has    map[Hash]bool
	bases  map[Hash]bool // of the objects so far
	depth  map[Hash]int  // of the chains of deltas, at most
	order  []thinObject
}

type thinObject struct{ hash, base Hash }

// add adds an object. If another one needs it as a base, it is written whole, so that no deltas need each other.
func (l *thinList) add(h, base Hash) bool {
	if l.has[h] || l.theirs != nil && l.theirs(h) {
		return false
	}
	if l.bases[h] || l.depth[base] >= maxChain {
		base = Hash{}
	}
	if !base.IsZero() {
		l.bases[base], l.depth[h] = true, l.depth[base]+1
	}
	l.has[h] = true
	l.order = append(l.order, thinObject{h, base})
	return true
}

func (l *thinList) commit(ctx context.Context, c Commit, has Hash) error {
	if !l.add(c.Hash, Hash{}) {
		return nil
	}
	var before Hash
	if len(c.Parents) > 0 {
		parent, err := l.store.Commit(ctx, c.Parents[0])
		if err != nil {
			return err
		}
		before = parent.Tree
	}
	return l.tree(ctx, before, has, c.Tree)
}

// tree adds what a tree has and neither its parent's nor the receiver's has at the same path; zero stands for none.
func (l *thinList) tree(ctx context.Context, before, has, after Hash) error {
	if before == after || has == after || !l.add(after, before) {
		return nil
	}
	now, err := l.store.entries(ctx, after)
	if err != nil {
		return err
	}
	old, err := entriesByName(ctx, l.store.entries, before)
	if err != nil {
		return err
	}
	known := old
	if has != before {
		if known, err = entriesByName(ctx, l.store.entries, has); err != nil {
			return err
		}
	}
	for _, e := range now {
		base, theirs := sameKind(old[e.Name], e), sameKind(known[e.Name], e)
		switch {
		case e.Mode == ModeSubmodule || e.Hash == base || e.Hash == theirs:
		case e.Mode == ModeTree:
			err = l.tree(ctx, base, theirs, e.Hash)
		default:
			l.add(e.Hash, base)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sameKind returns the hash of an entry if it is a folder as another one is, or a file as that one is; else zero.
func sameKind(e, as Entry) Hash {
	if e.Mode == ModeSubmodule || (e.Mode == ModeTree) != (as.Mode == ModeTree) {
		return Hash{}
	}
	return e.Hash
}

func entriesByName(ctx context.Context, read func(context.Context, Hash) ([]Entry, error), tree Hash) (map[string]Entry, error) {
	list, err := read(ctx, tree)
	out := make(map[string]Entry, len(list))
	for _, e := range list {
		out[e.Name] = e
	}
	return out, err
}

// oldestFirst lists the commits of a range, parents before their children.
func (s *Store) oldestFirst(ctx context.Context, r Range) ([]Commit, error) {
	var list []Commit
	var err error
	if r.From.IsZero() {
		list, err = s.history(ctx, r.To)
	} else {
		list, err = s.Between(ctx, r.From, r.To, maxBetween)
	}
	if err != nil {
		return nil, err
	}
	known := make(map[Hash]Commit, len(list))
	for _, c := range list {
		known[c.Hash] = c
	}
	var out []Commit
	done := map[Hash]bool{}
	for _, tip := range slices.Backward(list) {
		for stack := []Commit{tip}; len(stack) > 0; {
			c := stack[len(stack)-1]
			next := slices.IndexFunc(c.Parents, func(p Hash) bool { _, ok := known[p]; return ok && !done[p] })
			if !done[c.Hash] && next >= 0 {
				stack = append(stack, known[c.Parents[next]])
				continue
			}
			if stack = stack[:len(stack)-1]; !done[c.Hash] {
				done[c.Hash] = true
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// history lists all commits that a commit contains, in no order that callers may rely on, but always the same one.
func (s *Store) history(ctx context.Context, tip Hash) ([]Commit, error) {
	seen := map[Hash]bool{tip: true}
	var out []Commit
	for todo := []Hash{tip}; len(todo) > 0; todo = todo[1:] {
		if !s.Has(todo[0]) {
			if err := s.deepen(ctx, todo[0], everything); err != nil {
				return nil, incomplete(err)
			}
		}
		c, err := s.Commit(ctx, todo[0])
		if err != nil {
			return nil, err
		}
		if out = append(out, c); len(out) > maxHistory {
			return nil, fmt.Errorf("there are more than %d commits up to %s", maxHistory, tip.Short())
		}
		for _, p := range c.Parents {
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return out, nil
}

// ThinLimits bound what ReadThin takes.
type ThinLimits = pack.ThinLimits

// ReadThin reads a thin packfile from outside into a Writer, whose Store has the bases of deltas. The objects are
// bounded and have the right names, and are otherwise untrusted: call CheckReach before they are pushed.
func ReadThin(ctx context.Context, from io.Reader, w *Writer, limits ThinLimits) error {
	return pack.ReadThin(&untilDone{ctx, from}, w.pack, limits, func(h Hash) (Raw, error) {
		if err := ctx.Err(); err != nil {
			return Raw{}, err
		}
		return w.store.read(ctx, h)
	})
}

// untilDone is a reader that fails when a context ends.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // of one call
	from io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(p)
}

// ErrReach means that new objects are not what branches need: an object is missing, or is of no use.
var ErrReach = errors.New("the objects are not those of the branches")

// CheckReach returns an ErrReach unless the objects of a Writer are those that commits and trees need beside the ones
// that the Store, or a remote of it, has: nothing is missing, malformed, or not reachable.
func CheckReach(ctx context.Context, w *Writer, commits, trees []Hash) error {
	r := reach{w: w, seen: map[Hash]bool{}}
	for _, tip := range commits {
		if err := r.commits(ctx, tip); err != nil {
			return err
		}
	}
	for _, tree := range trees {
		if err := r.tree(ctx, Hash{}, tree, 0); err != nil {
			return err
		}
	}
	if err := w.store.Ensure(ctx, r.others...); err != nil {
		return fmt.Errorf("%w: one is missing: %w", ErrReach, err)
	}
	if extra := w.Len() - r.own; extra > 0 {
		return fmt.Errorf("%w: %d of %d objects are not reachable", ErrReach, extra, w.Len())
	}
	return nil
}

type reach struct {
	w      *Writer
	seen   map[Hash]bool
	own    int    // objects of the Writer
	others []Hash // that the Writer does not have
}

// visit notes an object. It reports whether it is one of the Writer that was not seen.
func (r *reach) visit(h Hash) bool {
	if r.seen[h] {
		return false
	}
	r.seen[h] = true
	if r.w.Has(h) {
		r.own++
		return true
	}
	r.others = append(r.others, h)
	return false
}

func (r *reach) commits(ctx context.Context, tip Hash) error {
	for todo := []Hash{tip}; len(todo) > 0; {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !r.visit(h) {
			continue
		}
		c, err := r.w.store.Commit(ctx, h)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrReach, err)
		}
		todo = append(todo, c.Parents...)
		var before Hash
		if len(c.Parents) > 0 {
			parent, err := r.w.store.Commit(ctx, c.Parents[0])
			if err != nil {
				return fmt.Errorf("%w: %w", ErrReach, err)
			}
			before = parent.Tree
		}
		if err := r.tree(ctx, before, c.Tree, 0); err != nil {
			return err
		}
	}
	return nil
}

// tree visits what a tree has and its parent's does not have at the same path.
func (r *reach) tree(ctx context.Context, before, after Hash, level int) error {
	const deepest = 100 // folders in each other
	if before == after || !r.visit(after) {
		return nil
	}
	if level > deepest {
		return fmt.Errorf("%w: folders nest too deep", ErrReach)
	}
	now, err := r.w.store.Tree(ctx, after)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReach, err)
	}
	old, err := entriesByName(ctx, r.w.store.entries, before)
	if err != nil {
		return err
	}
	for _, e := range now {
		base := sameKind(old[e.Name], e)
		switch {
		case base == e.Hash, e.Mode == ModeSubmodule:
		case e.Mode == ModeTree:
			err = r.tree(ctx, base, e.Hash, level+1)
		case r.visit(e.Hash):
			err = r.blob(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reach) blob(e Entry) error {
	o, _, err := r.w.pack.Read(e.Hash)
	if err == nil && o.Kind != "blob" {
		err = fmt.Errorf("%w: %s is a %s where a file must be", ErrReach, e.Hash, o.Kind)
	}
	return err
}

// JoinThin makes one thin packfile of several, in whose order a reader would read them.
func JoinThin(packs ...[]byte) ([]byte, error) { return pack.Join(packs...) }
