package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

const (
	rightsFor  = 5 * time.Minute  // an answer of Rights is kept
	aliveFor   = time.Minute      // an answer of Rights is a sign that it answers
	askLimit   = 30 * time.Second // one question to Rights
	unknownFor = 10 * time.Second // after an error of Rights, repositories that a person may not read are not told from others
)

// rightsCache keeps answers of Rights for minutes, and errors for seconds.
type rightsCache struct {
	ask    Rights
	clock  func() time.Time
	known  *lru.Cache[string, rightAnswer]
	failed *lru.Cache[string, rightFailure] // by person
	flight singleflight.Group
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
	known, err := lru.New[string, rightAnswer](size)
	failed, also := lru.New[string, rightFailure](people)
	if err = errors.Join(err, also); err != nil {
		panic(err) // the sizes are positive
	}
	return &rightsCache{ask: ask, clock: clock, known: known, failed: failed}
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
			c.known.Add(key, rightAnswer{may, c.clock()})
		} else {
			c.failed.Add(person, rightFailure{err, c.clock()})
		}
		return may, err
	})
	may, _ := answer.(bool) // the function returns one
	return may && err == nil, err
}

// failing returns the error of Rights about any repository, if there was one within seconds. It asks about the given repository if the
// last answer about it is older than a minute.
func (c *rightsCache) failing(ctx context.Context, person, repository string) error {
	if last, ok := c.failed.Get(person); ok && c.clock().Sub(last.at) < unknownFor {
		return last.err
	}
	if _, ok := c.cached(person, repository, aliveFor); ok {
		return nil
	}
	_, err := c.fresh(ctx, person, repository)
	return err
}

// readable reports whether the source has a repository that a person may read. Otherwise it answers the request. The answer does not
// depend on whether the repository exists.
func (s *Server) readable(w http.ResponseWriter, r *http.Request, person, repository string) bool {
	names, incomplete := s.config.Source.Repositories(r.Context())
	var unknown error
	if slices.Contains(names, repository) {
		var may bool
		if may, unknown = s.rights.may(r.Context(), person, repository); may {
			return true
		}
	}
	if incomplete != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "the list of repositories is not complete: try again", http.StatusServiceUnavailable)
		return false
	}
	if unknown == nil && len(names) > 0 {
		unknown = s.rights.failing(r.Context(), person, nearest(names, repository))
	}
	if unknown != nil {
		s.rightUnknown(w, person, repository, unknown)
		return false
	}
	http.NotFound(w, r)
	return false
}

// nearest returns the name that has the longest common prefix with another one, so that it is probably on the same forge.
func nearest(names []string, to string) string {
	common := func(name string) (n int) {
		for n < min(len(name), len(to)) && name[n] == to[n] {
			n++
		}
		return n
	}
	return slices.MaxFunc(names, func(x, y string) int { return common(x) - common(y) })
}

// readables lists the repositories that a person may read. unknown is an error of Rights: there may be more. After an error of a
// forge that accepts no requests, only known answers count.
func (s *Server) readables(ctx context.Context, person string, all []string) (names []string, unknown error) {
	down := false
	for _, name := range all {
		may, ok := s.rights.cached(person, name, rightsFor)
		if !ok && !down {
			var err error
			if may, err = s.rights.fresh(ctx, person, name); err != nil {
				_, down = errors.AsType[*promotion.UnavailableError](err)
				unknown = err
			}
		}
		if may {
			names = append(names, name)
		}
	}
	return names, unknown
}
