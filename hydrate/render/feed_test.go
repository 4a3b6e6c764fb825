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

// This machine renders nothing while it makes or sends a shard or reads a result, however many there are.
func TestOthersAreFedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const step, shards = feedTime / 2, 10
		s, began := feeding(2), time.Now()
		s.making(1)
		go func() {
			for range shards {
				time.Sleep(step)
				s.making(1)
				s.making(-1)
			}
			time.Sleep(step)
			s.making(-1)
		}()
		const want = (shards + 1) * step
		if jobs := s.front(); len(jobs) != 1 || time.Since(began) != want {
			t.Errorf("%d jobs after %s, want 1 after %s", len(jobs), time.Since(began), want)
		}
	})
}

// A queue that does not answer holds up this machine once, and again only after it has answered.
func TestFeedingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := feeding(5)
		for _, step := range []struct {
			makers int // more than before
			waits  time.Duration
		}{{2, feedTime}, {0, 0}, {-1, feedTime}, {-1, 0}, {1, feedTime}} {
			if step.makers != 0 {
				s.making(step.makers)
			}
			began := time.Now()
			if jobs := s.front(); len(jobs) != 1 || time.Since(began) != step.waits {
				t.Errorf("%+v: %d jobs after %s", step, len(jobs), time.Since(began))
			}
		}
	})
}
