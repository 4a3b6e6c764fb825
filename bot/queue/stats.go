package queue

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Stats has numbers about the queue of all replicas.
type Stats struct {
	Depth    int           // hints that are not done, including those in progress
	Oldest   time.Duration // age of the oldest of them
	InFlight int           // hints that a worker has
	Parked   int
	Bytes    int64 // of hints; at the limit, the queue refuses new ones
}

// Stats reads the numbers from the server.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	hints, err := q.hints.state(ctx)
	if err != nil {
		return Stats{}, err
	}
	leases, _, err := q.leases.keys(ctx)
	if err != nil {
		return Stats{}, err
	}
	// of comments, not of hints
	leases = slices.DeleteFunc(leases, func(key string) bool { return strings.HasPrefix(key, claimPrefix) })
	parked, err := q.parked.state(ctx)
	if err != nil {
		return Stats{}, err
	}
	s := Stats{
		Depth:    int(hints.Msgs), //nolint:gosec // bounded by the stream's bytes
		InFlight: len(leases),
		Parked:   int(parked.Msgs),   //nolint:gosec // bounded by the stream's bytes
		Bytes:    int64(hints.Bytes), //nolint:gosec // bounded by the settings
	}
	if s.Depth > 0 {
		s.Oldest = max(q.cfg.Clock().Sub(q.oldest(hints.FirstTime)), 0)
	}
	return s, nil
}

// oldest prefers the index: it knows when the first message of a key came, even if a newer one replaced it.
func (q *Queue) oldest(first time.Time) time.Time {
	q.mu.Lock()
	x := q.index
	q.mu.Unlock()
	if x == nil {
		return first
	}
	if t := x.oldest(); !t.IsZero() && t.Before(first) {
		return t
	}
	return first
}
