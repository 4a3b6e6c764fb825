package branch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
)

// Edits edits the trees of an environment's clusters. Many clusters have equal trees and get equal edits, so it makes
// and counts each edit once. It is not safe for concurrent use.
type Edits struct {
	store *gitstore.Store
	w     *gitstore.Writer
	whose func(file string) string
	known map[edit]*Edited
}

// edit identifies an edit of a tree.
type edit struct {
	old  gitstore.Hash
	apps [sha256.Size]byte
}

// Edited is a tree after an edit, and the number of files that the edit adds, changes and removes.
type Edited struct {
	Tree           gitstore.Hash
	Added, Changed int
	Removed        map[string]int // by what whose returns
}

// Loss returns how many files less the tree has after the edit; it is negative if it has more.
func (e *Edited) Loss() int {
	loss := -e.Added
	for _, n := range e.Removed {
		loss += n
	}
	return loss
}

// NewEdits returns edits that write trees into w. whose divides the removed files by their path in the tree of a
// cluster.
func NewEdits(store *gitstore.Store, w *gitstore.Writer, whose func(file string) string) *Edits {
	return &Edits{store: store, w: w, whose: whose, known: map[edit]*Edited{}}
}

// Edit is EditApps with counts. The caller does not change the result.
func (e *Edits) Edit(ctx context.Context, old gitstore.Hash, apps map[string]gitstore.Hash) (*Edited, error) {
	sum := sha256.New()
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		tree := apps[app]
		fmt.Fprintf(sum, "%d:%s%s", len(app), app, tree[:])
	}
	key := edit{old: old, apps: [sha256.Size]byte(sum.Sum(nil))}
	if known := e.known[key]; known != nil {
		return known, nil
	}
	tree, err := EditApps(ctx, e.store, e.w, old, apps)
	if err != nil {
		return nil, err
	}
	out, err := CountEdit(ctx, e.store, old, tree, e.whose)
	if err == nil {
		e.known[key] = out
	}
	return out, err
}

// CountEdit counts the files that differ between two trees of a cluster.
func CountEdit(ctx context.Context, store *gitstore.Store, old, tree gitstore.Hash,
	whose func(file string) string,
) (*Edited, error) {
	out := &Edited{Tree: tree, Removed: map[string]int{}}
	if old == tree {
		return out, nil
	}
	changes, err := store.Changes(ctx, old, tree)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		switch {
		case c.Old.Hash.IsZero():
			out.Added++
		case c.New.Hash.IsZero():
			out.Removed[whose(c.Path)]++
		default:
			out.Changed++
		}
	}
	return out, nil
}
