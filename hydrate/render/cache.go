package render

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/renderer"
)

// rendering is the result for a bundle, shared by all targets with equal bundles: equal bundles give equal results.
type rendering struct {
	done chan struct{} // closed when rendered is set

	rendered
	cancelled bool // the caller that rendered it was cancelled: err says nothing about the bundle

	size int // bytes of objects; renderings.mu guards it
}

// rendered is the result of rendering a bundle.
type rendered struct {
	objects []renderer.Object // set while result is nil because the scopes of some custom kinds are unknown
	notes   []string          // notes of the renderer
	result  *written
	err     error
}

// ended reports whether the result is there.
func (w *rendering) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
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
	byBundle *lru.Cache[*rendering]
	bytes    int // of cached objects
}

func newRenderings(store *gitstore.Store) *renderings {
	r := &renderings{store: store}
	// The cache calls this function only while mu is held, so it may change bytes.
	r.byBundle = lru.NewWithEvict(maxRenderings, func(old *rendering) { r.bytes -= old.size })
	return r
}

// account adds the objects of a rendering to the total, and evicts the oldest renderings while the total exceeds the
// limit.
func (r *renderings) account(key string, work *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byBundle.Peek(key); !ok || known != work {
		return
	}
	for _, o := range work.objects {
		work.size += len(o.YAML)
	}
	r.bytes += work.size
	for r.bytes > maxObjectBytes {
		if _, _, ok := r.byBundle.RemoveOldest(); !ok {
			return
		}
	}
}

// get returns the rendering for a bundle. It reports true if the rendering is new: then the caller must render it.
func (r *renderings) get(key string) (*rendering, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if work, ok := r.byBundle.Get(key); ok {
		return work, false
	}
	work := &rendering{done: make(chan struct{})}
	r.byBundle.Add(key, work)
	return work, true
}

func (r *renderings) forget(key string, work *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byBundle.Peek(key); ok && known == work {
		r.byBundle.Remove(key)
	}
}

// do returns the rendering for a bundle. It calls render unless the result is cached or another caller renders the
// bundle. The rendering has ended, unless ctx has.
func (r *renderings) do(ctx context.Context, key string, render func() rendered) *rendering {
	for {
		work, fresh := r.get(key)
		switch {
		case fresh:
			r.finish(ctx, key, work, render())
		case work.ended() && work.result != nil && !r.holds(ctx, work.result.hash):
			// the writer that held it was closed without a push
			r.forget(key, work)
			continue
		default:
			select {
			case <-work.done:
			case <-ctx.Done():
			}
		}
		if !work.ended() || !work.cancelled || ctx.Err() != nil {
			return work
		}
	}
}

// finish sets the result of a rendering, once.
func (r *renderings) finish(ctx context.Context, key string, work *rendering, result rendered) {
	work.rendered = result
	if work.cancelled = result.err != nil && ctx.Err() != nil; work.cancelled {
		r.forget(key, work)
	}
	close(work.done)
	r.account(key, work)
}

// holds reports whether the store, or an open writer, has a target's tree and all its files.
func (r *renderings) holds(ctx context.Context, tree gitstore.Hash) bool {
	if !r.store.Has(tree) {
		return false
	}
	entries, err := r.store.Tree(ctx, tree)
	return err == nil && !slices.ContainsFunc(entries, func(e gitstore.Entry) bool { return !r.store.Has(e.Hash) })
}
