package renderer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Budget is a Renderer that limits the time of all its renderings together, such as those of one review: charts that
// each stay within their own limit cannot use up the time in which the review must be compared and written. The time
// begins with the first rendering. When it is over, Render ends what is running and refuses the rest. It is safe for
// concurrent use.
type Budget struct {
	renderer Renderer
	limit    time.Duration
	begin    sync.Once
	timer    *time.Timer     // nil before the first rendering
	missing  atomic.Bool     // a rendering was refused or ended
	over     context.Context //nolint:containedctx // ends with the time, for all renderings
	end      context.CancelCauseFunc
}

var errOver = errors.New("the time for rendering is over")

// NewBudget returns a Budget that renders with r.
func NewBudget(r Renderer, limit time.Duration) *Budget {
	b := &Budget{renderer: r, limit: limit}
	b.over, b.end = context.WithCancelCause(context.Background())
	return b
}

// Over reports whether a rendering is missing because the time is over. It is false if the time ended after the last
// rendering.
func (b *Budget) Over() bool { return b.missing.Load() }

// Close stops the timer. Render must not be called afterwards.
func (b *Budget) Close() {
	b.begin.Do(func() {})
	if b.timer != nil {
		b.timer.Stop()
	}
	b.end(nil)
}

// Render implements Renderer.
func (b *Budget) Render(ctx context.Context, bundle *Bundle) (*Rendering, error) {
	b.begin.Do(func() { b.timer = time.AfterFunc(b.limit, func() { b.end(errOver) }) })
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.over, func() { cancel(errOver) })() //nolint:contextcheck // the time of all renderings
	if b.over.Err() != nil {
		return nil, b.spent()
	}
	out, err := b.renderer.Render(limited, bundle)
	if err != nil && errors.Is(context.Cause(limited), errOver) {
		return nil, b.spent()
	}
	return out, err
}

// spent records that a rendering is missing. It returns an equal error for every bundle, so that reports group the
// targets.
func (b *Budget) spent() error {
	b.missing.Store(true)
	return fmt.Errorf("not rendered: %w, after %s (make the change smaller, or look for charts and Kustomize roots that take long)", errOver, b.limit)
}
