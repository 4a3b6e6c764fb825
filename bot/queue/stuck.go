package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStuck says that the server inside this process takes no writes any more. After one write that failed, on a full disk say, it
// keeps the stream closed until it starts again, also when there is room: only a new process helps.
var ErrStuck = errors.New("the queue's files take no writes: is the disk full? Only a start of the process opens them again")

const (
	stuckAfter = 15 * time.Second // without a single write that arrived
	stuckTries = 5
)

// health is how writes to one stream fare.
type health struct {
	mu    sync.Mutex
	first time.Time // of the failures since the last success
	last  time.Time
	count int
	err   error
}

// note takes what came of a write. A caller that gave up, and a limit that is reached, say nothing of the disk.
func (h *health) note(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil || errors.Is(err, errChanged):
		h.count, h.err = 0, nil
	case errors.Is(err, context.Canceled) || errors.Is(err, ErrFull):
	default:
		if h.count == 0 {
			h.first = now
		}
		h.count, h.last, h.err = h.count+1, now, err
	}
}

func (h *health) stuck() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count < stuckTries || h.last.Sub(h.first) < stuckAfter {
		return nil
	}
	return fmt.Errorf("%w (%d writes failed, the last of them: %w)", ErrStuck, h.count, h.err)
}

// Stuck says, with ErrStuck, that writes have failed again and again, and none has arrived. A cluster's nodes are looked after by
// others: there it is always nil.
func (q *Queue) Stuck() error {
	if q.srv == nil {
		return nil
	}
	for _, b := range []*bucket{q.hints, q.leases, q.attempts, q.parked, q.seen} {
		if err := b.health.stuck(); err != nil {
			return err
		}
	}
	return nil
}
