package render

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer"
)

// A caller waits for the rendering of another one, and does not render the bundle again.
func TestEveryoneWaitsForARendering(t *testing.T) {
	t.Parallel()
	r := newRenderings(nil)
	begun, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		r.do(t.Context(), "key", func() rendered {
			close(begun)
			<-end
			return rendered{notes: []string{"theirs"}}
		})
	})
	<-begun
	time.AfterFunc(10*time.Millisecond, func() { close(end) })
	work := r.do(t.Context(), "key", func() rendered { return rendered{notes: []string{"mine"}} })
	if !work.ended() || work.notes[0] != "theirs" {
		t.Errorf("the second caller got %v, want the result of the first one", work.rendered)
	}
	all.Wait()
}

// The end of one caller is not the end of another one that waits for the same rendering.
func TestACancelledRenderingIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRenderings(nil)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		r.do(ctx, "key", func() rendered {
			close(begun)
			<-ctx.Done()
			return rendered{err: ctx.Err()}
		})
	})
	<-begun
	var work *rendering
	all.Go(func() { work = r.do(t.Context(), "key", func() rendered { return rendered{notes: []string{"mine"}} }) })
	cancel()
	all.Wait()
	if work.err != nil || len(work.notes) != 1 {
		t.Errorf("a caller got %v, %q", work.err, work.notes)
	}
	// A rendering may end with an error of its own time limit. It is a result like any other.
	late := r.do(t.Context(), "late", func() rendered { return rendered{err: context.DeadlineExceeded} })
	if !errors.Is(late.err, context.DeadlineExceeded) {
		t.Errorf("a caller got %v", late.err)
	}
}

// A service renders for months, so the objects that wait for the scope of a custom kind must stay within the limit.
func TestKeptRenderingsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRenderings(nil)
	shared := make([]byte, maxObjectBytes/4)
	for i := range 20 {
		r.do(t.Context(), fmt.Sprint(i), func() rendered {
			return rendered{objects: []renderer.Object{{YAML: shared}}}
		})
	}
	if n := r.byBundle.Len(); n != 4 || r.bytes != maxObjectBytes {
		t.Errorf("%d renderings with %d bytes are kept", n, r.bytes)
	}
	again := false
	r.do(t.Context(), "19", func() rendered { again = true; return rendered{} })
	if again {
		t.Error("the newest rendering was forgotten")
	}
	for i := range 2 * maxRenderings {
		r.do(t.Context(), fmt.Sprint("small ", i), func() rendered { return rendered{} })
	}
	if n := r.byBundle.Len(); n > maxRenderings || r.bytes != 0 {
		t.Errorf("%d renderings with %d bytes are kept", n, r.bytes)
	}
}
