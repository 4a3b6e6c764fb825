package gitstore

import (
	"context"
	"sync"
)

// listings keep the last listing of each remote's refs, for a store whose Options have OneListing. A listing counts
// until the store pushes to the remote, or Relist is called. It is safe for concurrent use; nil keeps none.
type listings struct {
	mu sync.Mutex
	// number of calls of forget: a listing that began before one of them does not count after it
	turn  int
	known map[string]map[string]Hash // by URL; nobody changes the maps
}

func newListings() *listings { return &listings{known: map[string]map[string]Hash{}} }

// of returns the refs of a remote; nil if they must be listed. Pass turn to keep.
func (l *listings) of(url string) (refs map[string]Hash, turn int) {
	if l == nil {
		return nil, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[url], l.turn
}

// keep stores refs that were listed after a call of of.
func (l *listings) keep(url string, refs map[string]Hash, turn int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn == l.turn {
		l.known[url] = refs
	}
}

// forget drops all listings. It reports whether there was one.
func (l *listings) forget() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	had := len(l.known) > 0
	clear(l.known)
	return had
}

// listRefs returns the refs of a remote, by the last listing if the store keeps one.
func listRefs(ctx context.Context, s *Store, e endpoint) (map[string]Hash, error) {
	refs, turn := s.listed.of(e.url)
	if refs != nil {
		return refs, nil
	}
	refs, err := e.list(ctx)
	if err == nil {
		s.listed.keep(e.url, refs, turn)
	}
	return refs, err
}

// Relist has the next reader of a remote's refs list them again; see Options.OneListing. It reports whether the store
// kept a listing.
func Relist(s *Store) bool { return s.listed.forget() }
