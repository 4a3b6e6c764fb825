// Package retry repeats an operation that failed for a reason that may pass. The waits between the tries come
// from github.com/cenkalti/backoff; its loop is not used, because its timer cannot be replaced in tests.
//
// The package imports nothing of ours.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy says how often and how long to wait. The zero value never repeats.
type Policy struct {
	// Tries is the greatest number of calls of the operation. 0 means one; Forever means until the context ends.
	Tries int
	// First is the wait after the first failure. Each further wait is twice as long, and at most Max.
	First, Max time.Duration
	// Jitter is the random part of each wait: 0.2 makes it up to 20 % shorter or longer.
	Jitter float64
	// Sleep waits for d or until ctx ends, and returns ctx's error then. nil is Sleep of this package.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Forever is a number of tries that only the context ends.
const Forever = -1

// failure is an error after which Do calls the operation again.
type failure struct {
	err  error
	wait time.Duration // at least
	now  bool          // without a wait
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// Again marks an error as one that may pass: Do waits as the policy says, and calls the operation again.
func Again(err error) error { return After(err, 0) }

// After is Again with a wait of at least d, as a server asks for. Do never waits longer than Policy.Max.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &failure{err: err, wait: d}
}

// Immediately is Again without a wait.
func Immediately(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err: err, now: true}
}

// Do calls the operation until it succeeds, returns an error that is not marked with Again, After or
// Immediately, uses up the tries, or the context ends. It returns the operation's last result, and its last
// error without the mark. If the context ended meanwhile, the error wraps the context's error and cause too.
func Do[T any](ctx context.Context, p Policy, operation func(context.Context) (T, error)) (T, error) {
	waits := &backoff.ExponentialBackOff{InitialInterval: p.First, MaxInterval: max(p.Max, p.First), Multiplier: 2, RandomizationFactor: p.Jitter}
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
			return out, fmt.Errorf("%w (stopped to retry: %w)", again.err, err)
		}
	}
}

// Sleep waits for d. If ctx ends before, it returns ctx's error, which wraps the cause too.
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
