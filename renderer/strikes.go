package renderer

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// strikes counts how often a set of sources exceeded its limits, so that a chart that hangs costs its timeout a few
// times and not once per cluster. Values are ignored, because they differ between clusters.
//
// Strikes belong to one owner and, of merge requests, to one review: a RemoteServer gives contents digests that no other RemoteServer
// uses. If values of one merge request make a good chart hang, the chart still renders for another merge request.
//
// It is safe for concurrent use.
type strikes struct {
	mu   sync.Mutex
	seen map[struck]*strike
}

// struck identifies a set of sources.
type struck struct {
	owner   worker.Owner
	content string
}

type strike struct {
	count int // bundles that were rendered alone and exceeded a limit
	last  error
}

const (
	maxStrikes = 3
	maxStruck  = 1000             // sets of sources in the cache
	strikesFor = 15 * time.Minute // afterwards the sources get new attempts, because the machine may have been busy
)

func newStrikes() *strikes { return &strikes{seen: map[struck]*strike{}} }

// check returns an error if the sources used up their attempts.
func (s *strikes) check(content struck) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.seen[content]
	if !ok || known.count < maxStrikes {
		return nil
	}
	return fmt.Errorf("not rendered: the same sources failed on %d targets (%w); change the chart or its layers and push again", known.count, known.last)
}

func (s *strikes) add(content struck, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(content)
	known.count++
	known.last = err
}

// suspect records sources of a call with several bundles that exceeded a limit. One of the bundles is the cause.
func (s *strikes) suspect(content struck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(content)
}

// suspects reports whether bundles of the sources must be rendered alone.
func (s *strikes) suspects(content struck) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[content] != nil
}

// of returns the strike of sources, a new one if there is none. s.mu is held.
func (s *strikes) of(content struck) *strike {
	known, ok := s.seen[content]
	if !ok {
		if len(s.seen) >= maxStruck {
			clear(s.seen)
		}
		known = &strike{}
		s.seen[content] = known
		time.AfterFunc(strikesFor, func() { s.forget(content, known) })
	}
	return known
}

func (s *strikes) forget(content struck, old *strike) {
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
