package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nuid"
)

// lease is the right to work in a partition, or on the reviews of a merge request. Its message expires by the server's
// clock unless it is renewed.
type lease struct {
	bucket   *bucket
	ttl      time.Duration
	key      string
	value    []byte
	epoch    uint64 // revision at which it was taken; greater than that of every earlier lease
	revision uint64
	deadline *time.Timer // when work must stop; counted from before the last successful request
}

type leaseValue struct {
	Owner string `json:"owner"` // name of the replica, for people
	Token string `json:"token"` // identifies this lease when the answer to a renewal was lost
}

type epochKey struct{}

// Epoch returns the number of the lease under which a hint is worked on. Later leases have greater numbers.
func Epoch(ctx context.Context) (uint64, bool) {
	epoch, ok := ctx.Value(epochKey{}).(uint64)
	return epoch, ok
}

// takeLease takes the lease of a key. The error is errChanged if another worker has it.
func (q *Queue) takeLease(ctx context.Context, key string) (*lease, error) {
	value, err := json.Marshal(leaseValue{Owner: q.cfg.Name, Token: nuid.Next()})
	if err != nil {
		return nil, fmt.Errorf("encode a lease: %w", err)
	}
	l := &lease{bucket: q.leases, ttl: q.cfg.Lease, key: key, value: value}
	l.deadline = l.timer()
	l.epoch, err = q.leases.swap(ctx, key, value, 0)
	if err != nil {
		l.deadline.Stop()
		return nil, err
	}
	l.revision = l.epoch
	return l, nil
}

// timer returns a timer that ends before the server removes the lease, even after the slowest renewal. It
// uses the monotonic clock.
func (l *lease) timer() *time.Timer { return time.NewTimer(l.ttl * 5 / 8) }

// keep renews the lease until ctx ends. It calls lost before another worker can take the lease.
func (l *lease) keep(ctx context.Context, lost func(error)) {
	tick := time.NewTicker(l.ttl / 4)
	defer tick.Stop()
	defer func() { l.deadline.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.deadline.C:
			lost(ErrLeaseLost)
			return
		case <-tick.C:
			next := l.timer()
			err := l.renew(ctx)
			if err == nil {
				l.deadline.Stop()
				l.deadline = next
				continue
			}
			next.Stop()
			if errors.Is(err, errChanged) {
				lost(ErrLeaseLost)
				return
			}
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	revision, err := l.bucket.swap(ctx, l.key, l.value, l.revision)
	if errors.Is(err, errChanged) {
		value, found, ok, getErr := l.bucket.get(ctx, l.key)
		if getErr != nil {
			return getErr // possibly not lost: the deadline decides
		}
		if ok && string(value) == string(l.value) {
			l.revision = found // an earlier renewal whose answer was lost
			return nil
		}
		return errChanged
	}
	if err != nil {
		return err
	}
	l.revision = revision
	return nil
}

// release gives the lease back. If it fails, the lease expires.
func (l *lease) release(ctx context.Context) error {
	return l.bucket.drop(ctx, l.revision)
}
