package fleet

import (
	"slices"
	"strings"
)

// SeparatesWorkspaces reports whether a workspace that alone turns red goes back alone.
func (p Promotion) SeparatesWorkspaces() bool {
	return p.OnWorkspaceFailure == "rollback" && p.workspacesTogether() == ""
}

// workspacesTogether returns why no workspace can go back alone in an environment; "" if one can. The state without the
// changes of a workspace is one that nobody asked for, so nobody can have approved it.
func (p Promotion) workspacesTogether() string {
	second := func(r Rights) bool {
		return r.SecondPerson && (len(r.Verbs) == 0 || slices.Contains(r.Verbs, "promote"))
	}
	switch {
	case !slices.ContainsFunc(p.Health.CommitStatuses, func(s string) bool { return strings.Contains(s, "${app}") }):
		return "onWorkspaceFailure needs a pattern with ${app} in health.commitStatuses: without it, no status belongs to a workspace"
	case p.Approvers.Count > 0 || len(p.Approvers.Users)+len(p.Approvers.Teams) > 0 ||
		slices.ContainsFunc(p.Rights, second):
		return "onWorkspaceFailure cannot be combined with approvals: nobody approves the state without the workspace"
	case p.Mode == "request":
		return "onWorkspaceFailure cannot be combined with mode request: nobody merges the state without the workspace"
	case p.RestartBake:
		return "onWorkspaceFailure cannot be combined with restartBake: what the clusters ran before is then ambiguous"
	}
	return ""
}
