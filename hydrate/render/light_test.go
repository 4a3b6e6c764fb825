package render

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
)

var errRendered = errors.New("rendered")

// heavy refuses light bundles, and counts how many others it renders at once. The first ones wait until places are
// full.
type heavy struct {
	places          int64
	running, most   atomic.Int64
	light, rendered atomic.Int64
	full            chan struct{}
	once            sync.Once
}

func (h *heavy) Render(_ context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	if b.Light {
		h.light.Add(1)
		return nil, renderer.ErrHeavy
	}
	n := h.running.Add(1)
	defer h.running.Add(-1)
	for m := h.most.Load(); n > m && !h.most.CompareAndSwap(m, n); m = h.most.Load() {
	}
	if n == h.places {
		h.once.Do(func() { close(h.full) })
	}
	<-h.full
	h.rendered.Add(1)
	return nil, errRendered
}

// Many light targets are in flight, but only as many large ones as there are processes, and one more. After the first
// target that is not light, those of its app are not tried as light ones.
func TestLargeRenderingsAreFew(t *testing.T) {
	t.Parallel()
	const parallel, targets = 2, 40
	h := &heavy{places: parallel + 1, full: make(chan struct{})}
	r := New(nil, h, parallel)
	if n := inFlight(parallel); n != parallel*renderer.InFlight {
		t.Errorf("%d in flight", n)
	}
	r.noteLight("web", true)
	job := Job{Target: &source.Target{Selection: fleet.Selection{Target: fleet.Target{App: &fleet.App{Name: "web"}}}}}
	render := func() error { return r.render(t.Context(), job, &renderer.Bundle{}, nil).err }
	var all sync.WaitGroup
	for range targets {
		all.Go(func() {
			if err := render(); !errors.Is(err, errRendered) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if h.most.Load() != parallel+1 || h.rendered.Load() != targets {
		t.Errorf("%d large renderings at once, %d in all", h.most.Load(), h.rendered.Load())
	}
	tried := h.light.Load()
	if err := render(); !errors.Is(err, errRendered) || h.light.Load() != tried || tried == 0 {
		t.Errorf("%d, then %d tries as light ones: %v", tried, h.light.Load(), err)
	}
	r.noteLight("web", true)
	if r.isLight("web") {
		t.Error("an app with a large target is light again")
	}
}
