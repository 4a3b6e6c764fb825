package promote_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/rollout"
)

// countedRenderer counts renderings. It fails while broken, and writes the word one in another way while altered.
type countedRenderer struct {
	renderer.Renderer
	n               atomic.Int64
	broken, altered atomic.Bool
}

func (c *countedRenderer) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	c.n.Add(1)
	if c.broken.Load() {
		return nil, errors.New("the processes are busy")
	}
	out, err := c.Renderer.Render(ctx, b)
	if err != nil || !c.altered.Load() {
		return out, err
	}
	other := *out
	other.Objects = slices.Clone(out.Objects)
	for i := range other.Objects {
		other.Objects[i].YAML = bytes.ReplaceAll(other.Objects[i].YAML, []byte("one"), []byte("ONE"))
	}
	return &other, nil
}

// watched is a stage whose tasks keep candidates.
type watched struct {
	*stage
	engine *countedRenderer
	kept   *promote.Candidates
}

// pass is one task, with a new Hydrator. It returns prod's status and the number of renderings.
func (w *watched) pass(kept *promote.Candidates, change func(*promote.Request)) (promote.Status, int64) {
	w.T.Helper()
	config := w.Hydrator(2).Config
	config.Renderer = w.engine
	r := promote.Request{Trunk: w.tip(), Now: w.now, Adapters: w.adapters(), Candidates: kept}
	if change != nil {
		change(&r)
	}
	before := w.engine.n.Load()
	list, err := promote.Look(w.T.Context(), hydrate.New(config), r)
	if err != nil {
		w.T.Fatal(err)
	}
	return list[len(list)-1], w.engine.n.Load() - before
}

// waits expects that a pass moves nothing, finds what one without memory finds, and renders or does not.
func (w *watched) waits(what string, renders bool, change func(*promote.Request)) promote.Status {
	w.T.Helper()
	got, n := w.pass(w.kept, change)
	if (n > 0) != renders {
		w.T.Errorf("%s: %d renderings", what, n)
	}
	want, _ := w.pass(nil, change)
	if len(got.Done)+len(want.Done) > 0 || got.Candidate == "" && !w.engine.broken.Load() {
		w.T.Errorf("%s: %+v", what, got)
	}
	if got.Candidate != want.Candidate || got.Decision.WaitsFor != want.Decision.WaitsFor {
		w.T.Errorf("%s: finds %s, %q; without memory %s, %q", what, got.Candidate, got.Decision.WaitsFor,
			want.Candidate, want.Decision.WaitsFor)
	}
	return got
}

func newWatched(t *testing.T, settings string) *watched {
	t.Helper()
	return &watched{
		newStage(t, settings), &countedRenderer{Renderer: renderer.NewEngine(renderer.DefaultLimits())},
		promote.NewCandidates(),
	}
}

// A promotion that waits for a person is rendered once, until the trunk or its branch moves. Every pass looks again at
// the time, at commands and at the forge. An approved promotion is rendered again before it moves.
func TestCandidatesAreKept(t *testing.T) {
	t.Parallel()
	w := newWatched(t, "mode: auto, approvers: {users: [mia], count: 1}")
	w.release("one")
	w.engine.broken.Store(true)
	w.waits("a failure", true, nil)
	w.waits("the same failure", true, nil)
	w.engine.broken.Store(false)
	w.pass(nil, nil) // stores that the tree was offered
	w.waits("the first pass", true, nil)
	w.out.rendered = nil
	if got, _ := w.pass(nil, nil); len(w.out.rendered) != 1 || w.out.rendered[0] == nil ||
		w.out.rendered[0].Tip.Tree.String() != got.Candidate {
		t.Errorf("the policy judges %+v, not the rendered candidate %s", w.out.rendered, got.Candidate)
	}
	w.waits("the second pass", false, nil)
	w.now = w.now.Add(240 * time.Hour)
	w.waits("ten days later", false, nil)

	w.out.red[w.Git("rev-parse", "main")] = true
	if st := w.waits("the policy changes its mind", false, nil); !strings.Contains(st.Decision.WaitsFor, "policy") {
		t.Errorf("it waits for %q", st.Decision.WaitsFor)
	}
	w.out.red = map[string]bool{}
	w.out.authors = errors.New("the forge does not answer")
	w.waits("nobody knows the authors", false, nil)
	w.out.authors = nil
	w.waits("a dry run", true, func(r *promote.Request) { r.DryRun = true })

	w.Write("README.md", "a commit that changes nothing\n")
	w.Commit("nothing")
	w.hydrateThe("dev")
	w.pass(nil, nil) // offers the next commit
	w.waits("a commit of the trunk", true, nil)
	w.waits("the same commit", false, nil)
	w.release("two")
	w.pass(nil, nil)
	w.waits("another commit of the trunk", true, nil)
	before := w.Git("rev-parse", "env/prod")
	w.hydrate(func(q *hydrate.Request) { q.Environments, q.Commit = []string{"prod"}, w.Resolve("main~1") })
	if w.Git("rev-parse", "env/prod") == before {
		t.Fatal("the test is void: prod did not move")
	}
	w.pass(nil, nil)
	w.waits("prod moved", true, nil)
	w.waits("prod stays", false, nil)

	tree := w.waits("before the approval", false, nil).Candidate
	approve := ordered(rollout.EventApprove, "1", nil)
	st, n := w.pass(w.kept, func(r *promote.Request) { r.Commands = []promote.Command{approve} })
	if len(st.Refused) > 0 || len(st.Done) == 0 || n == 0 || w.Git("rev-parse", "env/prod^{tree}") != tree {
		t.Errorf("approved: %d renderings: %+v", n, st)
	}
}

// A bake time ends without a move of any branch: the pass that finds this renders what it moves, and moves what it
// rendered.
func TestKeptCandidatesDoNotDelayABake(t *testing.T) {
	t.Parallel()
	w := newWatched(t, "mode: auto, bake: 1h")
	w.release("one")
	w.pass(nil, nil)
	for range 2 {
		w.pass(w.kept, nil)
	}
	if st := w.waits("it bakes", false, nil); !strings.Contains(st.Decision.WaitsFor, "bake") {
		t.Errorf("it waits for %q", st.Decision.WaitsFor)
	}
	w.now = time.Now().Add(2 * time.Hour)
	w.engine.altered.Store(true)
	if st, n := w.pass(w.kept, nil); len(st.Done) == 0 || n == 0 {
		t.Errorf("after the bake time: %d renderings: %+v", n, st)
	}
	if text := w.Git("grep", "-h", "motd", "env/prod"); !strings.Contains(text, "ONE") {
		t.Errorf("prod has %s", text)
	}
}

// Somebody may ask for another commit while no branch moves.
func TestKeptCandidatesAreOfOneSource(t *testing.T) {
	t.Parallel()
	w := newWatched(t, "mode: manual, approvers: {users: [mia], count: 1}")
	older := w.release("one")
	w.release("two")
	for i, source := range []string{"main", older} {
		again := ordered(rollout.EventPromote, source, func(c *promote.Command) {
			c.Revision = w.Git("rev-parse",
				source)
		})
		if st, _ := w.pass(nil, func(r *promote.Request) { r.Commands = []promote.Command{again} }); len(st.Refused) > 0 {
			t.Fatalf("the state is %+v", st)
		}
		w.waits("asked for "+source, true, nil)
		w.waits("again", false, nil)
		if want := []string{"two", "one"}[i]; !strings.Contains(w.Git("log", "-1", "--format=%s",
			w.Git("rev-parse", source)), want) {
			t.Errorf("the test is void: %s is not %s", source, want)
		}
	}
}
