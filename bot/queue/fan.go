package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
		if err := f.start(ctx, id); err != nil {
			return nil, err
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
	b := bucket{js: f.q.js, stream: f.q.shards, prefix: f.q.cfg.Prefix + ".shard."}
	if _, err := b.swap(ctx, id, nil, 0); err != nil && !errors.Is(err, errChanged) {
		return err
	}
	return nil
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
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d shards have no result yet: %w", len(f.waiting), len(f.jobs), context.Cause(ctx))
		case m := <-notes:
			var note shardNote
			if json.Unmarshal(m.Data, &note) != nil || !f.waiting[note.ID] {
				continue
			}
			if note.Err != "" {
				return &ShardError{Index: f.indexes[note.ID][0], Text: note.Err}
			}
			if _, err := f.collect(ctx, note.ID); err != nil {
				return err
			}
		case <-poll.C:
			for id := range f.waiting {
				if err := f.look(ctx, id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// look finds what became of a job without a note. A server that does not answer is asked again at the next look.
func (f *fan) look(ctx context.Context, id string) error {
	q := f.q
	data, _, failed, err := q.attempts.get(ctx, "shard-"+id)
	if err != nil {
		return f.patient(ctx, err)
	}
	if failed {
		var note shardNote
		if err := json.Unmarshal(data, &note); err != nil {
			return fmt.Errorf("decode a shard's failure: %w", err)
		}
		return &ShardError{Index: f.indexes[id][0], Text: note.Err}
	}
	_, err = q.shards.GetLastMsgForSubject(ctx, q.cfg.Prefix+".shard."+id)
	pending := err == nil
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return f.patient(ctx, err)
	}
	// The order matters: a job is removed after its result is stored, so "not pending" was read before "no result".
	if ok, err := f.collect(ctx, id); err != nil || ok || pending {
		return err
	}
	return f.patient(ctx, f.put(ctx, id))
}

// patient forgives errors that pass while the caller still waits.
func (f *fan) patient(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !passing(err) {
		return err
	}
	f.q.log.Debug("queue: a shard cannot be looked up now", "err", err)
	return nil
}

// collect takes the result if it is there. One that cannot be read counts as missing.
func (f *fan) collect(ctx context.Context, id string) (bool, error) {
	q := f.q
	ok, err := q.hasBlob(ctx, "result-"+id)
	if err != nil || !ok {
		return false, f.patient(ctx, err)
	}
	read, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	result, err := q.blobs.GetBytes(read, "result-"+id)
	if err != nil {
		q.log.Debug("queue: a stored result cannot be read", "err", err)
		return false, f.patient(ctx, err)
	}
	for _, i := range f.indexes[id] {
		f.results[i] = result
	}
	delete(f.waiting, id)
	return true, nil
}
