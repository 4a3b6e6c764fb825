package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// notFleetFor is the time for which sweeps skip a repository whose trunk has no sluice.yaml.
const notFleetFor = time.Hour

// places returns the repositories to check, sorted by name: those that the configuration names, and those that match
// one of its patterns and that a webhook named or a forge listed. It skips repositories that had no sluice.yaml
// within the last hour.
func (s *Service) places() []hint.Place {
	var out []hint.Place
	for name, f := range s.state().forges {
		for _, pattern := range f.Repositories {
			if !isPattern(pattern) {
				out = append(out, hint.NewPlace(name, pattern))
			}
		}
	}
	for _, p := range s.discovered() {
		//nolint:forcetypeassert // only times are stored
		if at, ok := s.notFleets.Load(p); ok && s.clock().Sub(at.(time.Time)) < notFleetFor {
			continue
		}
		if s.knows(p) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b hint.Place) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// discovered returns the places that the configuration does not name.
func (s *Service) discovered() []hint.Place {
	out := s.listings.places()
	s.seen.Range(func(key, _ any) bool {
		if p, ok := key.(hint.Place); ok {
			out = append(out, p)
		}
		return true
	})
	return out
}

// knows reports whether the configuration names a repository or has a pattern that matches it.
func (s *Service) knows(p hint.Place) bool {
	f := s.state().forges[p.Forge()]
	return f != nil && f.Has(p.Repo().Path)
}

func isPattern(repository string) bool { return strings.ContainsAny(repository, "*?[") }

// listings holds the latest listing of each forge with patterns. Only one sweep at a time refreshes it; places may be
// called at any time.
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

// listEvery is the shortest time between two listings of a forge.
const listEvery = 10 * time.Minute

// refresh lists the repositories of the forges that have patterns. After an error a forge keeps its previous listing,
// and the next sweep asks it again.
func (l *listings) refresh(ctx context.Context, forges map[string]*connected) {
	for name, f := range forges {
		if !slices.ContainsFunc(f.Repositories, isPattern) || l.clock().Sub(l.last(name)) < listEvery {
			continue
		}
		all, err := f.Adapter.Repositories(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Warn("cannot list repositories: patterns match a repository only after its first webhook",
					"forge", name, "error", err)
			}
			continue
		}
		next := listing{at: l.clock()}
		for _, repo := range all { // a reload may change the patterns
			next.places = append(next.places, hint.NewPlace(name, repo.Path))
		}
		l.mu.Lock()
		l.forges[name] = next
		l.mu.Unlock()
	}
}

// complete returns an error if a forge with patterns has not listed its repositories since the start.
func (l *listings) complete(forges map[string]*connected) error {
	for name, f := range forges {
		if slices.ContainsFunc(f.Repositories, isPattern) && l.last(name).IsZero() {
			return fmt.Errorf("%s has not listed its repositories yet", name)
		}
	}
	return nil
}

func (l *listings) last(name string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forges[name].at
}

// placeOf returns the repository of a configured forge that an address names. It has the spelling of the listing if the
// configuration matches that one.
func (l *listings) placeOf(forges map[string]*connected, address string) (hint.Place, bool) {
	p, ok := addressed(forges, address)
	if !ok {
		return "", false
	}
	if listed := l.spelled(p); forges[p.Forge()].Has(listed.Repo().Path) {
		return listed, true
	}
	return p, true
}

// spelled returns a place as the listing of its forge spells it, or as it is.
func (l *listings) spelled(p hint.Place) hint.Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.forges[p.Forge()].places
	if i := slices.IndexFunc(all, func(one hint.Place) bool {
		return strings.EqualFold(one.Repo().Path,
			p.Repo().Path)
	}); i >= 0 {
		return all[i]
	}
	return p
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
