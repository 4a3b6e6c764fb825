// Package lru has caches that evict the least recently used value: those of golang-lru, with keys that are strings.
package lru

import golanglru "github.com/hashicorp/golang-lru/v2"

// Cache keeps values by key, up to a number of values. It is safe for concurrent use.
type Cache[V any] = golanglru.Cache[string, V]

// New returns an empty cache for up to most values. It panics if most is not positive.
func New[V any](most int) *Cache[V] { return NewWithEvict[V](most, nil) }

// NewWithEvict returns a cache that calls gone, if it is not nil, with each value that it evicts or removes, before the
// method that does so returns. It does not call gone for a value that Add replaces.
func NewWithEvict[V any](most int, gone func(V)) *Cache[V] {
	var evicted func(string, V)
	if gone != nil {
		evicted = func(_ string, v V) { gone(v) }
	}
	c, err := golanglru.NewWithEvict(most, evicted)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return c
}
