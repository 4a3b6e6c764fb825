package retry

import (
	"context"
	"time"
)

// Grace returns a context that ends a while after ctx, with its cause, or when the returned function is called. A request that changes
// something needs it once it has begun: the server may carry the request out although nobody waits for the answer, and whoever cancelled it
// must know that it is over before they go on.
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
