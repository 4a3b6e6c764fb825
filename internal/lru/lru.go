// Package lru has caches that evict the least recently used values. Go compiles the methods of a generic cache for each type of value, which takes
// 13 to 25 KB of the binary each time. The caches of this package are thin and share one cache type of golang-lru.
package lru

import golanglru "github.com/hashicorp/golang-lru/v2"

// Cache keeps values by key, up to a number of values. It is safe for concurrent use.
type Cache[V any] struct {
	values *golanglru.Cache[string, any]
}

// New returns an empty cache for up to most values. It panics if most is not positive.
func New[V any](most int) *Cache[V] { return &Cache[V]{values(most, nil)} }

// NewWithEvict returns a cache that calls gone with each value that it evicts or removes, before the method that does so returns. It does not
// call gone for a value that Add replaces.
func NewWithEvict[V any](most int, gone func(V)) *Cache[V] {
	return &Cache[V]{values(most, func(_ string, v any) { gone(v.(V)) })} // Add stores nothing else
}

func values(most int, gone func(string, any)) *golanglru.Cache[string, any] {
	c, err := golanglru.NewWithEvict(most, gone)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return c
}

// Get returns the value of a key and marks it as used.
func (c *Cache[V]) Get(key string) (V, bool) { return of[V](c.values.Get(key)) }

// Peek returns the value of a key and does not mark it as used.
func (c *Cache[V]) Peek(key string) (V, bool) { return of[V](c.values.Peek(key)) }

func of[V any](value any, ok bool) (V, bool) {
	v, _ := value.(V) // nil if there is none
	return v, ok
}

// Add stores a value and marks it as used.
func (c *Cache[V]) Add(key string, v V) { c.values.Add(key, v) }

// Remove removes a value.
func (c *Cache[V]) Remove(key string) { c.values.Remove(key) }

// RemoveOldest removes the least recently used value, and reports whether there was one.
func (c *Cache[V]) RemoveOldest() bool {
	_, _, ok := c.values.RemoveOldest()
	return ok
}

// Purge removes all values.
func (c *Cache[V]) Purge() { c.values.Purge() }

// Len returns the number of values.
func (c *Cache[V]) Len() int { return c.values.Len() }

// Keys returns the keys, that of the least recently used value first.
func (c *Cache[V]) Keys() []string { return c.values.Keys() }
