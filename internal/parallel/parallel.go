// Package parallel runs the steps of a loop on all processors.
package parallel

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Each calls do for each number below n, on all processors, and returns the first error. Neighbours are with one
// worker, one after the other, because they share more. An error, or the end of the context, ends the other workers
// before their next step.
func Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), n)
	for w := range workers {
		group.Go(func() error {
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
