package bot

import (
	"context"
	"errors"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/report"
)

// stoppedReview reports that the review of a head exceeded a limit: first in the comment, which has room for the whole reason, then in the
// status. Without the comment, an earlier review would stand there as if it were that of this head.
func stoppedReview(ctx context.Context, j *job, mr *forge.MergeRequest, deps *dependencies, why string) error {
	r := &report.Review{Repository: j.place.Repo().Path, Head: mr.Head, Verdict: report.VerdictError, Errors: []string{why}}
	r.MergeRequest.Number, r.MergeRequest.URL, r.MergeRequest.Title = mr.Number, mr.URL, mr.Title
	deps.show(r, j.place)
	var outcome publish.Outcome
	err := commenting(ctx, j, mr.Number, func(ctx context.Context) (err error) {
		outcome, err = publish.Comment(ctx, j.forge, j.place.Repo(), mr, r, publish.Options{URL: mr.URL})
		return err
	})
	switch {
	case ctx.Err() != nil: // the status is missing, also if the comment was written all the same: the queue repeats the task
		return errors.Join(ctx.Err(), err)
	case err != nil: // the review is too expensive to be repeated for a comment: the status has the beginning of the reason
		j.log.Warn("the comment does not say why the review was stopped", "merge_request", mr.Number, "head", mr.Head, "why", why, "error", err)
	case outcome == publish.Superseded:
		return j.behind(mr.Number)
	}
	identity := deps.identity()
	if err := cannotReview(ctx, j, mr, why, verdictBasis(mr, identity)); err != nil {
		return err
	}
	j.remember(limitKey(mr.Number), limitState(mr, identity)) // no further review until the head changes or somebody comments /sluice retry
	return nil
}
