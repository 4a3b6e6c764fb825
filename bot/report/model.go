// Package report turns the review of a merge request into text that people read: the comment on the merge request and the
// terminal's form. It owns the words, the order and the limits of a report and the escaping that keeps it inert: whatever a
// name or a value holds, the reader sees it and nothing acts on it.
//
// It is pure. It must never render, compare or judge anything itself, never read a clock, and never hold a value that was
// not masked before: masking is done once, in hydrate/diff. Data passes through in one direction, from a Review to text;
// the sub-packages page and data give the same Review as HTML and as JSON, SARIF and JUnit.
package report

import (
	"time"

	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Review is all that is said of one comparison. Equal reviews give equal reports, byte for byte.
type Review struct {
	Fleet        string          `json:"fleet"`                // the fleet's name
	Repository   string          `json:"repository,omitempty"` // owner/name on the forge
	MergeRequest MergeRequest    `json:"mergeRequest,omitzero"`
	Base         string          `json:"base"` // commits, in full
	Head         string          `json:"head"`
	Against      string          `json:"against,omitempty"` // the branch, if the head is compared with what a branch holds
	Version      string          `json:"version"`           // of Sluice
	Changes      *diff.ChangeSet `json:"changes,omitempty"` // nil if no comparison could be made: see Errors
	Findings     Findings        `json:"findings"`
	Warnings     []string        `json:"warnings,omitempty"` // of the fleet's files
	Errors       []string        `json:"errors,omitempty"`   // what keeps the whole review from being made
	Verdict      Verdict         `json:"verdict"`
	Links        Links           `json:"links,omitzero"`
	Since        *Delta          `json:"since,omitempty"` // what is new since the last review of the merge request
	Journey      []JourneyRow    `json:"journey,omitempty"`
	Log          []CommandEntry  `json:"log,omitempty"`
	Marker       *MarkerInfo     `json:"-"` // names the comment in its hidden first line; nil for none. Markdown fills in Digest
}

// MergeRequest names what is reviewed on the forge. The zero value: no merge request, a comparison on a laptop.
type MergeRequest struct {
	Number int    `json:"number,omitempty"`
	URL    string `json:"url,omitempty"`
	Title  string `json:"title,omitempty"`
	Forge  string `json:"forge,omitempty"` // github or gitlab; "" if unknown
}

// Verdict is the answer to "may this be merged".
type Verdict string

// The verdicts.
const (
	VerdictPass  Verdict = "pass"  // nothing forbids it
	VerdictWarn  Verdict = "warn"  // warnings, no errors
	VerdictFail  Verdict = "fail"  // new findings of severity error
	VerdictError Verdict = "error" // something could not be rendered or compared: nothing is vouched for
)

// Severity of a finding.
type Severity string

// The severities, gravest first.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// Rank is 0 for the gravest.
func (s Severity) Rank() int {
	switch s {
	case SeverityError:
		return 0
	case SeverityWarning:
		return 1
	}
	return 2
}

// Finding is one breach of one rule by one object, on some clusters.
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

// Exemption is what lets a finding pass.
type Exemption struct {
	Reason string `json:"reason"`
	Until  string `json:"until,omitempty"` // a date, 2006-01-02; "" is for ever
	File   string `json:"file,omitempty"`
}

// Findings of a review. Those that were there before are counted apart.
type Findings struct {
	Introduced []Finding        `json:"introduced"` // by severity, then by rule
	Existing   map[Severity]int `json:"existing,omitempty"`
	Resolved   []Finding        `json:"resolved,omitempty"`
	Exempted   int              `json:"exempted,omitempty"`
	Notes      []string         `json:"notes,omitempty"` // what could not be checked, and why
}

// Count counts the new findings of a severity.
func (f *Findings) Count(s Severity) int {
	n := 0
	for i := range f.Introduced {
		if f.Introduced[i].Severity == s {
			n++
		}
	}
	return n
}

// Links lead to more than the report holds. All of them are optional and must be http or https; others are not shown.
type Links struct {
	Full     string `json:"full,omitempty"`     // the forge's compare view of the rendered branches
	Artifact string `json:"artifact,omitempty"` // where the reports are stored
	HTML     string `json:"html,omitempty"`     // the HTML report
	Docs     string `json:"docs,omitempty"`     // where the rules' pages are: Docs + "/" + rule
	Base     string `json:"base,omitempty"`     // the base commit
	Head     string `json:"head,omitempty"`     // the head commit
	Command  string `json:"command,omitempty"`  // shows everything on a laptop; "" is `sluice diff BASE..HEAD`
}

// Delta is what became of the groups since the last review, by Group.ID.
type Delta struct {
	Commit  string   `json:"commit"` // head of the last review, in full
	New     []string `json:"new,omitempty"`
	Gone    []string `json:"gone,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// JourneyRow says where a merged commit stands in one environment.
type JourneyRow struct {
	Environment string    `json:"environment"`
	Commit      string    `json:"commit"` // in full; "" if none yet
	State       string    `json:"state"`
	Since       time.Time `json:"since,omitzero"`
	Waits       string    `json:"waits,omitempty"` // for what
}

// CommandEntry is one command that was given in a comment, and what came of it.
type CommandEntry struct {
	Who     string    `json:"who"`
	Command string    `json:"command"`
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at"`
}
