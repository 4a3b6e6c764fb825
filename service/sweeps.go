package service

import (
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// sweepTimes decides when each forge is swept. It is safe for concurrent use.
type sweepTimes struct {
	interval time.Duration
	clock    func() time.Time

	mu   sync.Mutex
	last map[string]time.Time // by forge
}

func newSweepTimes(interval time.Duration, clock func() time.Time) *sweepTimes {
	return &sweepTimes{interval: interval, clock: clock, last: map[string]time.Time{}}
}

// due reports whether a forge is due for a sweep. If so, it records that the caller sweeps it now.
func (s *sweepTimes) due(forgeName string, factor int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	// The ticker is not exact, so half an interval early is on time.
	if last, ok := s.last[forgeName]; ok && now.Sub(last) < time.Duration(factor)*s.interval-s.interval/2 {
		return false
	}
	s.last[forgeName] = now
	return true
}

// sweepDue reports whether a forge is due for a sweep, by what is left of its rate limit.
func (s *Service) sweepDue(name string, f *connected) bool {
	factor := 1
	if b, ok := f.Adapter.Forge.(forge.Budget); ok {
		if q, known := b.Quota(); known {
			factor = q.Stretch() // sweeps only find missed webhooks
		}
	}
	s.metrics.stretch.WithLabelValues(name).Set(float64(factor))
	return s.sweeps.due(name, factor)
}
