// Package data writes a review for programs: as JSON with its own schema, as SARIF 2.1.0 and as JUnit XML. The JSON
// form contains the complete review without escaping; SARIF and JUnit contain the findings and escape what a viewer
// would interpret. Equal reviews give equal bytes.
//
// The package is not API: it can change in every release.
package data

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
)

// The version and kind of the JSON form. Under one version, fields keep their names and meanings.
const (
	APIVersion = "sluice.dev/v1alpha1"
	Kind       = "Review"
)

// Document is the JSON form: docs/schema/review.json describes it.
type Document struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is Review.
	Kind string `json:"kind" jsonschema:"required,enum=Review"`
	report.Review
	// Entries are the changes in the order of the reports. Groups of several apps are one entry if the change is the same.
	Entries []Entry `json:"entries,omitempty"`
}

// Entry is one change: a group, with the groups of other apps on which the change is the same.
type Entry struct {
	// Groups are the ids of the groups in changes.groups, one for each app.
	Groups []string `json:"groups" jsonschema:"required"`
	// Apps are the apps of the groups, in their order.
	Apps []string `json:"apps" jsonschema:"required"`
	// Cause is the only changed place that all targets of these groups read; absent if there are several, or it is not
	// known.
	Cause *diff.Cause `json:"cause,omitempty"`
}

func entries(c *diff.ChangeSet) []Entry {
	if c == nil {
		return nil
	}
	groups := make([]*diff.Group, len(c.Groups))
	for i := range c.Groups {
		groups[i] = &c.Groups[i]
	}
	var out []Entry
	for _, e := range report.Entries(groups) {
		one := Entry{Apps: e.Apps(), Cause: e.Place()}
		for _, g := range e.Groups() {
			one.Groups = append(one.Groups, g.ID)
		}
		out = append(out, one)
	}
	return out
}

// JSON writes the review as JSON.
func JSON(w io.Writer, r *report.Review) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(Document{APIVersion: APIVersion, Kind: Kind, Review: *withLists(r), Entries: entries(r.Changes)})
}

// withLists returns a copy with empty lists instead of nil, so that readers of the JSON find a list in every case.
func withLists(r *report.Review) *report.Review {
	out := *r
	out.Findings.Introduced = list(r.Findings.Introduced)
	out.Changes = changeLists(r.Changes)
	return &out
}

func changeLists(c *diff.ChangeSet) *diff.ChangeSet {
	if c == nil {
		return nil
	}
	changes := *c
	changes.Groups, changes.Withheld, changes.Apps = list(changes.Groups), list(changes.Withheld),
		list(slices.Clone(changes.Apps))
	for i := range changes.Apps {
		changes.Apps[i].Where = list(changes.Apps[i].Where)
	}
	return &changes
}

// KindUpgrade is the kind of the JSON form of a plan.
const KindUpgrade = "UpgradePlan"

// UpgradeDocument is the JSON form of a plan: docs/schema/upgrade.json describes it.
type UpgradeDocument struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is UpgradePlan.
	Kind string `json:"kind" jsonschema:"required,enum=UpgradePlan"`
	report.Upgrade
}

// Upgrade returns the JSON form of a plan, with empty lists instead of nil.
func Upgrade(u *report.Upgrade) UpgradeDocument {
	out := *u
	out.Clusters, out.Issues, out.Changes = list(u.Clusters), list(u.Issues), changeLists(u.Changes)
	return UpgradeDocument{APIVersion: APIVersion, Kind: KindUpgrade, Upgrade: out}
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
