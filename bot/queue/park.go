package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

const maxError = 8 << 10 // characters

// attempt counts the starts and failures of a hint that is not done. It is written before the work starts, so
// that a hint that kills its worker is counted too.
type attempt struct {
	Sequence  uint64    `json:"sequence"`
	Starts    int       `json:"starts"`
	Failures  int       `json:"failures"`
	NotBefore time.Time `json:"notBefore"`
	Err       string    `json:"err,omitempty"`

	revision uint64
}

// Parked is a hint that failed too often. It stays until Unpark, until a newer hint of the same key is done,
// or for 30 days.
type Parked struct {
	Hint     Hint      `json:"hint"`
	Err      string    `json:"err"`
	Failures int       `json:"failures"`
	Since    time.Time `json:"since"`
}

// begin counts a start. It parks a hint whose workers vanished too often; then nothing is loaded. Otherwise
// it returns when the hint may start: now (the zero time), or later if it failed on another replica.
func (t *task) begin(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	q := t.q
	var newest uint64
	for _, sequence := range t.loaded {
		newest = max(newest, sequence)
	}
	data, revision, ok, err := q.attempts.get(ctx, digest(t.hint.Key()))
	if err != nil {
		return time.Time{}, err
	}
	if ok {
		if err := json.Unmarshal(data, &t.record); err != nil || t.record.Sequence != newest {
			t.record = attempt{} // of an older hint
		}
	}
	t.record.revision, t.record.Sequence = revision, newest
	if vanished := t.record.Starts - t.record.Failures; vanished >= q.cfg.Crashes {
		cause := fmt.Errorf("the worker vanished %d times while working on it (killed, out of memory, or the lease was lost)", vanished)
		return t.park(ctx, cause), nil
	}
	if t.record.Failures >= q.cfg.Retries { // an earlier attempt to park it failed
		return t.park(ctx, errors.New(t.record.Err)), nil
	}
	if t.record.NotBefore.After(q.cfg.Clock()) {
		return t.record.NotBefore, nil
	}
	t.record.Starts++
	return time.Time{}, t.save(ctx)
}

func (t *task) save(ctx context.Context) error {
	data, err := json.Marshal(t.record)
	if err != nil {
		return fmt.Errorf("encode attempts: %w", err)
	}
	revision, err := t.q.attempts.set(ctx, digest(t.hint.Key()), data)
	if err != nil {
		return err
	}
	t.record.revision = revision
	return nil
}

// excuse uncounts the start.
func (t *task) excuse(ctx context.Context, until time.Time, err error) {
	t.record.Starts--
	t.record.NotBefore, t.record.Err = until, shorten(err)
	if err := t.save(ctx); err != nil {
		t.q.log.Debug("queue: cannot uncount a start", "err", err)
	}
}

// fail counts a failure, and parks the hint after too many. It returns the time of the next attempt.
func (t *task) fail(ctx context.Context, cause error) time.Time {
	q := t.q
	t.record.Failures++
	t.record.Err = shorten(cause)
	t.record.NotBefore = q.cfg.Clock().Add(q.backoff(t.record.Failures))
	q.log.Warn("queue: work failed", "place", t.hint.Place, "kind", t.hint.Kind, "number", t.hint.Number, "delivery",
		t.hint.ID,
		"failures", t.record.Failures, "err", shorten(cause))
	if err := t.save(ctx); err != nil {
		q.log.Warn("queue: cannot count a failure", "err", err)
	}
	if t.record.Failures < q.cfg.Retries {
		return t.record.NotBefore
	}
	return t.park(ctx, cause)
}

// park parks the hint: it stores the parked hint, calls OnPark, and removes the hint from the queue, in this
// order. After a crash in between, the hint is parked again.
func (t *task) park(ctx context.Context, cause error) time.Time {
	q := t.q
	retry := q.cfg.Clock().Add(jitter(q.cfg.BackoffMax))
	data, err := json.Marshal(Parked{
		Hint: t.hint, Err: shorten(cause), Failures: t.record.Failures,
		Since: q.cfg.Clock().UTC(),
	})
	if err != nil {
		q.log.Error("queue: cannot park a hint", "err", err)
		return retry
	}
	if _, err := q.parked.set(ctx, digest(t.hint.Key()), data); err != nil {
		q.log.Error("queue: cannot park a hint", "err", err)
		return retry
	}
	if q.cfg.OnPark != nil {
		if err := guard(ctx, t.hint, func(_ context.Context, h Hint) error {
			q.cfg.OnPark(h,
				cause)
			return nil
		}); err != nil {
			q.log.Error("queue: OnPark failed", "err", err)
		}
	}
	// The callback may have used up the time of the context.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
	defer cancel()
	if err := t.finish(ctx); err != nil {
		q.log.Error("queue: cannot remove a parked hint from the queue", "err", err)
		return retry
	}
	t.loaded = nil
	return time.Time{}
}

// unparkSilently removes a parked hint of the same key.
func (t *task) unparkSilently(ctx context.Context) {
	_, revision, ok, err := t.q.parked.get(ctx, digest(t.hint.Key()))
	if err == nil && ok {
		err = t.q.parked.drop(ctx, revision)
	}
	if err != nil {
		t.q.log.Debug("queue: cannot remove a parked hint that is done; it expires", "err", err)
	}
}

// Parked lists the parked hints, the oldest first.
func (q *Queue) Parked(ctx context.Context) ([]Parked, error) {
	keys, _, err := q.parked.keys(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Parked, 0, len(keys))
	for _, key := range keys {
		data, _, ok, err := q.parked.get(ctx, key)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		var p Parked
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, fmt.Errorf("decode the parked hint %s: %w", key, err)
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b Parked) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Hint.Key(), b.Hint.Key())
	})
	return list, nil
}

// Unpark puts a parked hint of the same key back into the queue, with new attempts. It sets Force if h has it.
func (q *Queue) Unpark(ctx context.Context, h Hint) error {
	data, revision, ok, err := q.parked.get(ctx, digest(h.Key()))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s %s %d: %w", h.Place, h.Kind, h.Number, ErrNotParked)
	}
	var p Parked
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decode a parked hint: %w", err)
	}
	p.Hint.Force = p.Hint.Force || h.Force
	if err := q.Put(ctx, p.Hint); err != nil { // before the removal: a crash here leaves it in both places
		return err
	}
	return q.parked.drop(ctx, revision)
}

// shorten returns the text of an error as it is stored and logged.
func shorten(err error) string {
	return safetext.Shorten(strings.ToValidUTF8(err.Error(), "?"), maxError)
}
