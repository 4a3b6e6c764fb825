package queue

import (
	"context"
	"errors"
	"fmt"
)

// Episodes keep what receivers of events were told, one record for each repository, for all replicas on the same
// streams and after a restart. A record expires 30 days after its last change.
type Episodes struct{ q *Queue }

// NewEpisodes returns the records in the streams of a queue.
func NewEpisodes(q *Queue) Episodes { return Episodes{q} }

// ErrChanged reports that another process changed a record meanwhile: read it again.
var ErrChanged = errors.New("another process changed the record meanwhile")

// Key returns the name of a repository's record.
func (Episodes) Key(place string) string { return digest(place) }

// Keys lists the names of all records.
func (e Episodes) Keys(ctx context.Context) ([]string, error) {
	keys, _, err := e.q.episodes.keys(ctx)
	return keys, err
}

// Load returns a record and its revision; revision 0 means that there is none.
func (e Episodes) Load(ctx context.Context, key string) (record []byte, revision uint64, err error) {
	record, revision, _, err = e.q.episodes.get(ctx, key)
	return record, revision, err
}

// Swap replaces the record of a revision. It returns ErrChanged if the record has another one. A record has at most
// 1 MiB.
func (e Episodes) Swap(ctx context.Context, key string, record []byte, revision uint64) error {
	_, err := e.q.episodes.swap(ctx, key, record, revision)
	if errors.Is(err, errChanged) {
		return ErrChanged
	}
	if err != nil {
		return fmt.Errorf("record of events: %w", err)
	}
	return nil
}

// Drop removes the record of a revision. It is no error if the revision is gone.
func (e Episodes) Drop(ctx context.Context, revision uint64) error {
	return e.q.episodes.drop(ctx, revision)
}
