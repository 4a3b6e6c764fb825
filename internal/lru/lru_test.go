package lru_test

import (
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/internal/lru"
)

func TestCache(t *testing.T) {
	var gone []int
	c := lru.NewWithEvict(2, func(v int) { gone = append(gone, v) })
	c.Add("a", 1)
	c.Add("b", 2)
	if v, ok := c.Get("a"); v != 1 || !ok {
		t.Errorf("Get: %d, %t", v, ok)
	}
	if v, ok := c.Peek("b"); v != 2 || !ok {
		t.Errorf("Peek: %d, %t", v, ok)
	}
	c.Add("c", 3) // evicts b, because Peek does not mark it as used
	if v, ok := c.Get("b"); v != 0 || ok {
		t.Errorf("Get of an evicted value: %d, %t", v, ok)
	}
	if keys := c.Keys(); !slices.Equal(keys, []string{"a", "c"}) || c.Len() != 2 {
		t.Errorf("keys %v of %d values", keys, c.Len())
	}
	if _, _, ok := c.RemoveOldest(); !ok {
		t.Error("RemoveOldest removed nothing")
	}
	c.Remove("c")
	c.Remove("unknown")
	if _, _, ok := c.RemoveOldest(); ok {
		t.Error("RemoveOldest removed a value of an empty cache")
	}
	c.Add("d", 4)
	if c.Purge(); c.Len() != 0 || !slices.Equal(gone, []int{2, 1, 3, 4}) {
		t.Errorf("%d values are left, the callback got %v", c.Len(), gone)
	}
}

func TestNewPanicsWithoutAPositiveSize(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	lru.New[string](0)
}
