package promote

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/rollout"
)

// maxSteps limits the pairs of commits that are compared: apps of one workspace can run different commits on each
// cluster.
const maxSteps = 16

// step is one commit of the fleet in place of another, for some apps of a workspace.
type step struct{ from, to string }

// elsewhere names the authors of the changes in other repositories that a requested promotion of one workspace brings.
// unknown says why there may be others.
func (a *authors) elsewhere(ctx context.Context, environment string, q *rollout.Request,
	to rollout.Source,
) (names []string, unknown string, err error) {
	if q == nil || len(q.Apps) == 0 {
		return nil, "only a promotion of a workspace alone is examined", nil
	}
	workspace := fleet.WorkspaceOf(q.Apps[0])
	if w, ok := a.fleet.Workspace(workspace); !ok || len(w.Spec.Approvers.Users)+len(w.Spec.Approvers.Teams) == 0 {
		return nil, "the workspace has no approvers", nil
	}
	steps := a.steps(environment, q.Apps, to)
	if len(steps) > maxSteps {
		return nil, fmt.Sprintf("its apps run more than %d different commits", maxSteps), nil
	}
	pins := map[MovedPin]bool{}
	for _, s := range steps {
		moved, unknown, err := a.movedPins(ctx, workspace, environment, s)
		if err != nil || unknown != "" {
			return nil, unknown, err
		}
		for _, m := range moved {
			if pins[m] {
				continue
			}
			pins[m] = true
			some, unknown, err := a.authorsOfPin(ctx, m)
			names = append(names, some...)
			if err != nil || unknown != "" {
				return names, unknown, err
			}
		}
	}
	return names, "", nil
}

// steps lists the pairs of commits between which the apps move, on any cluster of the environment.
func (a *authors) steps(environment string, apps []string, to rollout.Source) []step {
	st := a.states[environment]
	runs := st.Source()
	clusters := st.ClusterNames()
	for _, c := range a.fleet.ClustersOf(environment) {
		clusters = append(clusters, c.Name)
	}
	var out []step
	for _, app := range apps {
		for _, name := range append([]string{""}, clusters...) { // "" has the environment's own entries
			s := step{runs.On(name).Of(app), to.On(name).Of(app)}
			if s.from != s.to && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// movedPins lists the repositories with other content for the apps of a workspace. It does not know who wrote content
// that the workspace takes for the first time, so that is unknown.
func (a *authors) movedPins(ctx context.Context, workspace, environment string, s step) (moved []MovedPin,
	unknown string, err error,
) {
	before, unknown, err := a.view(ctx, s.from)
	if err != nil || unknown != "" {
		return nil, unknown, err
	}
	after, unknown, err := a.view(ctx, s.to)
	if err != nil || unknown != "" {
		return nil, unknown, err
	}
	had, err := before.Repositories(workspace, environment)
	if err != nil {
		return nil, fmt.Sprintf("what %.10s reads of other repositories is unknown: %v", s.from, err), nil
	}
	has, err := after.Repositories(workspace, environment)
	if err != nil {
		return nil, fmt.Sprintf("what %.10s reads of other repositories is unknown: %v", s.to, err), nil
	}
	for _, name := range has {
		old, _ := before.Fleet.Repository(name)
		now, _ := after.Fleet.Repository(name)
		if old == nil || now == nil || old.URL != now.URL || old.Commit == "" || !slices.Contains(had, name) {
			return nil, "the workspace takes content from repository " + name +
				" for the first time, and its authors are unknown", nil
		}
		m := MovedPin{Name: name, URL: now.URL, Wanted: now.Wanted}
		if m.From, err = gitstore.ParseHash(old.Commit); err == nil {
			m.To, err = gitstore.ParseHash(now.Commit)
		}
		if err != nil {
			return nil, fmt.Sprintf("the pin of repository %s is unknown: %v", name, err), nil
		}
		if m.From != m.To {
			moved = append(moved, m)
		}
	}
	return moved, "", nil
}

// view opens the fleet of a commit of the trunk.
func (a *authors) view(ctx context.Context, commit string) (v *source.View, unknown string, err error) {
	hash, err := gitstore.ParseHash(commit)
	if err != nil {
		return nil, fmt.Sprintf("what the environment runs of the workspace is unknown: %v", err), nil
	}
	c, err := a.hydrator.Store.Commit(ctx, hash)
	if err == nil {
		v, err = a.hydrator.Open(ctx, c.Tree)
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if err != nil {
		return nil, fmt.Sprintf("the fleet of %.10s cannot be read: %v", commit, err), nil
	}
	return v, "", nil
}

// authorsOfPin asks the forge.
func (a *authors) authorsOfPin(ctx context.Context, m MovedPin) (names []string, unknown string, err error) {
	finder := a.request.Adapters.Authors
	if finder == nil {
		return nil, "there is no forge to ask for the authors of changes in repository " + m.Name, nil
	}
	names, err = finder.AuthorsElsewhere(ctx, m)
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if err != nil {
		return names, fmt.Sprintf("the authors of changes in repository %s are unknown: %v", m.Name, err), nil
	}
	return names, "", nil
}
