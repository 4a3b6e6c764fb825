package render

import (
	"testing"
	"testing/synctest"
	"time"
)

func feeding(jobs int) *sharing {
	f := NewFarm(nil, nil, "", "", time.Now)
	f.chunk.Store(1)
	s := &sharing{farm: f, order: make([]int, jobs), none: make(chan struct{}), round: &round{t: &Targets{parallel: 1}}}
	s.change.L = &s.mu
	return s
}

// This machine renders nothing while it makes or sends a shard or reads a result.
func TestOthersAreFedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const took = feedTime / 2
		s, began := feeding(2), time.Now()
		s.making(1)
		time.AfterFunc(took, func() { s.making(-1) })
		if jobs := s.front(); len(jobs) != 1 || time.Since(began) != took {
			t.Errorf("%d jobs after %s, want 1 after %s", len(jobs), time.Since(began), took)
		}
	})
}

// A queue that does not answer holds up this machine once, and again only after it has answered.
func TestFeedingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := feeding(4)
		for _, step := range []struct {
			makers int // more than before
			waits  time.Duration
		}{{2, feedTime}, {-1, 0}, {-1, 0}, {1, feedTime}} {
			s.making(step.makers)
			began := time.Now()
			if jobs := s.front(); len(jobs) != 1 || time.Since(began) != step.waits {
				t.Errorf("%+v: %d jobs after %s", step, len(jobs), time.Since(began))
			}
		}
	})
}
