package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gitops/sluice/internal/retry"
)

// A context with a grace period ends that long after its parent, with the same cause, and earlier only if its user ends
// it.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("superseded")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, end := retry.Grace(parent, 10*time.Second)
		defer end()
		ended, endEarly := retry.Grace(parent, 10*time.Second)
		cancel(why)
		time.Sleep(9 * time.Second)
		if ctx.Err() != nil {
			t.Error("it ends early")
		}
		endEarly()
		if ended.Err() == nil {
			t.Error("it does not end with its user")
		}
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(ctx), why) {
			t.Errorf("it ends with %v", context.Cause(ctx))
		}
	})
}

// Where another process may do the same, a request ends at once. It has the grace period for every other cause.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for why, left := range map[error]bool{
			errors.New("superseded"):                            true,
			fmt.Errorf("the lease is lost: %w", retry.ErrTaken): false,
		} {
			parent, cancel := context.WithCancelCause(t.Context())
			ctx, end := retry.Alone(parent, 10*time.Second)
			cancel(why)
			time.Sleep(9 * time.Second)
			if (ctx.Err() == nil) != left {
				t.Errorf("%v: Err is %v", why, ctx.Err())
			}
			time.Sleep(2 * time.Second)
			if !errors.Is(context.Cause(ctx), why) {
				t.Errorf("%v: it ends with %v", why, context.Cause(ctx))
			}
			end()
		}
	})
}
