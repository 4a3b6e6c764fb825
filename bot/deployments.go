package bot

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
)

// deployed shows on the forge which source commits environments run, if the settings ask for it. Like a status, a
// deployment follows from the branches: what an outage or a restart left out, the next task writes. It sends no request
// for what this process wrote already.
func (r reporter) deployed(ctx context.Context, f *fleet.Fleet, result *hydrate.Result,
	promotions []promote.Status,
) error {
	role, ok := r.forge.Forge.(forge.Deployments)
	if !r.settings.Deployments || !ok {
		return nil
	}
	var failed []error
	for _, d := range deploymentsOf(r.tip.Hash.String(), result, promotions) {
		key, state := "deployment/"+d.Environment+"/"+d.Commit, string(d.State)+" "+d.Description
		// after a rollback, the commit that succeeded before succeeds again
		current := "deployment/" + d.Environment
		if r.seen(key, state) && (d.State != forge.Success || r.seen(current, d.Commit)) {
			continue
		}
		d.Trunk, d.Production, d.URL = f.Spec.Trunk, f.Production(d.Environment), r.EnvironmentPage(r.place, d.Environment)
		output, onForge, err := r.space.Branches.Output(ctx)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		if onForge {
			d.Rendered, d.Branch = output, f.EnvironmentBranch(d.Environment)
		}
		err = role.SetDeployment(ctx, r.place.Repo(), d)
		if err != nil {
			err = fmt.Errorf("deployment of %.10s to %s: %w", d.Commit, d.Environment, err)
		}
		if err != nil && (errors.Is(err, forge.ErrUnavailable) || ctx.Err() != nil) {
			failed = append(failed, err)
			continue
		}
		if err != nil { // another attempt would have the same result: the next state is one
			r.log.Warn("a deployment is not shown", "environment", d.Environment, "error", err)
		}
		r.remember(key, state)
		if d.State == forge.Success {
			r.remember(current, d.Commit)
		}
	}
	return errors.Join(failed...)
}

// deploymentsOf returns the states of the source commits that environments run, or that failed there. An environment
// that follows the trunk has moved when its branches have.
func deploymentsOf(tip string, result *hydrate.Result, promotions []promote.Status) []forge.Deployment {
	var out []forge.Deployment
	for i := range result.Environments {
		e := &result.Environments[i]
		if e.Status == hydrate.StatusUpdated || e.Status == hydrate.StatusUnchanged {
			out = append(out, forge.Deployment{
				Environment: e.Name, Commit: tip, State: forge.Success, Description: arrivedState,
			})
		}
	}
	for i := range promotions {
		e := &promotions[i]
		for _, one := range promotedStatuses("", e) {
			d := forge.Deployment{
				Environment: e.Environment, Commit: one.commits[0], State: one.status.State,
				Description: one.status.Description,
			}
			switch d.State {
			case forge.Success:
				d.Description = arrivedState
			case forge.Pending: // without what the wave waits for, which changes often
				d.State, d.Description = forge.Running, wave(e)
			}
			out = append(out, d)
		}
	}
	return out
}

// wave names the first wave in which something is left to do.
func wave(e *promote.Status) string {
	for i, w := range e.Decision.Waves {
		if !w.State.Over() {
			return fmt.Sprintf("wave %s, %d of %d", w.Name, i+1, len(e.Decision.Waves))
		}
	}
	return arrivedState
}
