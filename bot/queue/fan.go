package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// fan is one call of Fan.
type fan struct {
	q       *Queue
	jobs    map[string][]byte // by id
	indexes map[string][]int  // where in the answer
	results [][]byte
	waiting map[string]bool
}

// Fan has jobs rendered by whatever replicas run RunShards, this one included, and gives their results in the jobs' order.
// Equal jobs are rendered once, and not at all if the result is still stored. It waits until ctx ends; a job that failed on
// every try ends it with a *ShardError.
func (q *Queue) Fan(ctx context.Context, jobs [][]byte) ([][]byte, error) {
	if len(jobs) > maxShards {
		return nil, fmt.Errorf("%d shards, more than %d; make larger ones: %w", len(jobs), maxShards, ErrInvalid)
	}
	f := &fan{q: q, jobs: map[string][]byte{}, indexes: map[string][]int{}, results: make([][]byte, len(jobs)), waiting: map[string]bool{}}
	for i, job := range jobs {
		if len(job) == 0 || len(job) > maxShardBytes {
			return nil, fmt.Errorf("shard %d has %d bytes, not 1 to %d: %w", i, len(job), maxShardBytes, ErrInvalid)
		}
		id := shardID(job)
		f.jobs[id] = job
		f.indexes[id] = append(f.indexes[id], i)
		f.waiting[id] = true
	}
	notes := make(chan *nats.Msg, 2*maxShards)
	sub, err := q.nc.ChanSubscribe(q.cfg.Prefix+".note.shard", notes)
	if err != nil {
		return nil, fmt.Errorf("listen for results: %w", err)
	}
	defer func() {
		if err := sub.Unsubscribe(); err != nil {
			q.log.Debug("queue: unsubscribe", "err", err)
		}
	}()
	for id := range f.jobs {
		for err := f.start(ctx, id); err != nil; err = f.start(ctx, id) {
			if !f.later(ctx, err) || pause(ctx, 100*time.Millisecond) != nil {
				return nil, err
			}
		}
	}
	if err := f.wait(ctx, notes); err != nil {
		return nil, err
	}
	return f.results, nil
}

// start takes a stored result or puts the job.
func (f *fan) start(ctx context.Context, id string) error {
	if ok, err := f.collect(ctx, id); err != nil || ok {
		return err
	}
	if err := f.forget(ctx, id); err != nil {
		return err
	}
	return f.put(ctx, id)
}

// put stores the job's bytes and its message. A message that is there already stays: somebody may be at it.
func (f *fan) put(ctx context.Context, id string) error {
	ok, err := f.q.hasBlob(ctx, "job-"+id)
	if err != nil {
		return err
	}
	if !ok {
		if err := f.q.putBlob(ctx, "job-"+id, f.jobs[id]); err != nil {
			return err
		}
	}
	if _, err := f.pending().swap(ctx, id, nil, 0); err != nil && !errors.Is(err, errChanged) {
		return err
	}
	return nil
}

// pending is the stream of jobs, seen as a bucket.
func (f *fan) pending() *bucket {
	return &bucket{js: f.q.js, stream: f.q.shards, prefix: f.q.cfg.Prefix + ".shard.", clock: f.q.cfg.Clock, health: &health{}}
}

// forget removes the note of an earlier failure.
func (f *fan) forget(ctx context.Context, id string) error {
	_, revision, ok, err := f.q.attempts.get(ctx, "shard-"+id)
	if err != nil || !ok {
		return err
	}
	return f.q.attempts.drop(ctx, revision)
}

// wait collects results as they are told, and looks itself now and then, because notes may be lost.
func (f *fan) wait(ctx context.Context, notes <-chan *nats.Msg) error {
	poll := time.NewTicker(fanPoll)
	defer poll.Stop()
	for len(f.waiting) > 0 {
		var err error
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d shards have no result yet: %w", len(f.waiting), len(f.jobs), context.Cause(ctx))
		case m := <-notes:
			err = f.told(ctx, m)
		case <-poll.C:
			err = f.lookAll(ctx)
		}
		if err != nil && !f.later(ctx, err) {
			return err
		}
	}
	return nil
}

func (f *fan) told(ctx context.Context, m *nats.Msg) error {
	var note shardNote
	if err := json.Unmarshal(m.Data, &note); err != nil {
		return fmt.Errorf("decode a note: %w", err) // the next look finds out what it was about
	}
	if !f.waiting[note.ID] {
		return nil
	}
	if note.Err != "" {
		return &ShardError{Index: f.indexes[note.ID][0], Text: note.Err}
	}
	_, err := f.collect(ctx, note.ID)
	return err
}

// lookAll ends at the first trouble: a server that does not answer is not asked for each job.
func (f *fan) lookAll(ctx context.Context) error {
	for id := range f.waiting {
		if err := f.look(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// look finds what became of a job without a note.
func (f *fan) look(ctx context.Context, id string) error {
	data, _, failed, err := f.q.attempts.get(ctx, "shard-"+id)
	if err != nil {
		return err
	}
	if failed {
		var note shardNote
		if err := json.Unmarshal(data, &note); err != nil {
			return fmt.Errorf("decode a shard's failure (%w): %w", err, ErrInvalid)
		}
		return &ShardError{Index: f.indexes[id][0], Text: note.Err}
	}
	_, _, pending, err := f.pending().get(ctx, id)
	if err != nil {
		return err
	}
	// The order matters: a job is removed after its result is stored, so "not pending" was read before "no result".
	if ok, err := f.collect(ctx, id); err != nil || ok || pending {
		return err
	}
	return f.put(ctx, id)
}

// later says whether an error may pass while the caller still waits.
func (f *fan) later(ctx context.Context, err error) bool {
	if _, failed := errors.AsType[*ShardError](err); failed || ctx.Err() != nil || !passing(err) {
		return false
	}
	f.q.log.Debug("queue: a shard cannot be looked up now", "err", err)
	return true
}

// collect takes the result if it is there.
func (f *fan) collect(ctx context.Context, id string) (bool, error) {
	ok, err := f.q.hasBlob(ctx, "result-"+id)
	if err != nil || !ok {
		return false, err
	}
	result, err := f.q.getBlob(ctx, "result-"+id)
	if err != nil {
		return false, err
	}
	for _, i := range f.indexes[id] {
		f.results[i] = result
	}
	delete(f.waiting, id)
	return true, nil
}
