package hydrate

import (
	"context"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// PlanBegins plans an environment that has no branch. It returns the number of jobs that others render when the plan is ready, and of all
// jobs; stop ends them.
func (h *Hydrator) PlanBegins(ctx context.Context, tree gitstore.Hash, environment string) (begun, all int, stop func(), err error) {
	v, err := h.Open(ctx, tree)
	if err != nil {
		return 0, 0, nil, err
	}
	w, err := h.Store.NewWriter()
	if err != nil {
		return 0, 0, nil, err
	}
	p, err := h.plan(ctx, planRequest{view: v, environment: environment, state: branch.NewState(environment), w: w})
	if err != nil {
		return 0, 0, nil, err
	}
	begun = p.total - len(p.jobs())
	return begun, p.total, func() {
		p.begun.Stop()
		_ = w.Close() // nothing was pushed
	}, nil
}
