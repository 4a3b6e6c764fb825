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

// Delay is an error that asks for another try at a time, without counting as a failure: a forge's rate limit, for example.
type Delay struct {
	Until time.Time
	Err   error
}

// Error says why and until when.
func (d *Delay) Error() string {
	return fmt.Sprintf("put off until %s: %v", d.Until.UTC().Format(time.RFC3339), d.Err)
}

// Unwrap gives the reason.
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

// work is one turn: lease, read, do, note the outcome, give the lease back.
func (q *Queue) work(ctx context.Context, x *index, r *run, do func(context.Context, Hint) error) {
	now := q.cfg.Clock()
	again, free := now, time.Time{}
	defer func() { x.finished(r, again, free) }()

	l, err := q.takeLease(ctx, r.place.digest)
	if err != nil {
		free = now.Add(jitter(leasePoll)) // somebody else works there, or the server does not answer
		if !errors.Is(err, errChanged) {
			free = now.Add(jitter(time.Second))
			q.log.Warn("queue: the lease of a repository cannot be taken", "err", err)
		}
		return
	}
	t := &task{q: q, index: x, run: r, lease: l}
	work, cancel := context.WithCancelCause(context.WithValue(ctx, epochKey{}, l.epoch))
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx)) // until the work returned, whatever cancels it
	var keeper sync.WaitGroup
	keeper.Go(func() { l.keep(keeping, cancel) })
	again = t.turn(work, cancel, do)
	cancel(nil)
	stopKeeping()
	keeper.Wait()
	t.release(ctx)
}

// release gives the lease back and tells the others.
func (t *task) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
	defer cancel()
	if err := t.lease.release(ctx); err != nil {
		t.q.log.Warn("queue: a lease was not given back, it ends by itself", "err", err)
	}
}

// turn does the work and gives the time before which the hint is not tried again, if it is still there.
func (t *task) turn(work context.Context, cancel func(error), do func(context.Context, Hint) error) time.Time {
	q := t.q
	if err := t.load(work); err != nil {
		q.log.Warn("queue: a hint cannot be read", "err", err)
		return q.cfg.Clock().Add(jitter(time.Second))
	}
	if len(t.loaded) == 0 {
		return time.Time{} // done by another replica
	}
	if wait, err := t.begin(work); err != nil || wait.After(q.cfg.Clock()) {
		if err != nil {
			q.log.Warn("queue: a hint cannot be started", "err", err)
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

// guard calls the work and makes an error of a panic.
func guard(ctx context.Context, h Hint, do func(context.Context, Hint) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the worker panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx, h)
}

// load reads the newest messages of the item and makes one hint of them.
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
		if err != nil { // nobody can ever work on this
			t.q.log.Error("queue: a message is no hint and is removed", "subject", s, "err", err)
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

// outcome notes what came of the work.
func (t *task) outcome(work context.Context, err error) time.Time {
	q := t.q
	// The notes must be written even when the work was cancelled.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), opTimeout)
	defer cancel()
	cause := context.Cause(work)
	var delay *Delay
	switch {
	case err == nil:
		return t.succeed(ctx)
	case errors.Is(cause, ErrLeaseLost):
		q.log.Warn("queue: the lease was lost during the work", "place", t.hint.Place, "number", t.hint.Number)
		return q.cfg.Clock().Add(jitter(time.Second)) // whoever has the lease now notes the outcome
	case errors.Is(cause, ErrSuperseded):
		return time.Time{} // the newer one has its own count
	case errors.Is(cause, ErrInterrupted): // the command may be on its way here still
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

// succeed removes exactly what was read. While that fails, the hint is worked on once more: that does no harm.
func (t *task) succeed(ctx context.Context) time.Time {
	if err := t.finish(ctx); err != nil {
		t.q.log.Warn("queue: a hint that is done cannot be removed and will be done again", "err", err)
		return t.q.cfg.Clock().Add(jitter(time.Second))
	}
	t.unparkSilently(ctx)
	return time.Time{}
}

// finish removes the hint and its attempts, and tells the other replicas.
func (t *task) finish(ctx context.Context) error {
	for _, sequence := range t.loaded {
		if err := t.q.hints.drop(ctx, sequence); err != nil {
			return err
		}
	}
	t.index.remove(t.loaded)
	if t.record.revision > 0 {
		if err := t.q.attempts.drop(ctx, t.record.revision); err != nil {
			t.q.log.Debug("queue: attempts of a done hint stay for a while", "err", err)
		}
	}
	return t.q.tellDone(t.loaded)
}
