package bot

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/triage"
	"github.com/sluice-gitops/sluice/report"
)

// Triage decides by the rules of the trunk which labels a reviewed merge request has, and whose reviews it needs.
type Triage interface {
	Triage(ctx context.Context, r *report.Review) (triage.Plan, error)
}

// triage sets the labels of the merge request and asks for reviews, and adds what went wrong to the notes of the review.
// It returns the keys of all requests so far that it knows, for the comment. It does nothing if the merge request has another head by
// now. The error is one of the listing, or of the context.
func (t *reviewTask) triage(ctx context.Context, r *report.Review) (asked []string, err error) {
	if t.space.Triage == nil {
		return nil, nil
	}
	plan, err := t.space.Triage.Triage(ctx, r)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		t.log.Warn("labels and reviewers could not be decided", "merge_request", t.mr.Number, "error", err)
		return nil, nil
	case plan.Empty():
		return nil, nil
	}
	all, err := t.listings.open(ctx, t.forge, t.place)
	if err != nil {
		return nil, err
	}
	mr := numbered(all, t.mr.Number)
	if mr == nil || mr.Head != r.Head {
		return nil, nil // the comment is not written either
	}
	known := t.state(mr.Number).asked
	plan.Requests = slices.DeleteFunc(plan.Requests, func(q triage.Request) bool {
		return slices.Contains(known, q.Key())
	})
	result := triage.Apply(ctx, t.forge.Forge, t.place.Repo(), mr, plan, func(ctx context.Context) ([]string, error) {
		before, err := publish.Asked(ctx, t.forge, t.place.Repo(), mr.Number, "")
		known = before
		return before, err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, err := range result.Errors {
		t.log.Warn("spec.review", "merge_request", mr.Number, "error", err)
	}
	if len(result.Added)+len(result.Removed)+len(result.Asked) > 0 {
		t.log.Info("triaged", "merge_request", mr.Number, "labels_added", result.Added, "labels_removed", result.Removed,
			"asked", triage.Names(result.Asked))
	}
	r.Findings.Notes = append(r.Findings.Notes, result.Notes...)
	r.Unreached = r.Unreached || result.Later // so that a sweep tries again
	asked = slices.Concat(known, triage.Keys(result.Asked))
	t.update(mr.Number, func(s *headState) { s.asked, s.draft = asked, mr.Draft && len(plan.Requests) > 0 })
	return asked, nil
}
