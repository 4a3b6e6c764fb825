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

	"github.com/sluice-gitops/sluice/internal/retry"
)

const (
	maxShards     = 16384    // jobs of one Fan
	noteRoom      = 256      // notes about jobs of others that a Fan may not have read yet; a lost note costs only time
	maxShardBytes = 64 << 20 // of one job or one result
	shardTries    = 5        // deliveries of one job
	fanPoll       = 2 * time.Second
	fetchWait     = 2 * time.Second
)

// shardNote announces that a job has a result, or failed permanently.
type shardNote struct {
	ID  string `json:"id"`
	Err string `json:"err,omitempty"`
}

// ShardError reports that every attempt of a job failed. Index is its place in the list of Fan.
type ShardError struct {
	Index int
	Text  string
}

// Error returns the text of the last attempt.
func (e *ShardError) Error() string { return fmt.Sprintf("shard %d failed: %s", e.Index, e.Text) }

func shardID(job []byte) string {
	sum := sha256.Sum256(job)
	return hex.EncodeToString(sum[:])
}

// RunShards renders jobs that any replica put with Fan, one at a time, until ctx ends, and then returns nil. It takes a job only when ready
// has returned nil; ready may wait until this replica has time. Call it once per core, and twice more, so that a core has work while a job is
// read and a result is stored. A job must contain everything that its result depends on, including the version of the program: its digest is
// the name of the result. If a renderer vanishes, another one gets its job after Config.Lease.
func (q *Queue) RunShards(ctx context.Context, ready func(context.Context) error, render func(context.Context, []byte) ([]byte, error)) error {
	for ctx.Err() == nil && ready(ctx) == nil {
		fetch, cancel := context.WithTimeout(ctx, fetchWait)
		m, err := q.workers.Next(jetstream.FetchContext(fetch))
		cancel()
		if err != nil {
			if q.nc.IsClosed() {
				return fmt.Errorf("wait for shards: %w", err)
			}
			quiet := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages)
			if !quiet && retry.Sleep(ctx, jitter(500*time.Millisecond)) == nil {
				q.log.Debug("queue: cannot wait for shards", "err", err)
			}
			continue
		}
		q.shard(ctx, m, render)
	}
	return nil
}

// shard renders one job. After any error the job is delivered again.
func (q *Queue) shard(ctx context.Context, m jetstream.Msg, render func(context.Context, []byte) ([]byte, error)) {
	id := m.Subject()[len(q.cfg.Prefix+".shard."):]
	beat, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for retry.Sleep(beat, q.cfg.Lease/4) == nil {
			if err := m.InProgress(); err != nil {
				q.log.Debug("queue: cannot keep the delivery of a shard", "err", err)
			}
		}
	})
	err := q.renderShard(ctx, id, render)
	stop()
	keeper.Wait()
	// The answer is sent even if ctx ended during the rendering.
	answer, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
	defer cancel()
	if err != nil {
		q.shardFailed(answer, ctx.Err() != nil, m, shardNote{ID: id, Err: shorten(err)})
		return
	}
	if err := m.DoubleAck(answer); err != nil {
		q.log.Debug("queue: a shard may be rendered again", "err", err)
	}
	q.announce(shardNote{ID: id})
}

// renderShard stores the result, unless it is stored already.
func (q *Queue) renderShard(ctx context.Context, id string, render func(context.Context, []byte) ([]byte, error)) error {
	if info, err := q.lastingBlob(ctx, "result-"+id); err == nil && info != nil {
		return nil
	}
	job, err := q.getBlob(ctx, "job-"+id)
	if err != nil {
		return err
	}
	if shardID(job) != id {
		return fmt.Errorf("the digest of the stored job differs from its name: %w", ErrInvalid)
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
		return fmt.Errorf("the result of a shard has %d bytes, more than %d (make shards smaller): %w", len(result), maxShardBytes, ErrInvalid)
	}
	return q.putBlob(ctx, "result-"+id, result)
}

// shardFailed has the job delivered again, or announces the failure after too many attempts.
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
	// The order matters: Fan puts a job again that has no record of a failure, no result and no message.
	data, err := json.Marshal(note)
	if err != nil {
		q.log.Error("queue: cannot encode the failure of a shard", "err", err)
		return
	}
	if _, err := q.attempts.set(ctx, "shard-"+note.ID, data); err != nil {
		q.log.Warn("queue: cannot record the failure of a shard", "err", err)
		return
	}
	if err := m.TermWithReason("every attempt failed"); err != nil {
		q.log.Debug("queue: a failed shard may be rendered again", "err", err)
	}
	q.announce(note)
}

// announce publishes a note; a lost note costs only time.
func (q *Queue) announce(note shardNote) {
	data, err := json.Marshal(note)
	if err == nil {
		err = q.nc.Publish(q.cfg.Prefix+".note.shard", data)
	}
	if err != nil {
		q.log.Debug("queue: cannot announce a shard; the waiting replicas poll", "err", err)
	}
}

// blobTimeout is the time limit for transferring a number of bytes. Without it a node that dies would block a
// worker forever.
func blobTimeout(size int) time.Duration { return 5*time.Second + time.Duration(size>>20)*time.Second }

// lookBlob describes an object.
func lookBlob(ctx context.Context, q *Queue, name string) (*jetstream.ObjectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := q.blobs.GetInfo(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", name, err)
	}
	return info, nil
}

// lastingBlob describes an object that will exist for some time. It returns nil if there is none.
func (q *Queue) lastingBlob(ctx context.Context, name string) (*jetstream.ObjectInfo, error) {
	info, err := lookBlob(ctx, q, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, nil
	}
	// Its pieces were written before its description and expire before it.
	if err != nil || q.cfg.Clock().Sub(info.ModTime) >= q.cfg.ShardTTL/2 {
		return nil, err
	}
	return info, nil
}

func (q *Queue) getBlob(ctx context.Context, name string) ([]byte, error) {
	info, err := lookBlob(ctx, q, name)
	if err != nil {
		return nil, err
	}
	return readBlob(ctx, q, name, info)
}

// readBlob reads an object that was just looked up.
func readBlob(ctx context.Context, q *Queue, name string, info *jetstream.ObjectInfo) ([]byte, error) {
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
