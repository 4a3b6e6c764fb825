package app

import (
	"context"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// resultOf is a metric's label.
func resultOf(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// countedRenderer tells the metrics of renderings.
type countedRenderer struct {
	renderer.Renderer
	m *metrics
}

// Render implements renderer.Renderer.
func (c countedRenderer) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	began := time.Now()
	out, err := c.Renderer.Render(ctx, b)
	c.m.renders.WithLabelValues(resultOf(err)).Observe(time.Since(began).Seconds())
	return out, err
}

// countedBranches tells the metrics of pushes.
type countedBranches struct {
	gitstore.Branches
	m *metrics
}

// Push implements gitstore.Branches.
func (c countedBranches) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move, o gitstore.PushOptions) ([]gitstore.MoveResult, error) {
	results, err := c.Branches.Push(ctx, w, moves, o)
	for _, r := range results {
		c.m.pushes.WithLabelValues(string(r.State)).Inc()
	}
	if err != nil {
		c.m.pushes.WithLabelValues("error").Inc()
	}
	return results, err
}
