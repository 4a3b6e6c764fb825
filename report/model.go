// Package report writes the review of a merge request for people: as the comment on the merge request and for a
// terminal. It owns the words, the order and the limits of a report, and the escaping: names and values are shown,
// and no forge, terminal or log acts on them.
//
// The package is pure. It does not render, compare or judge, does not read a clock, and never receives an unmasked
// secret: diff masks them. Data flows one way, from a Review to text. The sub-packages page and data write
// the same Review as HTML and as JSON, SARIF and JUnit.
//
// The package is API: docs/architecture.md says how stable it is.
package report

import (
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Review is the result of one comparison. Equal reviews give equal reports, byte for byte.
type Review struct {
	Fleet        string       `json:"fleet"`                // the fleet's name
	Repository   string       `json:"repository,omitempty"` // owner/name on the forge
	MergeRequest MergeRequest `json:"mergeRequest,omitzero"`
	Base         string       `json:"base"` // commits, in full
	Head         string       `json:"head"`
	// the branch that the head is compared with, instead of Base
	Against  string          `json:"against,omitempty"`
	Helm     int             `json:"helm,omitempty"`    // the head is the base as if this version of Helm rendered it
	Version  string          `json:"version"`           // of Sluice
	Changes  *diff.ChangeSet `json:"changes,omitempty"` // nil if the comparison failed: see Errors
	Findings Findings        `json:"findings"`
	Warnings []string        `json:"warnings,omitempty"` // of the fleet's files
	Errors   []string        `json:"errors,omitempty"`   // why the comparison failed
	// rendering used up the review's time: Changes.Withheld lists the targets that were not rendered
	Stopped bool           `json:"stopped,omitempty"`
	Verdict Verdict        `json:"verdict"`
	Links   Links          `json:"links,omitzero"`
	Since   *Delta         `json:"since,omitempty"` // what is new since the last reviewed head
	Rollout []RolloutRow   `json:"rollout,omitempty"`
	Log     []CommandEntry `json:"log,omitempty"`
	// Scope are the targets that the change can affect; nil if they are unknown. It is not part of the report.
	Scope []fleet.AffectedTarget `json:"-"`
	// Unreached says that the review is incomplete because a server with content could not be reached: another review
	// can be complete. It is not part of the report.
	Unreached bool `json:"-"`
	// Unjudged says that no policy judged the change, since what it comes from is not here. The verdict is caution. It is
	// not part of the report.
	Unjudged bool `json:"-"`
	// Routine says whether the change may be merged without a reader; nil if the fleet does not say what is routine.
	Routine *Routine `json:"routine,omitempty"`
	// Companions are the merge requests that this one depends on.
	Companions []Companion `json:"companions,omitempty"`
	// Pins are the other repositories that the change of sluice.lock pins to other commits, by name.
	Pins []Pin `json:"pins,omitempty"`
	// Upgrade is what the change means for clusters that it gives a newer version of Kubernetes; nil if it gives none.
	Upgrade *Upgrade `json:"upgrade,omitempty"`
	// Waits is what the merge request waits for although the change itself may be merged; "" if it waits for nothing.
	Waits  string      `json:"waits,omitempty"`
	Marker *MarkerInfo `json:"-"` // the hidden first line of the comment; nil for none. Markdown fills in Digest
}

// Routine is the class of a change by spec.routine of the fleet.
type Routine struct {
	Routine bool   `json:"routine"`
	Why     string `json:"why"` // what makes it routine, or the first thing that does not
}

// MergeRequest names the reviewed merge request. The zero value stands for a comparison without one.
type MergeRequest struct {
	Number int    `json:"number,omitempty"`
	URL    string `json:"url,omitempty"`
	Title  string `json:"title,omitempty"`
	Forge  string `json:"forge,omitempty"` // github, gitlab or gitea; "" if unknown
}

// Companion is a merge request that another one depends on.
type Companion struct {
	Name string `json:"name"`           // acme/components#7
	Head string `json:"head,omitempty"` // commit, in full
	Part string `json:"part"`           // its state, and how it takes part in the review
	// Repository, as FORGE:PATH, is one that a reader of the report must be able to read, because the report has its
	// content; "" if there is none. It is not part of the report.
	Repository string `json:"-"`
}

// Pin is another repository whose pinned commit a change moves.
type Pin struct {
	Name string `json:"name"`
	From string `json:"from"` // commits, in full
	To   string `json:"to"`
	// Targets is the number of targets whose inputs this move alone changes; absent if it is not known. A target that
	// several moves change counts for each of them.
	Targets *int `json:"targets,omitempty"`
}

// Verdict says whether the change may be merged.
type Verdict string

// The verdicts.
const (
	VerdictPass    Verdict = "pass"    // no findings, no critical effects
	VerdictWarn    Verdict = "warn"    // new warnings, no critical effects
	VerdictCaution Verdict = "caution" // critical effects: policy allows the change, a person must decide
	VerdictFail    Verdict = "fail"    // new findings of severity error
	VerdictError   Verdict = "error"   // something cannot be rendered or compared; the review is incomplete
)

// Severity of a finding.
type Severity string

// The severities, gravest first.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// Rank returns 0 for the gravest severity.
func (s Severity) Rank() int {
	switch s {
	case SeverityError:
		return 0
	case SeverityWarning:
		return 1
	}
	return 2
}

// Finding is a rule that one object breaks, on some clusters of one environment.
type Finding struct {
	Rule        string            `json:"rule"`
	Severity    Severity          `json:"severity"`
	Message     string            `json:"message"`
	Hint        string            `json:"hint,omitempty"` // the next step
	Path        string            `json:"path,omitempty"` // the field
	Object      manifest.Identity `json:"object,omitzero"`
	App         string            `json:"app,omitempty"`
	Environment string            `json:"environment,omitempty"`
	Clusters    []string          `json:"clusters,omitempty"`
	File        string            `json:"file,omitempty"` // of the source repository
	Line        int               `json:"line,omitempty"`
	Docs        string            `json:"docs,omitempty"` // URL of the rule's page; without it Links.Docs + rule
	Exemption   *Exemption        `json:"exemption,omitempty"`
}

// Exemption is why a finding does not count.
type Exemption struct {
	Reason string `json:"reason"`
	Until  string `json:"until,omitempty"` // a date, 2006-01-02; "" has no end
	File   string `json:"file,omitempty"`
}

// Findings are the findings of a review. Findings that exist before the change are only counted.
type Findings struct {
	Introduced []Finding        `json:"introduced"` // by severity, then by rule
	Existing   map[Severity]int `json:"existing,omitempty"`
	Resolved   []Finding        `json:"resolved,omitempty"`
	Exempted   int              `json:"exempted,omitempty"`
	Notes      []string         `json:"notes,omitempty"` // what was not checked, and why
	// Advisory says that hydration would write the change in spite of its errors: the fleet does not enforce the policy.
	Advisory bool `json:"advisory,omitempty"`
}

// Count returns the number of new findings of a severity.
func (f *Findings) Count(s Severity) int {
	n := 0
	for i := range f.Introduced {
		if f.Introduced[i].Severity == s {
			n++
		}
	}
	return n
}

// Links lead to more detail. All of them are optional; addresses other than http and https are not shown.
type Links struct {
	// the forge's view of the rendered files; forges show only the first few hundred files
	Full     string `json:"full,omitempty"`
	Artifact string `json:"artifact,omitempty"` // where the reports are stored
	HTML     string `json:"html,omitempty"`     // the HTML report
	Docs     string `json:"docs,omitempty"`     // where the rules' pages are: Docs + "/" + rule
	Base     string `json:"base,omitempty"`     // the base commit
	Head     string `json:"head,omitempty"`     // the head commit
	Command  string `json:"command,omitempty"`  // prints the complete report; "" is `sluice diff --full BASE..HEAD`
	Back     Link   `json:"-"`                  // the page that the HTML report belongs to
}

// Link is a page with its name. The zero value is none.
type Link struct{ Name, Address string }

// Delta compares the groups with those of an earlier head, by Group.ID.
type Delta struct {
	Commit  string   `json:"commit"` // the earlier head, in full
	New     []string `json:"new,omitempty"`
	Gone    []string `json:"gone,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// RolloutRow is the state of a merged commit in one environment.
type RolloutRow struct {
	Environment string    `json:"environment"`
	Commit      string    `json:"commit"` // in full; "" if none yet
	State       string    `json:"state"`
	Since       time.Time `json:"since,omitzero"`
	Waits       string    `json:"waits,omitempty"` // what it waits for
}

// CommandEntry is one command from a comment, with its outcome.
type CommandEntry struct {
	Who     string    `json:"who"`
	Command string    `json:"command"`
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at"`
}
