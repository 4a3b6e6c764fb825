// Package retry repeats an operation that failed with a temporary error. The delays come from
// github.com/cenkalti/backoff. The loop of that library is not used, because tests cannot replace its timer.
//
// The package imports no other package of Sluice.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy configures the number of tries and the delays between them. The zero value never retries.
type Policy struct {
	// Tries is the maximal number of calls of the operation. 0 means one; Forever means until the context ends.
	Tries int
	// First is the delay after the first failure. Each further delay is twice as long, and at most Max. A Max below
	// First counts as First.
	First, Max time.Duration
	// Jitter is the random part of each delay: 0.2 makes it up to 20 % shorter or longer, and at most Max.
	Jitter float64
	// Sleep waits for d or until ctx ends, in which case it returns ctx's error. It must also return that error if d
	// is 0. nil means Sleep of this package.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Forever is a number of tries that only the context limits.
const Forever = -1

// failure marks an error after which Do calls the operation again.
type failure struct {
	err  error
	wait time.Duration // least delay before the next call
	now  bool          // without a delay
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// Again marks an error as temporary: Do waits as configured, and calls the operation again. Mark an error after it is
// wrapped: Do removes the mark together with everything that wraps it.
func Again(err error) error { return After(err, 0) }

// After is Again with a delay of at least d, such as one that a server asks for. Do never waits longer than
// Policy.Max. The result for a nil error is nil, as for Again and Immediately.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &failure{err: err, wait: d}
}

// Immediately is Again without a delay.
func Immediately(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err: err, now: true}
}

// Do calls the operation until it succeeds, returns an error that is not marked with Again, After or Immediately,
// uses up the tries, or the context ends. It returns the operation's last result, and its last error without the
// mark. If the context ended, the error also wraps the context's error and cause.
func Do[T any](ctx context.Context, p Policy, operation func(context.Context) (T, error)) (T, error) {
	waits := &backoff.ExponentialBackOff{
		InitialInterval: p.First, MaxInterval: max(p.Max, p.First), Multiplier: 2,
		RandomizationFactor: p.Jitter,
	}
	waits.Reset()
	sleep := p.Sleep
	if sleep == nil {
		sleep = Sleep
	}
	for try := 1; ; try++ {
		out, err := operation(ctx)
		again, ok := errors.AsType[*failure](err)
		if !ok {
			return out, err
		}
		if p.Tries != Forever && try >= p.Tries {
			return out, again.err
		}
		wait := time.Duration(0)
		if !again.now {
			wait = min(max(waits.NextBackOff(), again.wait), max(p.Max, p.First))
		}
		if err := sleep(ctx, wait); err != nil {
			return out, fmt.Errorf("%w (stopped retrying: %w)", again.err, err)
		}
	}
}

// Sleep waits for d. If ctx ends first, it returns ctx's error, which also wraps the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ended(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-t.C:
		return nil
	}
}

func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
