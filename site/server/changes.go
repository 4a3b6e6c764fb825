package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/report/page"
	"github.com/sluice-gitops/sluice/site"
)

const (
	changesKept  = 100             // pages of changes
	changesLarge = 2 << 20         // compressed bytes of a page that is not kept
	changesBytes = 64 << 20        // compressed bytes of all pages that are kept
	changesOnce  = 2               // pages that are made at the same time, of different repositories
	changesWait  = 5 * time.Second // for another page to be finished
	changesLimit = 2 * time.Minute // for one page
)

// errBusy means that other pages of changes are being made.
var errBusy = errors.New("other changes are being compared")

// changes makes the pages of changes, a few at a time, and keeps the latest ones. A page
// between two commits changes only with the registry of the trunk.
type changes struct {
	source Source
	slots  chan struct{}

	mu    sync.Mutex
	cache *lru.Cache[[]byte]
	bytes int                      // of cache
	own   map[string]chan struct{} // one slot for each repository
}

func newChanges(s Source) *changes {
	c := &changes{source: s, slots: make(chan struct{}, changesOnce), own: map[string]chan struct{}{}}
	c.cache = lru.NewWithEvict(changesKept, func(data []byte) { c.bytes -= len(data) })
	return c
}

func (c *changes) get(key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache.Get(key)
}

func (c *changes) keep(key string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.Remove(key)
	c.bytes += len(data)
	c.cache.Add(key, data)
	for c.bytes > changesBytes {
		c.cache.RemoveOldest()
	}
}

// enter waits until a page of a repository may be made; errBusy if that takes longer than changesWait. leave ends it.
func (c *changes) enter(ctx context.Context, repository string) (leave func(), err error) {
	c.mu.Lock()
	own := c.own[repository]
	if own == nil {
		own = make(chan struct{}, 1)
		c.own[repository] = own
	}
	c.mu.Unlock()
	timeout := time.NewTimer(changesWait)
	defer timeout.Stop()
	var held []chan struct{}
	leave = func() {
		for _, slot := range held {
			<-slot
		}
	}
	for _, slot := range []chan struct{}{own, c.slots} {
		select {
		case slot <- struct{}{}:
			held = append(held, slot)
			continue
		case <-timeout.C:
			err = errBusy
		case <-ctx.Done():
			err = ctx.Err()
		}
		leave()
		return nil, err
	}
	return leave, nil
}

// page returns the compressed page of a change.
func (c *changes) page(ctx context.Context, repository string, one site.Change) ([]byte, error) {
	key := repository + "\x00" + one.Trunk + "\x00" + one.Path()
	if data, ok := c.get(key); ok {
		return data, nil
	}
	leave, err := c.enter(ctx, repository)
	if err != nil {
		return nil, err
	}
	defer leave()
	if data, ok := c.get(key); ok { // somebody else waited for the same page
		return data, nil
	}
	ctx, cancel := context.WithTimeout(ctx, changesLimit)
	defer cancel()
	r, err := c.source.Changes(ctx, repository, one)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if err := page.Write(z, r); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("page of changes: %w", err)
	}
	if out.Len() < changesLarge && one.After != "" {
		c.keep(key, out.Bytes())
	}
	return out.Bytes(), nil
}

// changePage sends the page of a change.
func (s *Server) changePage(w http.ResponseWriter, r *http.Request, repository string, one site.Change) {
	data, err := s.changes.page(r.Context(), repository, one)
	if errors.Is(err, errBusy) {
		w.Header().Set("Retry-After", "10")
		message(w, r, http.StatusServiceUnavailable, "other changes are being compared: try again in a few seconds")
		return
	}
	policy := ""
	if err == nil {
		policy, err = page.Policy()
	}
	if err != nil {
		if r.Context().Err() == nil {
			s.config.Log.Warn("changes cannot be shown", "repository", repository, "page", one.Path(), "error", err)
		}
		message(w, r, http.StatusBadGateway, "the changes cannot be read: the log of the service says why")
		return
	}
	s.send(w, r, &Report{Policy: policy, Gzip: data})
}

// chooseChange leads from the form of the history to the page of the change between two states.
func (s *Server) chooseChange(w http.ResponseWriter, r *http.Request, repository string, pages *site.Pages) {
	q := r.URL.Query()
	one := site.Change{Environment: q.Get("environment"), Before: q.Get("from"), After: q.Get("to")}
	if _, ok := pages.Change(one.Path()); !ok {
		message(w, r, http.StatusNotFound, "the history of the environment does not list both states")
		return
	}
	//nolint:gosec // a page that exists, in a repository that the service knows
	http.Redirect(w, r, "/"+Escape(repository)+"/-/"+one.Path(), http.StatusFound)
}
