package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-gitops/sluice/internal/retry"
)

const (
	parkedTTL  = 30 * 24 * time.Hour
	verdictTTL = 30 * 24 * time.Hour
)

// makeStreams creates missing streams and updates their settings. Replicas can do so at the same time.
func (q *Queue) makeStreams(ctx context.Context) error {
	p := q.cfg.Prefix
	part := q.cfg.MaxBytes / 32
	var err error
	if q.hints, err = q.makeBucket(ctx, "hints", p+".hint.", 6*part, 0); err != nil {
		return err
	}
	if q.leases, err = q.makeBucket(ctx, "leases", p+".lease.", part, q.cfg.Lease); err != nil {
		return err
	}
	if q.attempts, err = q.makeBucket(ctx, "attempts", p+".attempt.", part, parkedTTL); err != nil {
		return err
	}
	if q.parked, err = q.makeBucket(ctx, "parked", p+".parked.", part, parkedTTL); err != nil {
		return err
	}
	if q.seen, err = q.makeBucket(ctx, "seen", p+".seen.", 4*part, q.cfg.SeenTTL); err != nil {
		return err
	}
	// which costs one more review, a page, or the second record of a command
	forgetOldest := func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }
	if q.verdicts, err = q.makeBucket(ctx, "verdicts", p+".verdict.", part/2, verdictTTL, forgetOldest); err != nil {
		return err
	}
	if q.outcomes, err = q.makeBucket(ctx, "outcomes", p+".outcome.", part/2, q.cfg.SeenTTL, forgetOldest); err != nil {
		return err
	}
	large := func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 20 }
	if q.reports, err = q.makeBucket(ctx, "reports", p+".report.", reportBytes(q.cfg.MaxBytes), verdictTTL,
		forgetOldest, large); err != nil {
		return err
	}
	if q.lists, err = q.makeBucket(ctx, "lists", p+".list.", reportBytes(q.cfg.MaxBytes)/3, verdictTTL, forgetOldest,
		large); err != nil {
		return err
	}
	// which repeats what receivers of events were told
	if q.episodes, err = q.makeBucket(ctx, "events", p+".event.", part, verdictTTL, forgetOldest, large); err != nil {
		return err
	}
	if q.srv == nil {
		return nil
	}
	// No other process uses this directory, so every lease belongs to a process that ended.
	if err := q.leases.stream.Purge(ctx); err != nil {
		return fmt.Errorf("drop the leases of the last run: %w", err)
	}
	return nil
}

func (q *Queue) makeBucket(ctx context.Context, name, prefix string, maxBytes int64, ttl time.Duration,
	change ...func(*jetstream.StreamConfig),
) (*bucket, error) {
	cfg := jetstream.StreamConfig{
		Name:              q.cfg.Prefix + "-" + name,
		Subjects:          []string{prefix + ">"},
		Storage:           jetstream.FileStorage,
		Replicas:          q.cfg.Replicas,
		MaxMsgsPerSubject: 1,
		MaxBytes:          maxBytes,
		MaxMsgSize:        64 << 10,
		MaxAge:            ttl,
		Discard:           jetstream.DiscardNew, // a full queue refuses new messages and keeps old ones
		Duplicates:        100 * time.Millisecond,
	}
	for _, do := range change {
		do(&cfg)
	}
	s, err := persist(ctx, func(ctx context.Context) (jetstream.Stream,
		error,
	) {
		return q.js.CreateOrUpdateStream(ctx, cfg)
	})
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == noPeers {
		return nil, fmt.Errorf("make the stream %s: %w (%d copies need as many servers with JetStream: start them, or lower queue.replicas)", cfg.Name, err, cfg.Replicas)
	}
	if err != nil {
		return nil, fmt.Errorf("make the stream %s: %w", cfg.Name, err)
	}
	return &bucket{js: q.js, stream: s, prefix: prefix, clock: q.cfg.Clock, health: &health{}}, nil
}

// persist repeats a request until it succeeds, fails permanently, or ctx ends: a cluster that just started
// has no leaders yet, or leaders that do not know all servers.
func persist[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	return retry.Do(ctx, retry.Policy{Tries: retry.Forever, First: 50 * time.Millisecond, Max: time.Second},
		func(ctx context.Context) (T, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			v, err := request(ctx)
			return v, transient(err)
		})
}
