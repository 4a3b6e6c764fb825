package compare

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/internal/parallel"
)

// trees finds the trees of candidates. It takes those that a branch holds under the same digest, and collects the
// others for rendering.
type trees struct {
	*run
	byDigest map[string]gitstore.Hash // tree of a state; zero if the digest must be rendered
	inputs   map[recordedOn]*branch.Recorded
	batches  [2]map[string]*batch // by environment
	notes    []hydrate.Note       // of the head
}

// recordedOn is a cluster of a state.
type recordedOn struct {
	state   *branch.State
	cluster string
}

// batch lists the jobs for one side of one environment.
type batch struct {
	hydrate.Batch
	owners []*candidate // of the jobs
}

// render sets the trees of every candidate, or the error.
func (c *run) render(ctx context.Context) error {
	t := &trees{
		run: c, byDigest: map[string]gitstore.Hash{}, inputs: map[recordedOn]*branch.Recorded{},
		batches: [2]map[string]*batch{{}, {}},
	}
	for some := range slices.Chunk(c.list, chunk) {
		targets, err := t.targets(ctx, some)
		if err != nil {
			return err
		}
		for i, one := range some {
			if err := t.plan(ctx, one, targets[i]); err != nil {
				return err
			}
		}
	}
	for side, batches := range t.batches {
		for _, environment := range slices.Sorted(maps.Keys(batches)) {
			if err := t.renderBatch(ctx, side, batches[environment]); err != nil {
				return fmt.Errorf("environment %s: %w", environment, err)
			}
		}
	}
	t.out.noteUnlocked()
	for _, n := range hydrate.MergeNotes(t.notes) {
		t.out.notes = append(t.out.notes, n.String())
	}
	return nil
}

// chunk is the number of candidates whose targets are in memory together, apart from those that are rendered.
const chunk = 1024

// targets resolves both sides of candidates, on all processors. A side that is not to be rendered is nil.
func (t *trees) targets(ctx context.Context, list []*candidate) ([][2]*source.Target, error) {
	out := make([][2]*source.Target, len(list))
	return out, parallel.Each(ctx, len(list), func(_ context.Context, n int) error {
		out[n] = t.resolve(list[n])
		return nil
	})
}

// resolve resolves both sides of a candidate. It changes only the candidate.
func (t *trees) resolve(one *candidate) (targets [2]*source.Target) {
	for i, side := range one.sides {
		if side == nil || t.views[i] == nil || i == 0 && one.onBranch {
			continue
		}
		var err error
		if targets[i], err = t.views[i].Target(*side); err != nil {
			one.failed[i] = err
			continue
		}
		one.namespaces[i] = targets[i].Namespace
	}
	return targets
}

// plan takes the trees of both sides from branches, or adds jobs that render them. If the digests are equal, it does
// neither.
func (t *trees) plan(ctx context.Context, one *candidate, targets [2]*source.Target) error {
	before, after := targets[0], targets[1]
	if before != nil && after != nil && before.Digest == after.Digest &&
		before.Cluster.Environment == after.Cluster.Environment && !one.upgraded {
		one.equal = true
		return nil
	}
	for i, target := range targets {
		if target == nil {
			continue
		}
		if err := t.planSide(ctx, one, i, target); err != nil || one.equal {
			return err
		}
	}
	return nil
}

// planSide takes the tree of one side from a branch, or adds a job that renders it.
func (t *trees) planSide(ctx context.Context, one *candidate, side int, target *source.Target) error {
	environment := target.Cluster.Environment
	st, err := t.state(ctx, environment)
	if err != nil {
		return err
	}
	var states []*branch.State
	if rendered := t.request.Rendered[environment]; rendered != nil {
		states = append(states, rendered)
	}
	if st.Exists() {
		states = append(states, st)
	}
	held, err := t.held(ctx, states, target)
	if err != nil {
		return err
	}
	if !held.IsZero() {
		if side == 1 && (one.onBranch || t.request.Against == AgainstBranches) && held == one.trees[0] {
			one.equal = true
		}
		one.trees[side] = held
		return nil
	}
	b, ok := t.batches[side][environment]
	if !ok {
		b = &batch{Batch: hydrate.Batch{Environment: environment, State: st}}
		t.batches[side][environment] = b
	}
	b.Jobs = append(b.Jobs, render.Job{Target: target, Old: one.trees[0]})
	b.owners = append(b.owners, one)
	return nil
}

// held returns the tree that a state holds for a digest. It returns zero if there is none, or if somebody else wrote
// to the branch. It looks only on the cluster of the first target with that digest: rendering once costs less than
// reading the inputs of every cluster.
func (t *trees) held(ctx context.Context, states []*branch.State, target *source.Target) (gitstore.Hash, error) {
	if tree, known := t.byDigest[target.Digest]; known {
		return tree, nil
	}
	for _, st := range states {
		tree, err := t.heldOnCluster(ctx, st, target)
		if err != nil {
			return tree, err
		}
		if t.byDigest[target.Digest] = tree; !tree.IsZero() {
			return tree, nil
		}
	}
	return gitstore.Hash{}, nil
}

func (t *trees) heldOnCluster(ctx context.Context, st *branch.State, target *source.Target) (gitstore.Hash, error) {
	cluster := target.Cluster.Name
	key := recordedOn{st, cluster}
	in, ok := t.inputs[key]
	if !ok {
		in = st.Recorded(t.h.Store, cluster)
		t.inputs[key] = in
	}
	return t.h.Held(ctx, st, in, target)
}

func (t *trees) renderBatch(ctx context.Context, side int, b *batch) error {
	order := make([]int, len(b.Jobs)) // keep jobs of one app adjacent, because they share a chart
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(b.Jobs[i].Target.App.Name, b.Jobs[j].Target.App.Name)
	})
	sorted := hydrate.Batch{Environment: b.Environment, State: b.State}
	for _, i := range order {
		sorted.Jobs = append(sorted.Jobs, b.Jobs[i])
	}
	rendered, notes, err := t.h.RenderBatch(ctx, sorted, t.writer)
	if err != nil {
		return err
	}
	if side == 1 {
		t.notes = append(t.notes, notes...)
	}
	t.out.Rendered += len(rendered)
	for n, r := range rendered {
		one := b.owners[order[n]]
		if r.Err != nil {
			one.failed[side] = r.Err
			continue
		}
		one.trees[side] = r.Tree
	}
	return nil
}
