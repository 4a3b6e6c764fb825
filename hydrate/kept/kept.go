// Package kept keeps results in memory between runs that would find them again. Its users name with the key everything that a result depends on,
// and keep no failure that may end and nothing that depends on the time.
//
// The package is not API: it can change in every release.
package kept

import "github.com/sluice-gitops/sluice/internal/lru"

// most is the number of results of one kind. One takes about 1 KiB.
const most = 4096

// Results are by key. They forget those that were not used for longest. They are safe for concurrent use, also by runs for several repositories:
// the key names the repository. Nil Results keep nothing.
type Results[V any] struct {
	known *lru.Cache[V]
}

// New returns empty Results.
func New[V any]() *Results[V] {
	known := lru.New[V](most)
	return &Results[V]{known}
}

// Find returns the result under a key, and whether there is one.
func (r *Results[V]) Find(key string) (v V, ok bool) {
	if r == nil {
		return v, false
	}
	return r.known.Get(key)
}

// Keep stores a result. The caller must not change what it points to.
func (r *Results[V]) Keep(key string, v V) {
	if r != nil {
		r.known.Add(key, v)
	}
}
