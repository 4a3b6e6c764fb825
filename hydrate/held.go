package hydrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// HeldWorkspace is a workspace that an environment does not take from the source commit: its targets stay as the branch
// has them, and everything else is written.
type HeldWorkspace struct {
	Workspace  string      `json:"workspace"`
	Reason     string      `json:"reason"`
	Failures   []Failure   `json:"failures,omitempty"`
	Violations []Violation `json:"violations,omitempty"`
}

// holds are the workspaces that an environment holds, by name.
type holds map[string]*HeldWorkspace

// failed holds the workspaces whose targets cannot be rendered, and returns the failures of other targets.
func (h holds) failed(list []Failure) []Failure {
	var others []Failure
	for _, f := range list {
		name := fleet.WorkspaceOf(f.App)
		if name == "" {
			others = append(others, f)
			continue
		}
		one := h.add(name)
		one.Failures = append(one.Failures, f)
		one.Reason = fmt.Sprintf("%s cannot be rendered", Count(len(one.Failures), "target"))
	}
	return others
}

// violated holds the workspaces whose targets violate the policy, and returns the violations of other targets.
func (h holds) violated(list []Violation) []Violation {
	var others []Violation
	for _, v := range list {
		name := fleet.WorkspaceOf(v.App)
		if name == "" {
			others = append(others, v)
			continue
		}
		one := h.add(name)
		one.Violations = append(one.Violations, v)
		one.Reason = fmt.Sprintf("%s of %s", Count(len(one.Violations), "violation"),
			strings.Join(rulesOf(one.Violations), ", "))
	}
	return others
}

func (h holds) add(name string) *HeldWorkspace {
	if h[name] == nil {
		h[name] = &HeldWorkspace{Workspace: name}
	}
	return h[name]
}

// unknown holds the workspaces whose apps the fleet does not know.
func (h holds) unknown(f *fleet.Fleet) {
	for _, w := range f.Workspaces {
		if w.Err != nil {
			h.add(w.Name).Reason = w.Err.Error()
		}
	}
}

func (h holds) list() []HeldWorkspace {
	var out []HeldWorkspace
	for _, name := range slices.Sorted(maps.Keys(h)) {
		out = append(out, *h[name])
	}
	return out
}

// names lists the held workspaces with their reasons.
func (h holds) names() string {
	var out []string
	for _, one := range h.list() {
		out = append(out, "workspace "+one.Workspace+" ("+one.Reason+")")
	}
	return strings.Join(out, ", ")
}

// has reports whether an app belongs to a held workspace.
func (h holds) has(app string) bool { return len(h) > 0 && h[fleet.WorkspaceOf(app)] != nil }

// source is what an environment runs that takes everything but the held workspaces from a commit. Their apps keep the
// commits that the branch records.
func (p *environmentPlan) source(ctx context.Context, store *gitstore.Store, commit string) (rollout.Source, error) {
	out := rollout.Source{Commit: commit}
	if len(p.held) == 0 {
		return out, nil
	}
	apps := map[string]bool{}
	for _, a := range p.view.Fleet.Apps {
		apps[a.Name] = p.held.has(a.Name)
	}
	for _, tree := range p.state.Clusters {
		entries, err := branch.Apps(ctx, store, tree)
		if err != nil {
			return out, err
		}
		for _, e := range entries {
			apps[e.Name] = p.held.has(e.Name)
		}
	}
	runs := p.state.Source()
	keep := func(of rollout.ClusterSource) rollout.ClusterSource {
		one := rollout.ClusterSource{Commit: commit, Apps: map[string]string{}}
		for app, held := range apps {
			if before := of.Of(app); held && before != "" && before != commit {
				one.Apps[app] = before
			}
		}
		return one
	}
	common := keep(rollout.ClusterSource{Commit: runs.Commit, Apps: runs.Apps})
	out.Apps, out.Clusters = common.Apps, map[string]rollout.ClusterSource{}
	for name := range runs.Clusters {
		if one := keep(runs.On(name)); !one.Equal(common) {
			out.Clusters[name] = one
		}
	}
	return out, out.Validate()
}

// elsewhere holds the workspaces that a composition takes from other commits than this one, so that what they break
// here does not matter.
func elsewhere(f *fleet.Fleet, source rollout.Source, commit string) holds {
	parts := []rollout.ClusterSource{{Commit: source.Commit, Apps: source.Apps}}
	for name := range source.Clusters {
		parts = append(parts, source.On(name))
	}
	out, used := holds{}, map[string]bool{}
	for _, part := range parts {
		apps := slices.Collect(maps.Keys(part.Apps))
		for _, app := range apps {
			if name := fleet.WorkspaceOf(app); name != "" {
				out.add(name)
			}
		}
		for _, a := range f.Apps {
			apps = append(apps, a.Name)
		}
		for _, app := range apps {
			if part.Of(app) == commit {
				used[fleet.WorkspaceOf(app)] = true
			}
		}
	}
	maps.DeleteFunc(out, func(name string, _ *HeldWorkspace) bool { return used[name] })
	return out
}

// heldTrailers name the source commits of a cluster's apps that are not from the environment's.
func heldTrailers(source rollout.Source, cluster string) []gitstore.Trailer {
	runs := source.On(cluster)
	var out []gitstore.Trailer
	for _, app := range slices.Sorted(maps.Keys(runs.Apps)) {
		out = append(out, gitstore.Trailer{Key: branch.TrailerAppSource, Value: app + " " + runs.Apps[app]})
	}
	return out
}
