package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/promote"
)

const (
	rightsFor  = 5 * time.Minute  // an answer of Rights is kept
	probedFor  = time.Minute      // the answer that a person may not read a repository, or that there is none, is kept
	probesMost = 60               // questions about such repositories in a minute, of one person
	askLimit   = 30 * time.Second // one question to Rights
	// after an error of Rights, repositories that a person may not read are not told from others
	unknownFor = 10 * time.Second
)

// rightsCache keeps answers of Rights for minutes, and errors for seconds.
type rightsCache struct {
	ask    Rights
	clock  func() time.Time
	known  *lru.Cache[*rightAnswer]
	failed *lru.Cache[*rightFailure] // by person
	flight singleflight.Group

	probed *lru.Cache[time.Time] // by person and name, whether there is such a repository or not

	mu     sync.Mutex
	probes *lru.Cache[*probeCount] // by person
}

// probeCount is the number of questions since the beginning of a minute.
type probeCount struct {
	since time.Time
	n     int
}

type rightAnswer struct {
	may bool
	at  time.Time
}

type rightFailure struct {
	err error
	at  time.Time
}

func newRightsCache(ask Rights, clock func() time.Time) *rightsCache {
	const size, people = 50_000, 10_000
	return &rightsCache{
		ask: ask, clock: clock, known: lru.New[*rightAnswer](size), failed: lru.New[*rightFailure](people),
		probed: lru.New[time.Time](size), probes: lru.New[*probeCount](people),
	}
}

func (c *rightsCache) may(ctx context.Context, person, repository string) (bool, error) {
	if may, ok := c.cached(person, repository, rightsFor); ok {
		return may, nil
	}
	return c.fresh(ctx, person, repository)
}

// cached returns an answer that is not older than an age.
func (c *rightsCache) cached(person, repository string, age time.Duration) (may, ok bool) {
	if c.ask == nil {
		return true, true
	}
	have, ok := c.known.Get(rightKey(person, repository))
	if !ok || c.clock().Sub(have.at) >= age {
		return false, false
	}
	return have.may, true
}

func rightKey(person, repository string) string { return person + "\x00" + repository }

func (c *rightsCache) fresh(ctx context.Context, person, repository string) (bool, error) {
	key := rightKey(person, repository)
	answer, err, _ := c.flight.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit) // others wait for the answer too
		defer cancel()
		may, err := c.ask(ctx, person, repository)
		if err == nil {
			c.known.Add(key, &rightAnswer{may, c.clock()})
		} else if _, down := errors.AsType[*promote.UnavailableError](err); down {
			c.failed.Add(person, &rightFailure{err, c.clock()})
		}
		return may, err
	})
	may, _ := answer.(bool) // the function returns one
	return may && err == nil, err
}

// errProbes means that a person has asked for too many repositories that they may not read.
var errProbes = errors.New("too many addresses of repositories that do not exist, or that you may not read: try again in a minute")

// probe asks whether a person may read a repository that they may not read as far as is known. What it asks and keeps
// does not depend on whether the repository exists: for one that does not, it asks about the nearest that does. If the
// forge fails for that one, probe asks about the next: if the forge answers, it fails for one repository alone, which
// the person may not read as far as the forge confirms.
func (c *rightsCache) probe(ctx context.Context, person, repository string, names []string) (bool, error) {
	now := c.clock()
	if last, ok := c.failed.Get(person); ok && now.Sub(last.at) < unknownFor {
		return false, last.err
	}
	hash := sha256.Sum256([]byte(rightKey(person, repository))) // names are as long as addresses
	if at, ok := c.probed.Get(string(hash[:])); ok && now.Sub(at) < probedFor {
		return false, nil
	}
	if !c.count(person, now) {
		return false, errProbes
	}
	name := nearest(names, repository)
	may, err := c.fresh(ctx, person, name)
	switch {
	case err == nil && may && name == repository:
		return true, nil
	case err == nil:
		c.probed.Add(string(hash[:]), now)
		return false, nil
	}
	if _, down := errors.AsType[*promote.UnavailableError](err); !down {
		if others := slices.DeleteFunc(slices.Clone(names),
			func(one string) bool { return one == name }); len(others) > 0 {
			if _, second := c.fresh(ctx, person, nearest(others, repository)); second == nil {
				return false, nil
			}
		}
	}
	c.failed.Add(person, &rightFailure{err, now})
	return false, err
}

// count counts a question of a person; false if there are too many of them in this minute.
func (c *rightsCache) count(person string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.probes.Get(person)
	if !ok || now.Sub(have.since) >= time.Minute || now.Before(have.since) {
		have = &probeCount{since: now}
	}
	have.n++
	c.probes.Add(person, have)
	return have.n <= probesMost
}

// readable reports whether the source has a repository that a person may read. Otherwise it answers the request.
// Neither the answer nor what it asks the forge depends on whether the repository exists: only the answer that a person
// may read a repository is used again for it.
func (s *Server) readable(w http.ResponseWriter, r *http.Request, person, repository string) bool {
	names, incomplete := s.config.Source.Repositories(r.Context())
	var unknown error
	if may, _ := s.rights.cached(person, repository, rightsFor); may && slices.Contains(names, repository) {
		return true
	}
	if len(names) > 0 && s.rights.ask != nil {
		var may bool
		if may, unknown = s.rights.probe(r.Context(), person, repository, names); may {
			return true
		}
	}
	switch {
	case incomplete != nil:
		w.Header().Set("Retry-After", "10")
		message(w, r, http.StatusServiceUnavailable, "the list of repositories is not complete: try again")
	case errors.Is(unknown, errProbes):
		w.Header().Set("Retry-After", "60")
		message(w, r, http.StatusTooManyRequests, errProbes.Error())
	case unknown != nil:
		s.rightUnknown(w, r, person, repository, unknown)
	default:
		notFound(w, r)
	}
	return false
}

// notFound answers for a repository that does not exist, and alike for one that a person may not read as far as the
// forge confirms.
func notFound(w http.ResponseWriter, r *http.Request) {
	message(w, r, http.StatusNotFound, "no repository of this name, or the forge does not confirm that you may read it (if you may, try again)")
}

// nearest returns the name that has the longest common prefix with another one, so that it is probably on the same
// forge.
func nearest(names []string, to string) string {
	common := func(name string) (n int) {
		for n < min(len(name), len(to)) && name[n] == to[n] {
			n++
		}
		return n
	}
	return slices.MaxFunc(names, func(x, y string) int { return common(x) - common(y) })
}

// readables lists the repositories that a person may read. unknown is an error of Rights: there may be more. After an
// error of a forge that accepts no requests, only known answers count.
func (s *Server) readables(ctx context.Context, person string, all []string) (names []string, unknown error) {
	down := false
	for _, name := range all {
		may, ok := s.rights.cached(person, name, rightsFor)
		if !ok && !down {
			var err error
			if may, err = s.rights.fresh(ctx, person, name); err != nil {
				_, down = errors.AsType[*promote.UnavailableError](err)
				unknown = err
			}
		}
		if may {
			names = append(names, name)
		}
	}
	return names, unknown
}
