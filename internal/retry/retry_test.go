package retry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gitops/sluice/internal/retry"
)

var errBusy = errors.New("busy")

func TestDo(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		policy retry.Policy
		errs   []error // of the tries; nil after them
		waits  []time.Duration
		tries  int
		err    error
	}{
		"success":     {policy: retry.Policy{Tries: 3}, tries: 1},
		"zero policy": {errs: []error{retry.Again(errBusy)}, tries: 1, err: errBusy},
		"final error": {policy: retry.Policy{Tries: 3}, errs: []error{errBusy}, tries: 1, err: errBusy},
		"passes": {
			policy: retry.Policy{Tries: 4, First: s, Max: 3 * s},
			errs:   []error{retry.Again(errBusy), retry.Again(errBusy), retry.Again(errBusy)},
			waits:  []time.Duration{s, 2 * s, 3 * s}, tries: 4,
		},
		"tries used up": {
			policy: retry.Policy{Tries: 2, First: s, Max: 3 * s},
			errs:   []error{retry.Again(errBusy), retry.Again(errBusy)}, waits: []time.Duration{s}, tries: 2,
			err: errBusy,
		},
		"the server asks for more": {
			policy: retry.Policy{Tries: 3, First: s, Max: 9 * s},
			errs:   []error{retry.After(errBusy, 5*s), retry.After(errBusy, time.Hour)},
			waits:  []time.Duration{5 * s, 9 * s}, tries: 3,
		},
		"no wait": {
			policy: retry.Policy{Tries: 3, First: s},
			errs:   []error{retry.Immediately(errBusy), retry.Again(errBusy)}, waits: []time.Duration{0, s}, tries: 3,
		},
		"forever": {
			policy: retry.Policy{Tries: retry.Forever, First: s, Max: s},
			errs:   slices.Repeat([]error{retry.Again(errBusy)}, 50), waits: slices.Repeat([]time.Duration{s}, 50),
			tries: 51,
		},
		"final error after some try": {
			policy: retry.Policy{Tries: 9, First: s, Max: s},
			errs:   []error{retry.Again(errBusy), context.Canceled}, waits: []time.Duration{s}, tries: 2,
			err: context.Canceled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var waits []time.Duration
			c.policy.Sleep = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
			tries := 0
			got, err := retry.Do(t.Context(), c.policy, func(context.Context) (int, error) {
				tries++
				if tries > len(c.errs) {
					return tries, nil
				}
				return tries, c.errs[tries-1]
			})
			if got != c.tries || tries != c.tries || !errors.Is(err, c.err) || !slices.Equal(waits, c.waits) {
				t.Errorf("%d tries, waits %v, result %d, %v; want %d, %v, %v", tries, waits, got, err, c.tries, c.waits,
					c.err)
			}
		})
	}
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 90*time.Second, errors.New("the process stops"))
		defer cancel()
		_, err := retry.Do(ctx, retry.Policy{Tries: retry.Forever, First: time.Minute, Max: time.Minute},
			func(context.Context) (int, error) {
				return 0, retry.Again(errBusy)
			})
		if !errors.Is(err, errBusy) ||
			err.Error() != "busy (stopped retrying: context deadline exceeded: the process stops)" ||
			!errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 90*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	p := retry.Policy{Tries: 20, First: time.Second, Max: time.Second, Jitter: 0.5}
	p.Sleep = func(_ context.Context, d time.Duration) error {
		seen[d] = true
		if d < time.Second/2 || d > time.Second {
			t.Errorf("waits %v", d)
		}
		return nil
	}
	if _, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
		return 0,
			retry.Again(errBusy)
	}); !errors.Is(err, errBusy) || len(seen) < 2 {
		t.Errorf("%d different waits, %v", len(seen), err)
	}
}
