package render

import (
	"context"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// rendering is shared by all targets with equal bundles. once guards the other fields.
type rendering struct {
	once    sync.Once
	objects []renderer.Object // set while result is nil because the scopes of some custom kinds are unknown
	notes   []string          // notes of the renderer
	result  *written
	err     error
	kept    int // bytes of objects; renderings.mu guards it
}

// Limits of the cached renderings.
const (
	maxRenderings  = 65_536    // about 300 bytes each
	maxObjectBytes = 256 << 20 // total YAML that waits for the scopes of custom kinds
)

// renderings caches the latest renderings by bundle.
type renderings struct {
	store *gitstore.Store

	mu       sync.Mutex
	byBundle *lru.Cache[string, *rendering]
	bytes    int // of cached objects
}

func newRenderings(store *gitstore.Store) *renderings {
	r := &renderings{store: store}
	var err error
	// The cache calls this function only while mu is held, so it may change bytes.
	if r.byBundle, err = lru.NewWithEvict(maxRenderings, func(_ string, old *rendering) { r.bytes -= old.kept }); err != nil {
		panic(err) // the size is a positive constant
	}
	return r
}

// keep adds the objects of a rendering to the total, and evicts the oldest renderings while the total exceeds the
// limit.
func (r *renderings) keep(key string, work *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byBundle.Peek(key); !ok || known != work {
		return
	}
	for _, o := range work.objects {
		work.kept += len(o.YAML)
	}
	r.bytes += work.kept
	for r.bytes > maxObjectBytes {
		if _, _, ok := r.byBundle.RemoveOldest(); !ok {
			return
		}
	}
}

func (r *renderings) get(key string) *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	work, ok := r.byBundle.Get(key)
	if !ok {
		work = &rendering{}
		r.byBundle.Add(key, work)
	}
	return work
}

func (r *renderings) forget(key string, work *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byBundle.Peek(key); ok && known == work {
		r.byBundle.Remove(key)
	}
}

// do returns the rendering for a bundle. It calls render if there is none, or if the writer that holds it was closed
// without a push.
func (r *renderings) do(ctx context.Context, key string, render func(*rendering) error) *rendering {
	for {
		work := r.get(key)
		ran := false
		work.once.Do(func() {
			ran = true
			work.err = render(work)
			if work.err != nil && ctx.Err() != nil { // do not cache a cancelled rendering for the next call
				r.forget(key, work)
			}
			r.keep(key, work)
		})
		if ran || work.result == nil || r.holds(ctx, work.result.hash) {
			return work
		}
		r.forget(key, work)
	}
}

// holds reports whether the store, or an open writer, has a target's tree and all its files.
func (r *renderings) holds(ctx context.Context, tree gitstore.Hash) bool {
	if !r.store.Has(tree) {
		return false
	}
	entries, err := r.store.Tree(ctx, tree)
	return err == nil && !slices.ContainsFunc(entries, func(e gitstore.Entry) bool { return !r.store.Has(e.Hash) })
}
