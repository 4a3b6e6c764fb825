// Package data gives a review in the forms that programs read: JSON with a schema of its own, SARIF 2.1.0 and JUnit XML. It
// adds nothing to the review and leaves nothing out of it; equal reviews give equal bytes. It never shortens, and never escapes
// for people: that is package report's.
package data

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/sluice-gitops/sluice/bot/report"
)

// The version and kind of the JSON form. A field is never renamed or given another meaning under the same version.
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
}

// JSON writes the review as JSON.
func JSON(w io.Writer, r *report.Review) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(Document{APIVersion: APIVersion, Kind: Kind, Review: *withLists(r)})
}

// withLists has an empty list where the review has none: a program that reads it need not ask.
func withLists(r *report.Review) *report.Review {
	out := *r
	out.Findings.Introduced = list(r.Findings.Introduced)
	if r.Changes == nil {
		return &out
	}
	changes := *r.Changes
	changes.Groups, changes.Withheld, changes.Apps = list(changes.Groups), list(changes.Withheld), list(slices.Clone(changes.Apps))
	for i := range changes.Apps {
		changes.Apps[i].Where = list(changes.Apps[i].Where)
	}
	out.Changes = &changes
	return &out
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
