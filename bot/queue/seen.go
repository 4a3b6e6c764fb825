package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Seen records a delivery id or the hash of a body. It reports whether it was recorded before. A receiver
// calls Known, then Put, then Seen: a crash in between duplicates the hint and never loses it.
func (q *Queue) Seen(ctx context.Context, id string) (bool, error) {
	_, err := q.seen.swap(ctx, digest(id), []byte(q.cfg.Clock().UTC().Format(time.RFC3339)), 0)
	if errors.Is(err, errChanged) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("record a delivery: %w", err)
	}
	return false, nil
}

// Known reports whether Seen recorded the id.
func (q *Queue) Known(ctx context.Context, id string) (bool, error) {
	_, _, ok, err := q.seen.get(ctx, digest(id))
	if err != nil {
		return false, fmt.Errorf("look up a delivery: %w", err)
	}
	return ok, nil
}

// Forget removes the record of Seen, for a receiver that called Seen first and then failed to put the hint.
func (q *Queue) Forget(ctx context.Context, id string) error {
	_, revision, ok, err := q.seen.get(ctx, digest(id))
	if err != nil {
		return fmt.Errorf("look up a delivery: %w", err)
	}
	if !ok {
		return nil
	}
	return q.seen.drop(ctx, revision)
}
