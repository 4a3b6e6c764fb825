package rollout

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// Scope is what a command of a person means: apps by name, and all apps of workspaces. Without both, it means all apps.
type Scope struct{ Apps, Workspaces []string }

// All reports whether the scope means all apps.
func (s Scope) All() bool { return len(s.Apps)+len(s.Workspaces) == 0 }

// Has reports whether the scope means an app.
func (s Scope) Has(app string) bool {
	return s.All() || slices.Contains(s.Apps, app) || s.InWorkspace(app)
}

// InWorkspace reports whether an app belongs to a workspace of the scope.
func (s Scope) InWorkspace(app string) bool {
	w := fleet.WorkspaceOf(app)
	return w != "" && slices.Contains(s.Workspaces, w)
}

// Missing returns the first workspace of the scope that has none of the apps; "" if each has one.
func (s Scope) Missing(apps []string) string {
	for _, w := range s.Workspaces {
		if !hasAppOf(apps, w) {
			return w
		}
	}
	return ""
}

// hasAppOf reports whether one of the apps belongs to a workspace.
func hasAppOf(apps []string, workspace string) bool {
	return slices.ContainsFunc(apps, func(app string) bool { return fleet.WorkspaceOf(app) == workspace })
}

// Limit returns contents with the apps of the scope only.
func (s Scope) Limit(read Contents) Contents {
	if s.All() {
		return read
	}
	return func(tree, cluster string) (map[string]string, error) {
		all, err := read(tree, cluster)
		if err != nil {
			return nil, err
		}
		out := map[string]string{}
		for app, digest := range all {
			if s.Has(app) {
				out[app] = digest
			}
		}
		return out, nil
	}
}

// String returns the workspaces, then the apps outside of them: "workspace team-a, team-b/shop".
func (s Scope) String() string {
	var parts []string
	if len(s.Workspaces) > 0 {
		parts = append(parts, workspaceNoun(s.Workspaces)+strings.Join(s.Workspaces, ", "))
	}
	return strings.Join(append(parts, s.others()...), ", ")
}

// Plural reports whether String has several names.
func (s Scope) Plural() bool { return len(s.Workspaces)+len(s.others()) > 1 }

// workspaceNoun returns the noun before the names of workspaces.
func workspaceNoun(names []string) string {
	if len(names) == 1 {
		return "workspace "
	}
	return "workspaces "
}

// others returns the apps that no workspace of the scope has.
func (s Scope) others() []string {
	return slices.DeleteFunc(slices.Clone(s.Apps), s.InWorkspace)
}

// Entries returns what some clusters take from a source: the environment's entry, and those of the clusters that have
// their own.
func (s Source) Entries(clusters []string) []ClusterSource {
	out := []ClusterSource{s.common()}
	for _, name := range clusters {
		if c, ok := s.Clusters[name]; ok {
			out = append(out, c)
		}
	}
	return out
}

// Exceptions lists the apps that any entry of the source takes from another commit than its own, sorted. The
// environment need not run them: a rollback may have removed them.
func (s Source) Exceptions() []string {
	return appsOf(append(slices.Collect(maps.Values(s.Clusters)), s.common())...)
}

// Taken returns the apps of the scope's workspaces that one entry of a source takes from another commit than its own.
func (s Scope) Taken(c ClusterSource) []string {
	var out []string
	for app := range c.tidy().Apps {
		if s.InWorkspace(app) {
			out = append(out, app)
		}
	}
	slices.Sort(out)
	return out
}

// Elsewhere reports whether an entry of a source takes a workspace from other commits than its own, so that the files
// that its own commit has of the workspace do not matter. has are the apps of the workspace at that commit.
func (c ClusterSource) Elsewhere(workspace string, has []string) bool {
	taken := Scope{Workspaces: []string{workspace}}.Taken(c)
	return len(taken) > 0 && !slices.ContainsFunc(has, func(app string) bool { return c.Of(app) == c.Commit })
}
