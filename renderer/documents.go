package renderer

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// documents decodes YAML text to objects and caches the results by the hash of the text: most documents of a chart
// are equal on most clusters, and decoding and encoding them costs more than rendering them. It is safe for
// concurrent use.
//
// Small and large documents have separate caches, so that many small documents that occur once do not evict a chart's
// CustomResourceDefinitions.
type documents struct {
	budget    manifest.Budget
	maxOutput int // bytes of canonical text from one stream

	small, large *documentCache
}

const (
	largeDocument  = 8 << 10  // bytes of text
	smallDocuments = 16 << 20 // bytes of the cache of small documents
	largeDocuments = 96 << 20 // bytes of the cache of large documents
)

func newDocuments(l Limits) *documents {
	return &documents{
		budget: l.Budget, maxOutput: l.MaxOutput, small: newDocumentCache(smallDocuments),
		large: newDocumentCache(largeDocuments),
	}
}

// decode returns the objects of a text with the given SHA-256. Callers must not change the objects' YAML.
func (d *documents) decode(text []byte, key [sha256.Size]byte) ([]Object, error) {
	cache := d.small
	if len(text) >= largeDocument {
		cache = d.large
	}
	if objects, ok := cache.get(key); ok {
		return objects, nil
	}
	objects, err := d.parse(text)
	if err != nil {
		return nil, err
	}
	cache.put(key, objects)
	return objects, nil
}

func (d *documents) parse(text []byte) ([]Object, error) {
	decoded, err := manifest.Decode(text, d.budget)
	if err != nil {
		return nil, err
	}
	return encodeAll(decoded, d.maxOutput)
}

// documentCache keeps objects by the hash of their text, up to a number of bytes. It evicts the least recently used
// first. It is safe for concurrent use.
type documentCache struct {
	limit int

	mu    sync.Mutex
	cache *lru.Cache[[]Object] // by the bytes of the hash
	size  int
}

// maxDocuments is the limit of entries in a cache, which also limits texts without objects.
const maxDocuments = 64 << 10

func newDocumentCache(limit int) *documentCache {
	c := &documentCache{limit: limit}
	c.cache = lru.NewWithEvict(maxDocuments, func(gone []Object) { c.size -= sizeOf(gone) })
	return c
}

func (c *documentCache) get(key [sha256.Size]byte) ([]Object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache.Get(string(key[:]))
}

func (c *documentCache) put(key [sha256.Size]byte, objects []Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.cache.Peek(string(key[:])); ok { // another goroutine decoded the same text
		return
	}
	c.size += sizeOf(objects)
	c.cache.Add(string(key[:]), objects)
	for c.size > c.limit && c.cache.Len() > 0 {
		c.cache.RemoveOldest()
	}
}

// sizeOf estimates the memory of an entry.
func sizeOf(objects []Object) int {
	const entry, object = 200, 300 // bytes besides the text
	n := entry
	for i := range objects {
		n += object + cap(objects[i].YAML)
	}
	return n
}

// encodeAll writes objects in canonical YAML, all of them in at most limit bytes.
func encodeAll(decoded []manifest.Object, limit int) ([]Object, error) {
	out := make([]Object, len(decoded))
	for i, o := range decoded {
		text, err := manifest.EncodeWithin(o, limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Identity(), err)
		}
		limit = max(limit-len(text), 1)
		id := o.Identity()
		out[i] = Object{
			ID: id, APIVersion: o.APIVersion(), YAML: text,
			hook: helm.HookOf(o.Annotation(helm.HookAnnotation)),
		}
		out[i].Scope = manifest.BuiltinScope(manifest.GroupKind{Group: id.Group, Kind: id.Kind})
		if kind, scope, ok := manifest.CRDScope(o); ok {
			out[i].Defines = &Definition{Kind: kind, Scope: scope}
		}
	}
	return out, nil
}

func isYAML(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
