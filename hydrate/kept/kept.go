// Package kept keeps results in memory between runs that would find them again. Its users name with the key everything that a result depends on,
// and keep no failure that may end and nothing that depends on the time.
package kept

import lru "github.com/hashicorp/golang-lru/v2"

// most is the number of results of one kind. One takes about 1 KiB.
const most = 4096

// Results are by key. They forget those that were not used for longest. They are safe for concurrent use, also by runs for several repositories:
// the key names the repository. Nil Results keep nothing.
type Results[V any] struct {
	known *lru.Cache[string, *V] // pointers: Go would make another 25 KB of code for each V
}

// New returns empty Results.
func New[V any]() *Results[V] {
	known, err := lru.New[string, *V](most)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Results[V]{known}
}

// Find returns the result under a key, and whether there is one.
func (r *Results[V]) Find(key string) (v V, ok bool) {
	if r == nil {
		return v, false
	}
	known, ok := r.known.Get(key)
	if !ok {
		return v, false
	}
	return *known, true
}

// Keep stores a result. The caller must not change what it points to.
func (r *Results[V]) Keep(key string, v V) {
	if r != nil {
		r.known.Add(key, &v)
	}
}
