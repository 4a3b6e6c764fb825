package renderer

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// breaker is a circuit breaker: it counts how often a set of sources exceeded its limits, so that a chart that hangs
// costs its timeout a few times and not once per cluster. Values are ignored, because they differ between clusters.
//
// Counts belong to one owner and, of merge requests, to one review: a RemoteServer gives contents digests that no other
// RemoteServer uses. If values of one merge request make a good chart hang, the chart still renders for another merge
// request.
//
// It is safe for concurrent use.
type breaker struct {
	mu   sync.Mutex
	seen map[sourceSet]*failures
}

// sourceSet identifies a set of sources.
type sourceSet struct {
	owner   worker.Owner
	content string
}

// failures are those of a set of sources.
type failures struct {
	count int // bundles that were rendered alone and exceeded a limit
	last  error
}

const (
	maxFailures       = 3
	maxBreakerEntries = 1000 // sets of sources in the cache
	// afterwards the sources get new attempts, because the machine may have been busy
	breakerReset = 15 * time.Minute
)

func newBreaker() *breaker { return &breaker{seen: map[sourceSet]*failures{}} }

// check returns an error if the sources used up their attempts.
func (s *breaker) check(content sourceSet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.seen[content]
	if !ok || known.count < maxFailures {
		return nil
	}
	return fmt.Errorf("not rendered: the same sources failed on %d targets (%w); change the chart or its layers and push again", known.count, known.last)
}

func (s *breaker) add(content sourceSet, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(content)
	known.count++
	known.last = err
}

// suspect records sources of a call with several bundles that exceeded a limit. One of the bundles is the cause.
func (s *breaker) suspect(content sourceSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(content)
}

// suspects reports whether bundles of the sources must be rendered alone.
func (s *breaker) suspects(content sourceSet) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[content] != nil
}

// of returns the failures of sources, a new one if there is none. s.mu is held.
func (s *breaker) of(content sourceSet) *failures {
	known, ok := s.seen[content]
	if !ok {
		if len(s.seen) >= maxBreakerEntries {
			clear(s.seen)
		}
		known = &failures{}
		s.seen[content] = known
		time.AfterFunc(breakerReset, func() { s.forget(content, known) })
	}
	return known
}

func (s *breaker) forget(content sourceSet, old *failures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[content] == old {
		delete(s.seen, content)
	}
}

// contentKey returns the key of a bundle's contents, without values, cluster and namespace.
func (b *Bundle) contentKey() string {
	var parts []string
	b.contents(func(c *Content) { parts = append(parts, c.Digest) })
	return strings.Join(parts, "\x00")
}
