package renderer

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// strikes counts how often the same sources exceeded their limits, so that a chart that hangs costs its timeout a few
// times and not once per cluster. Values do not count: they differ from cluster to cluster.
//
// Strikes are of one owner, and of one merge request: a RemoteServer gives contents digests that no other one uses, so
// that values of one merge request, which make a good chart hang, do not keep the chart from being rendered for another.
//
// Safe for concurrent use.
type strikes struct {
	mu   sync.Mutex
	seen map[struck]*strike
}

// struck is what strikes are counted for.
type struck struct {
	owner   worker.Owner
	content string
}

type strike struct {
	count int
	last  error
}

const (
	maxStrikes = 3
	maxStruck  = 1000             // sources that are remembered
	strikesFor = 15 * time.Minute // then the sources get new attempts: the machine may have been busy
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
	known, ok := s.seen[content]
	if !ok {
		if len(s.seen) >= maxStruck {
			clear(s.seen)
		}
		known = &strike{}
		s.seen[content] = known
		time.AfterFunc(strikesFor, func() { s.forget(content, known) })
	}
	known.count++
	known.last = err
}

func (s *strikes) forget(content struck, old *strike) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[content] == old {
		delete(s.seen, content)
	}
}

// contentKey names the contents of a bundle, without values, cluster and namespace.
func (b *Bundle) contentKey() string {
	var parts []string
	b.contents(func(c *Content) { parts = append(parts, c.Digest) })
	return strings.Join(parts, "\x00")
}
