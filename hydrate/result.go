package hydrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/internal/lru"
)

// Request configures a run of Hydrate.
type Request struct {
	Commit       gitstore.Commit
	Environments []string // environments to write; empty: all that follow the trunk
	Write        bool     // move branches; otherwise the run changes nothing
	NoCache      bool     // render every target
	// AllowUnmerged lists environments that may be written from a commit that the trunk does not contain.
	AllowUnmerged []string
	AllowPolicy   []string // policy rules whose violations do not forbid the change
	Reason        string   // reason for AllowPolicy, recorded in the commits
	Prune         bool     // delete the branches of retired and removed clusters
	Recreate      bool     // recreate branches that somebody deleted
	Overwrite     bool     // commit on top of commits that Sluice did not make
	MaxDeletions  int      // limit of deleted objects per environment; 0: the fleet's setting
	PerPush       int      // refs in one push; 0: no limit
	// Checked keeps the results of environments that a run does not write, so that one that waits for a promotion is
	// rendered once for each commit and not in every run. Runs for several repositories may share it. Nil keeps none.
	Checked *lru.Cache[EnvironmentResult]
}

// Status of an environment after a run.
type Status string

// The statuses. With the last four, the environment is not at the commit.
const (
	StatusUpdated    Status = "updated"
	StatusUnchanged  Status = "unchanged"
	StatusChecked    Status = "checked"    // rendered, not written: it does not follow the trunk
	StatusElsewhere  Status = "elsewhere"  // another repository has the environment: this one is the site of another
	StatusPlanned    Status = "planned"    // what a run without --dry-run would write
	StatusSuperseded Status = "superseded" // the branch has a newer commit already
	StatusFailed     Status = "failed"     // targets could not be rendered
	StatusRefused    Status = "refused"    // a safety rule forbids it
	StatusConflict   Status = "conflict"   // another process moved a branch, twice
	StatusRejected   Status = "rejected"   // the server rejected the push
)

// OK reports whether the environment is at the commit or, in a dry run, would be.
func (s Status) OK() bool {
	switch s {
	case StatusFailed, StatusRefused, StatusConflict, StatusRejected:
		return false
	}
	return true
}

// Result is the result of a run.
type Result struct {
	Source       string              `json:"source"`
	Environments []EnvironmentResult `json:"environments"`
	Warnings     fleet.Problems      `json:"warnings,omitempty"`
}

// EnvironmentResult is the result for one environment.
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
	Clusters   []ClusterResult `json:"clusters,omitempty"` // clusters whose branches moved
	Failures   []Failure       `json:"failures,omitempty"`
	Violations []Violation     `json:"violations,omitempty"` // of the policy, which forbid the change
	Held       []HeldWorkspace `json:"held,omitempty"`       // workspaces that keep what the branch has
	Notes      []Note          `json:"notes,omitempty"`      // about targets that this run rendered
	// Exceptions are the policy rules that the request allowed for this environment. The commits record them.
	Exceptions []string `json:"exceptions,omitempty"`

	policyExceptions []string      // for the commits' trailers
	unmergedAt       gitstore.Hash // tip of the trunk, if the commit is unmerged and allowed
}

// refusal turns the errors of admit into the environment's status, and returns any other error.
func (e *EnvironmentResult) refusal(err error) error {
	if refused, ok := errors.AsType[*admit.RefusedError](err); ok {
		e.Status, e.Reason = StatusRefused, refused.Reason
		return nil
	}
	if promoted, ok := errors.AsType[*admit.PromotedError](err); ok {
		e.Status, e.Reason = StatusRefused, promoted.Error()
		return nil
	}
	if superseded, ok := errors.AsType[*admit.SupersededError](err); ok {
		e.Status, e.Reason = StatusSuperseded, superseded.Reason
		return nil
	}
	return err
}

// ObjectCounts are numbers of objects compared with the branch.
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
	New     string `json:"new,omitempty"` // "" if the branch was deleted
}

// OK reports whether every environment is at the commit, with every workspace.
func (r *Result) OK() bool {
	return !slices.ContainsFunc(r.Environments, func(e EnvironmentResult) bool {
		return !e.Status.OK() ||
			len(e.Held) > 0
	})
}

// Summary describes the result in one line: "dev: updated, 7 targets (1 rendered); 2 objects changed; 1 cluster branch
// moved".
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
	for _, h := range e.Held {
		b.WriteString("; workspace " + h.Workspace + " held: " + h.Reason)
	}
	if e.Reason != "" {
		b.WriteString("; " + e.Reason)
	}
	return b.String()
}

// changes describes the changed objects: "2 objects added, 1 changed". It returns "" if none changed.
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
