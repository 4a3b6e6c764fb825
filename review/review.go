// Package review reviews a change: it renders and compares both sides, checks the differences against the policy of
// the base, and returns a report. It knows no forge; package publish posts the report.
package review

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
)

// Judge returns the findings of a comparison.
type Judge interface {
	Judge(ctx context.Context, c *compare.Comparison) (report.Findings, error)
}

// Options of a review.
type Options struct {
	Compare      compare.Request
	Judge        Judge // nil: no findings
	Fleet        string
	Version      string // of Sluice
	FindingsOnly bool   // the change set has only rendering errors
}

// Make makes the review. Problems of the change itself, such as an unreadable fleet, are in the review; an error
// means that there is no review. The preview is nil unless the request asks for one.
func Make(ctx context.Context, h *hydrate.Hydrator, o Options) (*report.Review, *compare.PreviewResult, error) {
	out := &report.Review{Fleet: o.Fleet, Base: hash(o.Compare.Base.Hash.String()), Head: hash(o.Compare.Head.Hash.String()), Version: o.Version, Verdict: report.VerdictPass}
	o.Compare.TargetsOnly = o.FindingsOnly
	c, err := compare.Run(ctx, h, o.Compare)
	if problems, broken := errors.AsType[fleet.Problems](err); broken {
		for _, p := range problems {
			if p.Severity == fleet.SeverityError {
				out.Errors = append(out.Errors, p.String())
			}
		}
		out.Verdict = report.VerdictError
		return out, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	out.Changes, out.Scope = c.Changes, c.Scope()
	for _, p := range c.Errors {
		out.Errors = append(out.Errors, p.String())
	}
	for _, p := range c.Warnings {
		out.Warnings = append(out.Warnings, p.String())
	}
	if o.Judge != nil {
		if out.Findings, err = o.Judge.Judge(ctx, c); err != nil {
			return nil, nil, fmt.Errorf("policy: %w", err)
		}
	}
	notes := c.Notes()
	if c.Frozen > 0 {
		notes = append(notes, frozenNote(c.Frozen))
	}
	out.Findings.Notes = append(notes, out.Findings.Notes...)
	out.Verdict = Verdict(out)
	return out, c.Preview, nil
}

func frozenNote(n int) string {
	if n == 1 {
		return "1 target on a frozen cluster does not change"
	}
	return fmt.Sprintf("%d targets on frozen clusters do not change", n)
}

// hash returns "" for the zero hash.
func hash(h string) string {
	if h == "0000000000000000000000000000000000000000" {
		return ""
	}
	return h
}

// Verdict returns the verdict that follows from the contents of a review.
func Verdict(r *report.Review) report.Verdict {
	switch {
	case len(r.Errors) > 0 || r.Changes == nil || slices.ContainsFunc(r.Changes.Withheld, func(w diff.Withheld) bool { return !w.Before }):
		return report.VerdictError
	case r.Findings.Count(report.SeverityError) > 0:
		return report.VerdictFail
	case report.Critical(r.Changes):
		return report.VerdictCaution
	case r.Findings.Count(report.SeverityWarning) > 0:
		return report.VerdictWarn
	}
	return report.VerdictPass
}
