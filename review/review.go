// Package review reviews a change: it renders and compares both sides, judges the difference by the policy of the
// trunk, and returns one verdict with the report. It knows no forge; package publish posts the report.
//
// A Reviewer reviews. Local reviews in this process. Isolated lets a worker process review, which has no credential, no
// network, and no file except cached schemas, because anybody can write the content of a merge request. Cached
// remembers results. A Request has the same form for all of them, and as JSON for the worker.
//
// The package is not API: it can change in every release.
package review

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
)

// Reviewer reviews changes.
type Reviewer interface {
	// Review compares two states and judges the difference. Problems of the change itself, such as an unreadable fleet
	// or a broken policy, are in the result; an error means that there is no review. One that wraps ErrStopped occurs
	// again for the same request.
	Review(ctx context.Context, r Request) (*Result, error)
}

// Request asks for a review. Its JSON form is the input of the worker process.
type Request struct {
	compare.Request
	// tree of the source commit whose policy and signers of charts apply; zero: nothing is judged
	Policy     gitstore.Hash
	BoundsOnly bool  // of the policy, judge only the bounds of workspaces
	Entire     bool  // judge entire environments, not only changed objects
	Offline    bool  // fetch no schemas
	Images     bool  // look for new images in their registries, as spec.images asks; not for an untrusted change
	Pins       []Pin // changes of other repositories that are rendered together with this one
	Trusted    bool  // somebody with write access wrote the change, so charts may be fetched with credentials
}

// Result is a finished review.
type Result struct {
	Review  *report.Review
	Preview *compare.PreviewResult // nil unless the request asks for one
}

// ErrStopped classifies a review that exceeded a limit. The same head would exceed it again.
var ErrStopped = errors.New("the review was stopped")

// verdict returns the verdict that follows from the contents of a review: the worst that applies.
func verdict(r *report.Review) report.Verdict {
	if len(r.Errors) > 0 || r.Changes == nil {
		return report.VerdictError
	}
	failsAtHead := func(w diff.Withheld) bool { return !w.Before }
	switch {
	case slices.ContainsFunc(r.Changes.Withheld, failsAtHead):
		return report.VerdictError
	case r.Changes.Uncertain() > 0:
		return report.VerdictError
	case r.Findings.Count(report.SeverityError) > 0:
		return report.VerdictFail
	case report.Critical(r.Changes), len(r.Changes.Withheld) > 0:
		// what a target loses that fails at the base is unknown
		return report.VerdictCaution
	case r.Findings.Count(report.SeverityWarning) > 0:
		return report.VerdictWarn
	}
	return report.VerdictPass
}
