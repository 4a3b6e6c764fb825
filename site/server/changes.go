package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-gitops/sluice/bot/report/page"
	"github.com/sluice-gitops/sluice/site"
)

const (
	changesKept  = 100             // pages of changes
	changesLarge = 2 << 20         // compressed bytes of a page that is not kept
	changesOnce  = 2               // pages that are made at the same time
	changesLimit = 2 * time.Minute // for one page
)

// changes makes the pages of changes, a few at a time, and keeps the latest ones. A page between two commits never changes.
type changes struct {
	source Source
	kept   *lru.Cache[string, []byte]
	slots  chan struct{}
}

func newChanges(s Source) *changes {
	kept, err := lru.New[string, []byte](changesKept)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &changes{source: s, kept: kept, slots: make(chan struct{}, changesOnce)}
}

// page returns the compressed page of a change.
func (c *changes) page(ctx context.Context, repository string, one site.Change) ([]byte, error) {
	key := repository + "\x00" + one.Path()
	if data, ok := c.kept.Get(key); ok && one.After != "" {
		return data, nil
	}
	ctx, cancel := context.WithTimeout(ctx, changesLimit)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
		c.kept.Add(key, out.Bytes())
	}
	return out.Bytes(), nil
}

// changePage sends the page of a change.
func (s *Server) changePage(w http.ResponseWriter, r *http.Request, repository string, one site.Change) {
	data, err := s.changes.page(r.Context(), repository, one)
	policy := ""
	if err == nil {
		policy, err = page.Policy()
	}
	if err != nil {
		if r.Context().Err() == nil {
			s.config.Log.Warn("changes cannot be shown", "repository", repository, "page", one.Path(), "error", err)
		}
		http.Error(w, "the changes cannot be read: the log of the service says why", http.StatusBadGateway)
		return
	}
	s.send(w, r, &Report{Policy: policy, Gzip: data})
}

// chooseChange leads from the form of the history to the page of the change between two states.
func (s *Server) chooseChange(w http.ResponseWriter, r *http.Request, repository string, pages *site.Pages) {
	q := r.URL.Query()
	one := site.Change{Environment: q.Get("environment"), Before: q.Get("from"), After: q.Get("to")}
	if _, ok := pages.Change(one.Path()); !ok {
		http.Error(w, "the history of the environment does not list both states", http.StatusNotFound)
		return
	}
	http.Redirect(w, r, "/"+Escape(repository)+"/-/"+one.Path(), http.StatusFound) //nolint:gosec // a page that exists, in a repository that the service knows
}
