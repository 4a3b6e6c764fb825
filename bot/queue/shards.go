package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	maxShards     = 16384    // jobs of one Fan
	maxShardBytes = 64 << 20 // of one job or one result
	shardTries    = 5        // deliveries of one job
	fanPoll       = 2 * time.Second
	fetchWait     = 2 * time.Second
)

// shardNote tells those who wait that a job has a result, or failed for good.
type shardNote struct {
	ID  string `json:"id"`
	Err string `json:"err,omitempty"`
}

// ShardError says that a job failed on every try. Index is its place in Fan's list.
type ShardError struct {
	Index int
	Text  string
}

// Error has the last try's text.
func (e *ShardError) Error() string { return fmt.Sprintf("shard %d failed: %s", e.Index, e.Text) }

func shardID(job []byte) string {
	sum := sha256.Sum256(job)
	return hex.EncodeToString(sum[:])
}

// RunShards renders jobs that any replica put with Fan, one at a time, until ctx ends; call it once per core. A job must
// hold all that its result depends on, the program's version too: its digest is the name of the result. A job whose
// renderer vanishes goes to another one after Config.Lease. It returns nil when ctx ended.
func (q *Queue) RunShards(ctx context.Context, render func(context.Context, []byte) ([]byte, error)) error {
	for ctx.Err() == nil {
		fetch, cancel := context.WithTimeout(ctx, fetchWait)
		m, err := q.workers.Next(jetstream.FetchContext(fetch))
		cancel()
		if err != nil {
			if q.nc.IsClosed() {
				return fmt.Errorf("wait for shards: %w", err)
			}
			quiet := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages)
			if !quiet && pause(ctx, jitter(500*time.Millisecond)) == nil {
				q.log.Debug("queue: waiting for shards was interrupted", "err", err)
			}
			continue
		}
		q.shard(ctx, m, render)
	}
	return nil
}

// shard renders one job. Whatever goes wrong here, the job is delivered again.
func (q *Queue) shard(ctx context.Context, m jetstream.Msg, render func(context.Context, []byte) ([]byte, error)) {
	id := m.Subject()[len(q.cfg.Prefix+".shard."):]
	beat, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for pause(beat, q.cfg.Lease/4) == nil {
			if err := m.InProgress(); err != nil {
				q.log.Debug("queue: a shard's delivery cannot be kept", "err", err)
			}
		}
	})
	err := q.renderShard(ctx, id, render)
	stop()
	keeper.Wait()
	// The answer must go out also when ctx ended during the rendering.
	answer, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
	defer cancel()
	if err != nil {
		q.shardFailed(answer, ctx.Err() != nil, m, shardNote{ID: id, Err: cut(err.Error())})
		return
	}
	if err := m.DoubleAck(answer); err != nil {
		q.log.Debug("queue: a shard may be rendered again", "err", err)
	}
	q.tell(shardNote{ID: id})
}

// renderShard makes the result unless somebody else did.
func (q *Queue) renderShard(ctx context.Context, id string, render func(context.Context, []byte) ([]byte, error)) error {
	if ok, err := q.hasBlob(ctx, "result-"+id); err == nil && ok {
		return nil
	}
	job, err := q.getBlob(ctx, "job-"+id)
	if err != nil {
		return err
	}
	if shardID(job) != id {
		return fmt.Errorf("the stored job is not the one that its name says: %w", ErrInvalid)
	}
	var result []byte
	err = guard(ctx, Hint{}, func(ctx context.Context, _ Hint) error {
		var err error
		result, err = render(ctx, job)
		return err
	})
	if err != nil {
		return err
	}
	if len(result) > maxShardBytes {
		return fmt.Errorf("a shard's result has %d bytes, more than %d; make smaller shards: %w", len(result), maxShardBytes, ErrInvalid)
	}
	return q.putBlob(ctx, "result-"+id, result)
}

// shardFailed gives the job to somebody else, or after too many tries tells that it failed.
func (q *Queue) shardFailed(ctx context.Context, drained bool, m jetstream.Msg, note shardNote) {
	tries := uint64(1)
	if meta, err := m.Metadata(); err == nil {
		tries = meta.NumDelivered
	}
	if drained || tries < shardTries {
		wait := jitter(100 * time.Millisecond)
		if !drained {
			wait = min(q.backoff(int(tries)), 10*time.Second)
		}
		if err := m.NakWithDelay(wait); err != nil {
			q.log.Debug("queue: a shard comes back after the lease", "err", err)
		}
		return
	}
	// First the note for those who wait, then the removal: Fan puts a job without note, result and message again.
	data, err := json.Marshal(note)
	if err != nil {
		q.log.Error("queue: a shard's failure cannot be encoded", "err", err)
		return
	}
	if _, err := q.attempts.set(ctx, "shard-"+note.ID, data); err != nil {
		q.log.Warn("queue: a shard's failure cannot be noted", "err", err)
		return
	}
	if err := m.TermWithReason("failed on every try"); err != nil {
		q.log.Debug("queue: a failed shard may be rendered again", "err", err)
	}
	q.tell(note)
}

func (q *Queue) tell(note shardNote) {
	data, err := json.Marshal(note)
	if err == nil {
		err = q.nc.Publish(q.cfg.Prefix+".note.shard", data)
	}
	if err != nil {
		q.log.Debug("queue: those who wait for a shard will find out themselves", "err", err)
	}
}

// blobTimeout is for moving so many bytes. Without it a node that dies meanwhile would keep a worker for ever.
func blobTimeout(size int) time.Duration { return 5*time.Second + time.Duration(size>>20)*time.Second }

// hasBlob says whether an object is there and will be for some time.
func (q *Queue) hasBlob(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := q.blobs.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", name, err)
	}
	// Its pieces were written before its description and expire before it.
	return q.cfg.Clock().Sub(info.ModTime) < q.cfg.ShardTTL/2, nil
}

func (q *Queue) getBlob(ctx context.Context, name string) ([]byte, error) {
	look, cancelLook := context.WithTimeout(ctx, requestTimeout)
	defer cancelLook()
	info, err := q.blobs.GetInfo(look, name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", name, err)
	}
	if info.Size > maxShardBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than %d: %w", name, info.Size, maxShardBytes, ErrInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, blobTimeout(int(info.Size)))
	defer cancel()
	data, err := q.blobs.GetBytes(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

func (q *Queue) putBlob(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout(len(data)))
	defer cancel()
	if _, err := q.blobs.PutBytes(ctx, name, data); err != nil {
		return fmt.Errorf("store %s (%d bytes): %w", name, len(data), err)
	}
	return nil
}
