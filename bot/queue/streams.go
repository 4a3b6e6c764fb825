package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const parkedTTL = 30 * 24 * time.Hour

// makeStreams makes all that is missing and brings the settings up to date. Replicas may do it at the same time.
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
	if err := q.makeShards(ctx, part); err != nil {
		return err
	}
	if q.srv == nil {
		return nil
	}
	// Nobody else works from this directory, so every lease is one of a process that is gone.
	if err := q.leases.stream.Purge(ctx); err != nil {
		return fmt.Errorf("drop the leases of the last run: %w", err)
	}
	return nil
}

func (q *Queue) makeBucket(ctx context.Context, name, prefix string, maxBytes int64, ttl time.Duration) (*bucket, error) {
	cfg := jetstream.StreamConfig{
		Name:              q.cfg.Prefix + "-" + name,
		Subjects:          []string{prefix + ">"},
		Storage:           jetstream.FileStorage,
		Replicas:          q.cfg.Replicas,
		MaxMsgsPerSubject: 1,
		MaxBytes:          maxBytes,
		MaxMsgSize:        64 << 10,
		MaxAge:            ttl,
		Discard:           jetstream.DiscardNew, // a full queue refuses, it never forgets
		Duplicates:        100 * time.Millisecond,
	}
	s, err := again(ctx, func(ctx context.Context) (jetstream.Stream, error) { return q.js.CreateOrUpdateStream(ctx, cfg) })
	if err != nil {
		return nil, fmt.Errorf("make the stream %s: %w", cfg.Name, err)
	}
	return &bucket{js: q.js, stream: s, prefix: prefix, clock: q.cfg.Clock, health: &health{}}, nil
}

func (q *Queue) makeShards(ctx context.Context, part int64) error {
	p := q.cfg.Prefix
	var err error
	q.shards, err = again(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return q.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name:              p + "-shards",
			Subjects:          []string{p + ".shard.>"},
			Storage:           jetstream.FileStorage,
			Replicas:          q.cfg.Replicas,
			Retention:         jetstream.WorkQueuePolicy,
			MaxMsgsPerSubject: 1,
			MaxBytes:          part,
			MaxMsgSize:        64 << 10,
			MaxAge:            q.cfg.ShardTTL,
			Discard:           jetstream.DiscardNew,
			Duplicates:        100 * time.Millisecond,
		})
	})
	if err != nil {
		return fmt.Errorf("make the stream of shards: %w", err)
	}
	q.workers, err = again(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return q.shards.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable:       "workers",
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       q.cfg.Lease,
			MaxAckPending: 4096,
		})
	})
	if err != nil {
		return fmt.Errorf("make the consumer of shards: %w", err)
	}
	q.blobs, err = again(ctx, func(ctx context.Context) (jetstream.ObjectStore, error) {
		return q.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket:      p + "-blobs",
			Storage:     jetstream.FileStorage,
			Replicas:    q.cfg.Replicas,
			MaxBytes:    16 * part,
			TTL:         q.cfg.ShardTTL,
			Compression: true,
		})
	})
	if err != nil {
		return fmt.Errorf("make the store of shards: %w", err)
	}
	return nil
}

// again repeats a request until it succeeds, fails for good, or ctx ends: a cluster that just started has no leaders yet.
func again[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		v, err := request(one)
		cancel()
		if err == nil {
			return v, nil
		}
		if !passing(err) || pause(ctx, wait) != nil {
			return v, err
		}
	}
}
