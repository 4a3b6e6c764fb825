package retry

import (
	"context"
	"errors"
	"time"
)

// ErrTaken is the cause of a cancelled context if another process may soon do what its user does.
var ErrTaken = errors.New("another process may do this now")

// Alone is Grace for a request that must not happen beside one of another process: with the cause ErrTaken there is no
// grace.
func Alone(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	out, end := Grace(ctx, after)
	alone, cancel := context.WithCancelCause(out)
	stop := context.AfterFunc(ctx, func() {
		if why := context.Cause(ctx); errors.Is(why, ErrTaken) {
			cancel(why)
		}
	})
	return alone, func() {
		stop()
		cancel(nil)
		end()
	}
}

// Grace returns a context that ends a while after ctx, with its cause, or when the returned function is called. A
// request that changes something needs it once it has begun: the server may carry the request out although nobody waits
// for the answer, and whoever cancelled it must know that it is over before they go on.
func Grace(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(after, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(out, func() { late.Stop() })
	})
	return out, func() {
		stop()
		cancel(nil)
	}
}
