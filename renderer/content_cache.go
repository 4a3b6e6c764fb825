package renderer

import "container/list"

// contentCache caches contents by digest, up to a number of bytes. It evicts the least recently used first. golang-lru
// bounds the number of entries, and one content may have a kilobyte or hundreds of megabytes.
type contentCache struct {
	limit, size int
	order       *list.List // of Content, most recently used in front
	byDigest    map[string]*list.Element
}

func newContentCache(limit int) *contentCache {
	return &contentCache{limit: limit, order: list.New(), byDigest: map[string]*list.Element{}}
}

// fill sets the bytes of c and reports whether the cache has them.
func (h *contentCache) fill(c *Content) bool {
	el, ok := h.byDigest[c.Digest]
	if !ok {
		return false
	}
	h.order.MoveToFront(el)
	content, _ := el.Value.(Content)
	c.Files, c.Archive = content.Files, content.Archive
	return true
}

func (h *contentCache) put(c Content) {
	if _, ok := h.byDigest[c.Digest]; ok {
		return
	}
	if c.Files == nil && c.Archive == nil {
		c.Files = []File{} // an empty set of files is a valid content
	}
	h.byDigest[c.Digest] = h.order.PushFront(c)
	h.size += c.size()
	for h.size > h.limit && h.order.Len() > 1 {
		last := h.order.Back()
		old, _ := h.order.Remove(last).(Content)
		delete(h.byDigest, old.Digest)
		h.size -= old.size()
	}
}

func (c *Content) size() int {
	n := len(c.Archive)
	for i := range c.Files {
		n += len(c.Files[i].Data) + len(c.Files[i].Path)
	}
	return n
}
