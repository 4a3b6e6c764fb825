package parallel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sluice-gitops/sluice/internal/parallel"
)

func TestEach(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 3, 1000} {
		calls := make([]atomic.Int32, n)
		err := parallel.Each(t.Context(), n, func(_ context.Context, i int) error {
			calls[i].Add(1)
			return nil
		})
		for i := range calls {
			if got := calls[i].Load(); got != 1 || err != nil {
				t.Errorf("%d of %d was called %d times: %v", i, n, got, err)
			}
		}
	}
	broken := errors.New("a blob is missing")
	var calls atomic.Int32
	err := parallel.Each(t.Context(), 1<<20, func(ctx context.Context, i int) error {
		if calls.Add(1); i == 0 {
			return broken
		}
		<-ctx.Done() // the error ends the others
		return nil
	})
	if !errors.Is(err, broken) || calls.Load() > 1000 {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := parallel.Each(ctx, 10, func(context.Context, int) error { panic("called") }); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}
