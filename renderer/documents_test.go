package renderer

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

func document(i, padding int) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: %q}\n", i,
		strings.Repeat("x", padding))
}

func TestDocumentsAreDecodedOnce(t *testing.T) {
	t.Parallel()
	d := newDocuments(DefaultLimits())
	for _, padding := range []int{1, largeDocument} {
		first, err := d.decode(document(1, padding), sha256.Sum256(document(1, padding)))
		if err != nil {
			t.Fatal(err)
		}
		second, err := d.decode(document(1, padding), sha256.Sum256(document(1, padding)))
		if err != nil {
			t.Fatal(err)
		}
		if &first[0].YAML[0] != &second[0].YAML[0] {
			t.Errorf("a document of %d bytes was decoded twice", padding)
		}
	}
	if d.small.cache.Len() != 1 || d.large.cache.Len() != 1 {
		t.Errorf("%d small and %d large documents are kept", d.small.cache.Len(), d.large.cache.Len())
	}
}

func TestDocumentCacheIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	c := newDocumentCache(limit)
	d := newDocuments(DefaultLimits())
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 100 {
				text := document(g<<10+i, 2000)
				objects, err := d.parse(text)
				if err != nil {
					t.Error(err)
				}
				for range 2 {
					c.put(sha256.Sum256(text), objects)
				}
			}
		})
	}
	group.Wait()
	total := 0
	for _, key := range c.cache.Keys() {
		objects, _ := c.cache.Peek(key)
		total += sizeOf(objects)
	}
	if total != c.size || total > limit || total < limit/2 {
		t.Errorf("%d bytes are kept and %d counted, the limit is %d", total, c.size, limit)
	}
	if _, ok := c.get(sha256.Sum256(document(0, 2000))); ok && c.cache.Len() == 400 {
		t.Error("nothing was evicted")
	}
	huge := []Object{{ID: manifest.Identity{Name: "huge"}, YAML: make([]byte, 2*limit)}}
	if c.put(sha256.Sum256([]byte("huge")), huge); c.cache.Len() != 0 || c.size != 0 {
		t.Errorf("%d documents with %d bytes are kept", c.cache.Len(), c.size)
	}
}
