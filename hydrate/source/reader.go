package source

import (
	"context"
	"errors"
	"sync"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	imports "github.com/sluice-gitops/sluice/hydrate/import"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Archives returns packed charts by their entry in sluice.lock. *fetch.Fetcher implements it.
type Archives interface {
	Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error)
}

// Reader opens the commits of one source repository and keeps what it read. It is safe for concurrent use.
type Reader struct {
	store    *gitstore.Store
	archives Archives
	loader   fleet.Loader

	mu    sync.Mutex
	views map[gitstore.Hash]*View // by tree
}

// NewReader returns a Reader of a store's commits.
func NewReader(store *gitstore.Store, archives Archives) *Reader {
	return &Reader{store: store, archives: archives, loader: fleet.Loader{Cache: fleet.NewCache(), Importer: imports.New()}, views: map[gitstore.Hash]*View{}}
}

// Detecting makes the reader recognise a repository of Flux objects that has no sluice.yaml, as `sluice import --detect` shows it. It
// returns the reader. Call it before any other method. Only verbs that write nothing may use it: nobody has said yet that the
// repository is a fleet.
func (r *Reader) Detecting() *Reader {
	r.loader.Detect = true
	return r
}

// View is the source tree of one commit.
type View struct {
	Fleet    *fleet.Fleet
	Problems fleet.Problems // warnings alone

	tree     gitstore.Hash
	contents *contents
}

// Open reads the fleet of a tree. The errors of an invalid fleet are fleet.Problems.
func (r *Reader) Open(ctx context.Context, tree gitstore.Hash) (*View, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.views[tree]; ok {
		return v, nil
	}
	snap := r.store.Snapshot(ctx, tree)
	f, problems := r.loader.Load(ctx, snap)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	c, err := newContents(snap, r.archives)
	if err != nil {
		return nil, err
	}
	v := &View{Fleet: f, Problems: problems, tree: tree, contents: c}
	r.views[tree] = v
	return v, nil
}

// Readable returns the newest commit on the first-parent line of tip whose fleet is valid, so that a mistake on the trunk
// does not prevent a rollback. It looks at 100 commits. If it finds none, the error is that of tip.
func (r *Reader) Readable(ctx context.Context, tip gitstore.Commit) (gitstore.Commit, *fleet.Fleet, error) {
	const limit = 100
	at := tip
	var first error
	for range limit {
		v, err := r.Open(ctx, at.Tree)
		if err == nil {
			return at, v.Fleet, nil
		}
		problems, invalid := errors.AsType[fleet.Problems](err)
		if first == nil {
			first = err
		}
		if !invalid || problems.Absent() || len(at.Parents) == 0 {
			return tip, nil, first
		}
		if at, err = r.store.Commit(ctx, at.Parents[0]); err != nil {
			return tip, nil, first
		}
	}
	return tip, nil, first
}

// Affected returns the targets that the change from the tree base to the view can affect. It reads tree objects and
// renders nothing. A base whose fleet is invalid gives fleet.Problems.
func (r *Reader) Affected(ctx context.Context, base gitstore.Hash, head *View) ([]fleet.AffectedTarget, error) {
	if base == head.tree {
		return nil, nil
	}
	before, err := r.Open(ctx, base)
	if err != nil {
		return nil, err
	}
	changes, err := r.store.Changes(ctx, base, head.tree)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	reach := func(f *fleet.Fleet, s fleet.Source) []string {
		if f == before.Fleet {
			return before.contents.reach(s)
		}
		return head.contents.reach(s)
	}
	return fleet.Affected(before.Fleet, head.Fleet, paths, reach), nil
}
