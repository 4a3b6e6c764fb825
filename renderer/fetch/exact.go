package fetch

import (
	"context"
	"errors"
	"sync"
)

// Exact reports whether the reference pins one whole version, with or without the digest of its manifest. A range needs
// the lock file.
func (r Ref) Exact() bool {
	w, err := parseWanted(r.Version)
	return err == nil && w.exact
}

// Server returns the scheme, host and port that the chart comes from, with the scheme oci for a registry. It is "" for
// a reference that names no place.
func (r Ref) Server() string {
	where, err := r.place()
	switch {
	case err != nil:
		return ""
	case where.oci != nil:
		return ociScheme + "://" + where.oci.Registry
	}
	return origin(where.repo)
}

// Exact resolves exact versions of charts that the lock file lacks, each once. A server that cannot be reached is not
// asked again. Nothing is written to a lock file, so a caller that writes branches must not use it. It is safe for
// concurrent use.
type Exact struct {
	fetcher *Fetcher

	mu    sync.Mutex
	known map[Ref]*pinned
	down  map[string]error // by server
}

type pinned struct {
	once   sync.Once
	locked Locked
	err    error
}

// NewExact returns an Exact that downloads with f, within its limits.
func NewExact(f *Fetcher) *Exact {
	return &Exact{fetcher: f, known: map[Ref]*pinned{}, down: map[string]error{}}
}

// Pin returns what the lock file would say. A reference that is not exact is an *UnlockedError; other errors are those
// of Fetcher.Resolve.
func (e *Exact) Pin(ctx context.Context, r Ref) (Locked, error) {
	if !r.Exact() {
		return Locked{}, &UnlockedError{Ref: r}
	}
	key, server := r.normal(), r.Server()
	e.mu.Lock()
	p, ok := e.known[key]
	if !ok {
		p = &pinned{}
		e.known[key] = p
	}
	e.mu.Unlock()
	p.once.Do(func() {
		e.mu.Lock()
		p.err = e.down[server]
		e.mu.Unlock()
		if p.err != nil {
			return
		}
		if p.locked, p.err = e.fetcher.Resolve(ctx, r); errors.Is(p.err, ErrUnavailable) {
			e.mu.Lock()
			e.down[server] = p.err
			e.mu.Unlock()
		}
	})
	return p.locked, p.err
}
