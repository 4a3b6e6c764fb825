package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Seen records a delivery id or the hash of a body, and says whether it was recorded before. A receiver asks Known, puts the
// hint, and records with Seen when Put succeeded: a crash in between makes the hint twice, never zero times.
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

// Known says whether Seen recorded the id, and records nothing.
func (q *Queue) Known(ctx context.Context, id string) (bool, error) {
	_, _, ok, err := q.seen.get(ctx, digest(id))
	if err != nil {
		return false, fmt.Errorf("look up a delivery: %w", err)
	}
	return ok, nil
}

// Forget takes back what Seen recorded, for a receiver that asked Seen first and then could not put the hint.
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
