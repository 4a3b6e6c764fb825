package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/internal/retry"
)

// fan is one call of Fan.
type fan struct {
	q       *Queue
	jobs    map[string][]byte // by id
	indexes map[string][]int  // where in the answer
	results [][]byte
	waiting map[string]bool
	idle    func(bool)
}

// Fan has jobs rendered by the replicas that run RunShards, including this one, and returns their results in
// the order of the jobs. Equal jobs are rendered once, and not at all if the result is still stored. It waits
// until ctx ends, and then takes back the jobs that no replica has begun. If every attempt of a job fails, the error is a *ShardError.
// It calls idle with true when it has put all jobs, and with false when it begins to read a result.
func (q *Queue) Fan(ctx context.Context, jobs [][]byte, idle func(bool)) ([][]byte, error) {
	if len(jobs) > maxShards {
		return nil, fmt.Errorf("%d shards, more than %d (make them larger): %w", len(jobs), maxShards, ErrInvalid)
	}
	f := &fan{q: q, jobs: map[string][]byte{}, indexes: map[string][]int{}, results: make([][]byte, len(jobs)), waiting: map[string]bool{}, idle: idle}
	for i, job := range jobs {
		if len(job) == 0 || len(job) > maxShardBytes {
			return nil, fmt.Errorf("shard %d has %d bytes, not 1 to %d: %w", i, len(job), maxShardBytes, ErrInvalid)
		}
		id := shardID(job)
		f.jobs[id] = job
		f.indexes[id] = append(f.indexes[id], i)
		f.waiting[id] = true
	}
	notes := make(chan *nats.Msg, 2*len(jobs)+noteRoom)
	sub, err := q.nc.ChanSubscribe(q.cfg.Prefix+".note.shard", notes)
	if err != nil {
		return nil, fmt.Errorf("listen for results: %w", err)
	}
	defer func() {
		if err := sub.Unsubscribe(); err != nil {
			q.log.Debug("queue: unsubscribe", "err", err)
		}
	}()
	defer func() {
		if ctx.Err() != nil {
			f.takeBack(context.WithoutCancel(ctx))
		}
	}()
	for id := range f.jobs {
		for err := f.start(ctx, id); err != nil; err = f.start(ctx, id) {
			if !f.temporary(ctx, err) || retry.Sleep(ctx, 100*time.Millisecond) != nil {
				return nil, err
			}
		}
	}
	if err := f.wait(ctx, notes); err != nil {
		return nil, err
	}
	return f.results, nil
}

// start takes a stored result or puts the job. It looks for a result, a failure and the job at once: each look is a round trip, and while a
// machine renders, shards that are not there yet leave the others idle.
func (f *fan) start(ctx context.Context, id string) error {
	var result, job *jetstream.ObjectInfo
	var failure uint64
	var failed bool
	group, look := errgroup.WithContext(ctx)
	group.Go(func() (err error) { result, err = f.q.lastingBlob(look, "result-"+id); return err })
	group.Go(func() (err error) { job, err = f.q.lastingBlob(look, "job-"+id); return err })
	group.Go(func() (err error) { _, failure, failed, err = f.q.attempts.get(look, "shard-"+id); return err })
	if err := group.Wait(); err != nil {
		return err
	}
	if result != nil {
		return f.take(ctx, id, result)
	}
	if failed { // of an earlier Fan
		if err := f.q.attempts.drop(ctx, failure); err != nil {
			return err
		}
	}
	return f.put(ctx, id, job != nil)
}

// put stores the job's bytes, unless they are there, and its message. An existing message stays: a replica may be working on it.
func (f *fan) put(ctx context.Context, id string, there bool) error {
	if !there {
		if err := f.q.putBlob(ctx, "job-"+id, f.jobs[id]); err != nil {
			return err
		}
	}
	if _, err := f.pending().swap(ctx, id, nil, 0); err != nil && !errors.Is(err, errChanged) {
		return err
	}
	return nil
}

// takeBack removes the jobs that no replica has begun, so that none renders what nobody waits for. Another Fan that waits for the same job
// puts it again.
func (f *fan) takeBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for id := range f.waiting {
		_, revision, ok, err := f.pending().get(ctx, id)
		if err == nil && ok {
			err = f.pending().drop(ctx, revision)
		}
		if err != nil {
			f.q.log.Debug("queue: a shard that nobody waits for may be rendered", "err", err)
			return
		}
	}
}

// pending returns the stream of jobs as a bucket.
func (f *fan) pending() *bucket {
	return &bucket{js: f.q.js, stream: f.q.shards, prefix: f.q.cfg.Prefix + ".shard.", clock: f.q.cfg.Clock, health: &health{}}
}

// wait collects results as they are announced, and polls, because announcements may be lost.
func (f *fan) wait(ctx context.Context, notes <-chan *nats.Msg) error {
	poll := time.NewTicker(fanPoll)
	defer poll.Stop()
	for len(f.waiting) > 0 {
		f.idle(true)
		var err error
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d shards have no result yet: %w", len(f.waiting), len(f.jobs), context.Cause(ctx))
		case m := <-notes:
			err = f.announced(ctx, m)
		case <-poll.C:
			err = f.poll(ctx)
		}
		if err != nil && !f.temporary(ctx, err) {
			return err
		}
	}
	return nil
}

// announced handles the announcement of a result or a failure.
func (f *fan) announced(ctx context.Context, m *nats.Msg) error {
	var note shardNote
	if err := json.Unmarshal(m.Data, &note); err != nil {
		return fmt.Errorf("decode a note: %w", err) // the next poll finds the result
	}
	if !f.waiting[note.ID] {
		return nil
	}
	if note.Err != "" {
		return &ShardError{Index: f.indexes[note.ID][0], Text: note.Err}
	}
	f.idle(false)
	_, err := f.collect(ctx, note.ID)
	return err
}

// poll ends at the first error: it does not ask a server that does not answer for each job.
func (f *fan) poll(ctx context.Context) error {
	for id := range f.waiting {
		if err := f.check(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// check reads the state of a job.
func (f *fan) check(ctx context.Context, id string) error {
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
	// The order matters: a job is removed after its result is stored, so "not pending" was read before "no
	// result".
	if ok, err := f.collect(ctx, id); err != nil || ok || pending {
		return err
	}
	job, err := f.q.lastingBlob(ctx, "job-"+id)
	if err != nil {
		return err
	}
	return f.put(ctx, id, job != nil)
}

// temporary reports whether an error may pass while the caller waits.
func (f *fan) temporary(ctx context.Context, err error) bool {
	if _, failed := errors.AsType[*ShardError](err); failed || ctx.Err() != nil || !passing(err) {
		return false
	}
	f.q.log.Debug("queue: cannot read the state of a shard", "err", err)
	return true
}

// collect takes the result if there is one.
func (f *fan) collect(ctx context.Context, id string) (bool, error) {
	info, err := f.q.lastingBlob(ctx, "result-"+id)
	if err != nil || info == nil {
		return false, err
	}
	err = f.take(ctx, id, info)
	return err == nil, err
}

// take takes a result that was just looked up.
func (f *fan) take(ctx context.Context, id string, info *jetstream.ObjectInfo) error {
	f.idle(false)
	result, err := readBlob(ctx, f.q, "result-"+id, info)
	if err != nil {
		return err
	}
	for _, i := range f.indexes[id] {
		f.results[i] = result
	}
	delete(f.waiting, id)
	return nil
}
