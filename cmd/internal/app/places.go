package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// places are the repositories that are named in the configuration, those that a webhook told of, and those that the forge lists
// and a pattern means; of the latter two, not those that were no fleet an hour ago. Each is there once, in the order of their names.
func (s *Service) places() []hint.Place {
	var out []hint.Place
	for name, f := range s.state().forges {
		for _, pattern := range f.Repositories {
			if !isPattern(pattern) {
				out = append(out, hint.NewPlace(name, pattern))
			}
		}
	}
	for _, p := range s.found() {
		if at, ok := s.barren.Load(p); ok && s.clock().Sub(at.(time.Time)) < time.Hour { //nolint:forcetypeassert // ours
			continue
		}
		if s.knows(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b hint.Place) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// found are the places that nobody named.
func (s *Service) found() []hint.Place {
	out := s.listings.places()
	s.seen.Range(func(key, _ any) bool {
		if p, ok := key.(hint.Place); ok {
			out = append(out, p)
		}
		return true
	})
	return out
}

func (s *Service) knows(p hint.Place) bool {
	f := s.state().forges[p.Forge()]
	return f != nil && f.Has(p.Repo().Path)
}

func isPattern(repository string) bool { return strings.ContainsAny(repository, "*?[") }

// listings are the repositories that each forge with patterns listed last. Looked at by one sweep at a
// time, read by anybody.
type listings struct {
	log   *slog.Logger
	clock func() time.Time

	mu     sync.Mutex
	forges map[string]listing
}

type listing struct {
	at     time.Time
	places []hint.Place
}

func newListings(log *slog.Logger, clock func() time.Time) *listings {
	return &listings{log: log, clock: clock, forges: map[string]listing{}}
}

// look asks the forges that have patterns, each at most every ten minutes. One that does not answer keeps what it listed before and
// is asked again by the next sweep; the others do not wait for it.
func (l *listings) look(ctx context.Context, forges map[string]*configured) {
	const every = 10 * time.Minute
	for name, f := range forges {
		if !slices.ContainsFunc(f.Repositories, isPattern) || l.clock().Sub(l.last(name)) < every {
			continue
		}
		all, err := f.adapter.Repositories(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Warn("repositories cannot be listed: those of patterns are looked at from their first webhook on", "forge", name, "error", err)
			}
			continue
		}
		next := listing{at: l.clock()}
		for _, repo := range all { // all of them: patterns may change by a reload
			next.places = append(next.places, hint.NewPlace(name, repo.Path))
		}
		l.mu.Lock()
		l.forges[name] = next
		l.mu.Unlock()
	}
}

func (l *listings) last(name string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forges[name].at
}

func (l *listings) places() []hint.Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []hint.Place
	for _, one := range l.forges {
		out = append(out, one.places...)
	}
	return out
}
