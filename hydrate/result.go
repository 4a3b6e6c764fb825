package hydrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Request says what to hydrate.
type Request struct {
	Commit       gitstore.Commit
	Environments []string // those to write; none: all that follow the trunk
	Write        bool     // move branches; without it, nothing leaves this process
	NoCache      bool     // render every target
	// AllowUnmerged names environments that may be written from a commit that the trunk does not contain.
	AllowUnmerged []string
	AllowPolicy   []string // policy rules whose violations do not forbid the change
	Reason        string   // of AllowPolicy, recorded in the commits
	Prune         bool     // delete the branches of clusters that are retired or gone
	Recreate      bool     // make branches again that somebody deleted
	Overwrite     bool     // put Sluice's content on top of commits that it did not make
	MaxDeletions  int      // objects that may go from one environment; 0: what the fleet says
	PerPush       int      // refs in one push; 0: all
}

// Status of an environment after a run.
type Status string

// The statuses. Only the last four keep an environment from being what the commit says.
const (
	StatusUpdated    Status = "updated"
	StatusUnchanged  Status = "unchanged"
	StatusChecked    Status = "checked"    // rendered, not written: it does not follow the trunk
	StatusPlanned    Status = "planned"    // what a run without --dry-run would write
	StatusSuperseded Status = "superseded" // the branch has a newer commit already
	StatusFailed     Status = "failed"     // targets could not be rendered
	StatusRefused    Status = "refused"    // a rule of safety says no
	StatusConflict   Status = "conflict"   // somebody else moved a branch, twice
	StatusRejected   Status = "rejected"   // by the server
)

// OK says that the environment is, or would be, what the commit says.
func (s Status) OK() bool {
	switch s {
	case StatusFailed, StatusRefused, StatusConflict, StatusRejected:
		return false
	}
	return true
}

// Result is what a run did.
type Result struct {
	Source       string              `json:"source"`
	Environments []EnvironmentResult `json:"environments"`
	Warnings     fleet.Problems      `json:"warnings,omitempty"`
}

// EnvironmentResult is what a run did for one environment.
type EnvironmentResult struct {
	Name       string          `json:"environment"`
	Status     Status          `json:"status"`
	Reason     string          `json:"reason,omitempty"`
	Branch     string          `json:"branch"`
	Old        string          `json:"old,omitempty"`
	New        string          `json:"new,omitempty"`
	Tree       string          `json:"tree,omitempty"`
	Targets    int             `json:"targets"`
	Rendered   int             `json:"rendered"`
	Reused     int             `json:"reused"`
	Objects    ObjectCounts    `json:"objects"`
	Clusters   []ClusterResult `json:"clusters,omitempty"` // whose branches moved
	Failures   []Failure       `json:"failures,omitempty"`
	Violations []Violation     `json:"violations,omitempty"` // that the policy refuses the change for
	Notes      []Note          `json:"notes,omitempty"`      // about what was rendered in this run
	// Exceptions are the rules that the request set aside for this environment. The commits record them.
	Exceptions []string `json:"exceptions,omitempty"`

	policyExceptions []string      // for the commits' trailers
	unmergedAt       gitstore.Hash // tip of the trunk, if the commit is written although it is not merged
}

// ObjectCounts are numbers of objects against the branch before.
type ObjectCounts struct {
	Total   int `json:"total"`
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
}

// ClusterResult is a cluster branch that moved.
type ClusterResult struct {
	Cluster string `json:"cluster"`
	Branch  string `json:"branch"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"` // "" if it was deleted
}

// OK says that every environment is what the commit says.
func (r *Result) OK() bool {
	return !slices.ContainsFunc(r.Environments, func(e EnvironmentResult) bool { return !e.Status.OK() })
}

// Summary describes the result in one line: "dev: updated, 7 targets (1 rendered); 2 objects changed; 1 cluster branch moved".
func (e *EnvironmentResult) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Name, e.Status)
	if e.Targets > 0 {
		fmt.Fprintf(&b, ", %s (%d rendered)", Count(e.Targets, "target"), e.Rendered)
	}
	if e.Status.OK() {
		if changes := e.Objects.changes(); changes != "" {
			b.WriteString("; " + changes)
		}
		if len(e.Clusters) > 0 {
			b.WriteString("; " + Count(len(e.Clusters), "cluster branch") + " moved")
		}
	}
	if e.Reason != "" {
		b.WriteString("; " + e.Reason)
	}
	return b.String()
}

// changes describes what differs from the branch: "2 objects added, 1 changed"; "" if nothing does.
func (c ObjectCounts) changes() string {
	var parts []string
	for _, one := range []struct {
		n    int
		verb string
	}{{c.Added, "added"}, {c.Changed, "changed"}, {c.Removed, "removed"}} {
		switch {
		case one.n == 0:
		case len(parts) == 0:
			parts = append(parts, Count(one.n, "object")+" "+one.verb)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.verb))
		}
	}
	return strings.Join(parts, ", ")
}
