package renderer

import "context"

// AtOnce returns a renderer that passes at most n bundles at once on to r. Reviews that share the worker processes of a repository get one
// each, so that none of them takes all processes.
func AtOnce(r Renderer, n int) Renderer {
	return &atOnce{r, make(chan struct{}, n)}
}

type atOnce struct {
	renderer Renderer
	slots    chan struct{}
}

// Render implements Renderer.
func (a *atOnce) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
		return a.renderer.Render(ctx, b)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
