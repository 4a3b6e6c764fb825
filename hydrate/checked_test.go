package hydrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/renderer"
)

// countedRenderer counts renderings, and fails while broken.
type countedRenderer struct {
	renderer.Renderer
	n      atomic.Int64
	broken atomic.Bool
}

func (c *countedRenderer) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	c.n.Add(1)
	if c.broken.Load() {
		return nil, errors.New("the processes are busy")
	}
	return c.Renderer.Render(ctx, b)
}

// hydrated hydrates HEAD to dev with a new Hydrator, and checks staging and prod. It returns what it found there, and
// the number of renderings.
func hydrated(t *testing.T, r *hydratetest.Repo, engine *countedRenderer,
	change func(*hydrate.Request),
) (checked []hydrate.EnvironmentResult, renderings int64) {
	t.Helper()
	config := r.Hydrator(2).Config
	config.Renderer = engine
	request := hydrate.Request{Commit: r.Resolve("HEAD"), Write: true}
	change(&request)
	before := engine.n.Load()
	result, err := hydrate.New(config).Hydrate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range result.Environments {
		if e.Name != "dev" {
			checked = append(checked, e)
		}
	}
	return checked, engine.n.Load() - before
}

// facts are what a check finds, without how it found it.
func facts(list []hydrate.EnvironmentResult) string {
	var out strings.Builder
	for i := range list {
		e := list[i]
		e.Rendered, e.Reused, e.Notes = 0, 0, nil
		fmt.Fprintf(&out, "%+v\n", e)
	}
	return out.String()
}

// An environment that waits for a promotion is rendered once for each state of its branch and of the trunk, not in
// every run.
func TestChecksAreKept(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	engine, checked := &countedRenderer{Renderer: renderer.NewEngine(renderer.DefaultLimits())},
		lru.New[hydrate.EnvironmentResult](10)
	keeping := func(q *hydrate.Request) { q.Checked = checked }
	// looks runs twice: the first run renders if it must, the second one only if nothing may be kept. Both find what a
	// run without memory finds.
	looks := func(what string, first, second bool, change func(*hydrate.Request)) {
		t.Helper()
		for i, must := range []bool{first, second} {
			list, n := hydrated(t, r, engine, change)
			fresh, _ := hydrated(t, r, engine, func(q *hydrate.Request) { change(q); q.Checked = nil })
			if got, want := facts(list), facts(fresh); got != want {
				t.Errorf("%s, run %d finds\n%s\nwithout memory\n%s", what, i+1, got, want)
			}
			if (n > 0) != must {
				t.Errorf("%s, run %d: %d renderings", what, i+1, n)
			}
			for _, e := range list {
				if !must && (e.Rendered != 0 || e.Reused != e.Targets || e.Targets == 0) {
					t.Errorf("%s, run %d: %+v", what, i+1, e)
				}
			}
		}
	}
	engine.broken.Store(true)
	looks("a failure", true, true, keeping)
	engine.broken.Store(false)
	looks("after a failure", true, false, keeping)
	looks("--no-cache", true, true, func(q *hydrate.Request) { keeping(q); q.NoCache = true })
	r.Write("apps/shop/layers/global/values.yaml", "config:\n  motd: \"one\"\n")
	r.Commit("one")
	looks("a commit of the trunk", true, false, keeping)
	r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"staging"} })
	r.Git("update-ref", "refs/heads/env/prod", r.Git("commit-tree", "-m", "by hand", "env/staging^{tree}"))
	looks("branches moved", true, false, keeping)
	r.Git("update-ref", "-d", "refs/heads/env/prod")
	looks("a branch was deleted", false, false, keeping) // prod is known without a branch
}
