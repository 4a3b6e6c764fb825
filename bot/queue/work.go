package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Delay is an error that asks for a retry at a time, without counting as a failure: for example because of a
// forge's rate limit.
type Delay struct {
	Until time.Time
	Err   error
}

// Error implements error.
func (d *Delay) Error() string {
	return fmt.Sprintf("postponed until %s: %v", d.Until.UTC().Format(time.RFC3339), d.Err)
}

// Unwrap returns the reason.
func (d *Delay) Unwrap() error { return d.Err }

// task is one turn of a worker.
type task struct {
	q      *Queue
	index  *index
	run    *run
	lease  *lease
	hint   Hint
	loaded map[string]uint64
	record attempt
}

// work does one turn: take the lease, read the hint, do the work, record the outcome, release the lease.
func (q *Queue) work(ctx context.Context, x *index, r *run, do func(context.Context, Hint) error) {
	now := q.cfg.Clock()
	again, free := now, time.Time{}
	defer func() { x.finished(r, again, free) }()

	l, err := q.takeLease(ctx, r.item.lease)
	if err != nil {
		free = now.Add(jitter(leasePoll)) // another worker has it, or the server does not answer
		if !errors.Is(err, errChanged) {
			free = now.Add(jitter(time.Second))
			q.log.Warn("queue: cannot take the lease of a repository", "err", err)
		}
		return
	}
	t := &task{q: q, index: x, run: r, lease: l}
	work, cancel := context.WithCancelCause(context.WithValue(ctx, epochKey{}, l.epoch))
	// until the work returns, even if it is cancelled
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() { l.keep(keeping, cancel) })
	again = t.turn(work, cancel, do)
	cancel(nil)
	stopKeeping()
	keeper.Wait()
	t.release(ctx)
}

// release releases the lease.
func (t *task) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
	defer cancel()
	if err := t.lease.release(ctx); err != nil {
		t.q.log.Warn("queue: cannot release a lease; it expires by itself", "err", err)
	}
}

// turn does the work. It returns the time of the next attempt, if the hint is still there.
func (t *task) turn(work context.Context, cancel func(error), do func(context.Context, Hint) error) time.Time {
	q := t.q
	if err := t.load(work); err != nil {
		q.log.Warn("queue: cannot read a hint", "err", err)
		return q.cfg.Clock().Add(jitter(time.Second))
	}
	if len(t.loaded) == 0 {
		return time.Time{} // done by another replica
	}
	if wait, err := t.begin(work); err != nil || wait.After(q.cfg.Clock()) {
		if err != nil {
			q.log.Warn("queue: cannot record the start of a hint", "err", err)
			return q.cfg.Clock().Add(jitter(time.Second))
		}
		return wait
	}
	if len(t.loaded) == 0 {
		return time.Time{} // parked by begin
	}
	t.index.started(t.run, t.loaded, cancel)
	err := guard(work, t.hint, do)
	return t.outcome(work, err)
}

// guard calls the work and turns a panic into an error.
func guard(ctx context.Context, h Hint, do func(context.Context, Hint) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the worker panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx, h)
}

// load reads the newest messages of the item and combines them into one hint.
func (t *task) load(ctx context.Context) error {
	t.loaded = map[string]uint64{}
	gone := map[string]uint64{}
	var newest uint64
	force := false
	for s, known := range t.index.messages(t.run) {
		m, err := t.message(ctx, s)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			gone[s] = known // not what the index knows by now: that may be newer
			continue
		}
		if err != nil {
			return err
		}
		h, err := decodeHint(m.Data)
		if err != nil { // no worker can use it
			t.q.log.Error("queue: a message is not a hint and is removed", "subject", s, "err", err)
			if err := t.q.hints.drop(ctx, m.Sequence); err != nil {
				return err
			}
			gone[s] = m.Sequence
			continue
		}
		t.loaded[s] = m.Sequence
		force = force || h.Force
		if m.Sequence > newest {
			newest, t.hint = m.Sequence, h
		}
	}
	t.hint.Force = force
	t.index.remove(gone)
	return nil
}

func (t *task) message(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	m, err := t.q.hints.last(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("read a hint: %w", err)
	}
	return m, nil
}

// outcome records the result of the work.
func (t *task) outcome(work context.Context, err error) time.Time {
	q := t.q
	// The result is recorded even if the work was cancelled.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), opTimeout)
	defer cancel()
	cause := context.Cause(work)
	var delay *Delay
	switch {
	case err == nil:
		return t.succeed(ctx)
	case errors.Is(cause, ErrLeaseLost):
		q.log.Warn("queue: the lease was lost during the work", "place", t.hint.Place, "number", t.hint.Number)
		return q.cfg.Clock().Add(jitter(time.Second)) // the worker that has the lease now records the outcome
	case errors.Is(cause, ErrSuperseded):
		return time.Time{} // the newer one has its own attempts
	case errors.Is(cause, ErrInterrupted): // the command may not be here yet
		until := q.cfg.Clock().Add(time.Second)
		t.excuse(ctx, until, err)
		return until
	case errors.Is(cause, ErrDraining):
		t.excuse(ctx, time.Time{}, err)
		return time.Time{}
	case errors.As(err, &delay):
		t.excuse(ctx, delay.Until, err)
		return delay.Until
	default:
		return t.fail(ctx, err)
	}
}

// succeed removes exactly what was read. If that fails, the hint is worked on again, which does no harm.
func (t *task) succeed(ctx context.Context) time.Time {
	if err := t.finish(ctx); err != nil {
		t.q.log.Warn("queue: cannot remove a finished hint; it will be worked on again", "err", err)
		return t.q.cfg.Clock().Add(jitter(time.Second))
	}
	t.unparkSilently(ctx)
	return time.Time{}
}

// finish removes the hint and its attempts, and announces that to the other replicas.
func (t *task) finish(ctx context.Context) error {
	for _, sequence := range t.loaded {
		if err := t.q.hints.drop(ctx, sequence); err != nil {
			return err
		}
	}
	t.index.remove(t.loaded)
	if t.record.revision > 0 {
		if err := t.q.attempts.drop(ctx, t.record.revision); err != nil {
			t.q.log.Debug("queue: cannot remove the attempts of a finished hint; they expire", "err", err)
		}
	}
	return t.q.announceDone(t.loaded)
}
