package hydrate

import (
	"context"
	"errors"
	"io/fs"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// Batch is a set of targets of one environment that are rendered without a plan.
type Batch struct {
	Environment string
	State       *branch.State // its kinds give the scopes of custom kinds
	Jobs        []render.Job
}

// Rendered is a target of a batch.
type Rendered struct {
	render.Job
	Tree gitstore.Hash
	Err  error // why the target could not be rendered
}

// RenderBatch renders the targets of a batch into w, and returns them in order.
func (h *Hydrator) RenderBatch(ctx context.Context, b Batch, w *gitstore.Writer) ([]Rendered, []Note, error) {
	p := &environmentPlan{name: b.Environment, state: b.State, notes: notes{}}
	outcomes, err := h.render(ctx, b.Environment, b.Jobs, w)
	if err != nil {
		return nil, nil, err
	}
	scopes, err := p.scopes(ctx, h.Store, outcomes)
	if err != nil {
		return nil, nil, err
	}
	render.Complete(w, outcomes, scopes)
	p.addNotes(outcomes, scopes)
	out := make([]Rendered, len(outcomes))
	for i, o := range outcomes {
		out[i] = Rendered{Job: o.Job, Tree: o.Tree(), Err: o.Err}
	}
	return out, p.notes.list(), nil
}

// Held returns the tree that a state holds for the digest of a target; zero if it holds none, or if somebody else wrote
// to the branch. in is what the state records of the target's cluster.
func (h *Hydrator) Held(ctx context.Context, st *branch.State, in *branch.Recorded, target *source.Target,
) (gitstore.Hash, error) {
	tree := st.Clusters[target.Cluster.Name]
	if st.Foreign != "" || st.Record.Renderer != Epoch || tree.IsZero() {
		return gitstore.Hash{}, nil
	}
	if digest, err := in.Digest(ctx, target.App.Name); err != nil || digest != target.Digest {
		return gitstore.Hash{}, err
	}
	entry, err := h.Store.Snapshot(ctx, tree).Entry(fleet.AppDir(target.App.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return gitstore.Hash{}, nil
	}
	return entry.Hash, err
}

// render renders jobs of an environment and reports the progress.
func (h *Hydrator) render(ctx context.Context, environment string, jobs []render.Job,
	w *gitstore.Writer,
) ([]*render.Outcome, error) {
	return h.targets.Render(ctx, jobs, w, func(done int) { h.Progress("render "+environment, done, len(jobs)) })
}
