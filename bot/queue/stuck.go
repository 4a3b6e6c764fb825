package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStuck reports that the server inside this process accepts no writes. After a failed write, for example
// on a full disk, it keeps the stream closed until it restarts, even if there is space again. Only a new
// process helps.
var ErrStuck = errors.New("the queue's files accept no writes (check the disk's free space and restart the process)")

const (
	stuckAfter = 15 * time.Second // without a successful write
	stuckTries = 5
)

// health counts the failed writes to one stream.
type health struct {
	mu    sync.Mutex
	first time.Time // of the failures since the last success
	last  time.Time
	count int
	err   error
}

// note records the result of a write. A cancelled caller and a reached size limit are not failures of the disk.
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

// Stuck returns an ErrStuck if writes keep failing and none succeeds. With a cluster it always returns nil,
// because its nodes are monitored elsewhere.
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
