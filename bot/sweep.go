package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
)

// reviewOpen enqueues the reviews of the open merge requests into the trunk, except those that the trunk's new commits do not concern.
func (j *job) reviewOpen(ctx context.Context, trunk string) error {
	open, err := j.forge.OpenMergeRequests(ctx, j.place.Repo(), trunk)
	if err != nil {
		return err
	}
	tips := map[string]gitstore.Commit{}
	for _, mr := range open {
		if j.unchanged(ctx, mr, tips) {
			continue
		}
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: mr.Number}); err != nil {
			return err
		}
	}
	return nil
}

// sweep enqueues hints for events whose webhooks may be lost: open merge requests that changed since their last
// review, the trunk, closed merge requests that are listed as open or have a preview, and commands. It continues after errors. A sweep that
// finds no change sends two requests to the forge, whatever the number of merge requests.
func (j *job) sweep(ctx context.Context) error {
	began := j.Clock()
	open, err := j.forge.OpenMergeRequests(ctx, j.place.Repo(), "")
	if err != nil {
		return err
	}
	j.listings.replace(j.place, began, open)
	tips := map[string]gitstore.Commit{}
	for _, mr := range open {
		if j.unchanged(ctx, mr, tips) {
			continue
		}
		// A review that takes longer than the time between sweeps has not finished yet: another hint would begin it again, for ever.
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: mr.Number, Unless: true}); err != nil {
			return err
		}
	}
	if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Trunk, Force: true}); err != nil { // also what the fleet follows
		return err
	}
	if err := errors.Join(enqueueClosed(ctx, j, open), enqueueSweeps(ctx, j, j.uses.sweptWith(j.place))); err != nil {
		return err
	}
	err = j.enqueueClosedPreviews(ctx, open)
	if errors.Is(err, ErrRefused) { // the task of the trunk reports it
		err = nil
	}
	return errors.Join(j.recoverCommands(ctx), err)
}

// unchanged reports whether the last review of a merge request had the same head, labels and dependencies, and no later commit of
// the target branch concerns it. tips caches the tips of branches during a sweep. A merge request that was not
// reviewed, or that waits for trust, counts as changed.
func (j *job) unchanged(ctx context.Context, mr *forge.MergeRequest, tips map[string]gitstore.Commit) bool {
	if j.recall(retiredKey(mr.Number)) != retiredState(j) {
		return false
	}
	identity, known := identityNow(ctx, j, mr)
	if !known {
		return false
	}
	limited := j.seen(limitKey(mr.Number), limitState(mr, identity))
	if same, err := stands(ctx, j, mr, verdictOwn, identity); err != nil || !same {
		return false // the review reports the error
	}
	if limited && len(j.uses.of(j.place)) == 0 {
		return true
	}
	if !limited && (j.recall(reviewKey(mr.Number)) == "" || repeatsUnreached(j, mr, verdictOwn)) || j.open(ctx) != nil { // the review reports why the repository cannot be opened
		return false
	}
	tip, known := tips[mr.TargetBranch]
	if !known {
		var err error
		if tip, err = j.space.Commits.Revision(ctx, "refs/heads/"+mr.TargetBranch); err != nil {
			return false // the review reports it
		}
		tips[mr.TargetBranch] = tip
	}
	return companionsUnchanged(ctx, j, mr, tip.Hash, identity) && (limited || j.reviewedAt(ctx, mr, tip, identity))
}

// reviewState returns what the review of a merge request depends on, apart from its target's policy. identity is that of its dependencies.
func reviewState(mr *forge.MergeRequest, target gitstore.Hash, identity string) string {
	return mr.Head + " into " + mr.TargetBranch + " at " + target.String() + " " + strings.Join(mr.Labels, ",") + "\n" + identity
}

// enqueueClosed enqueues merge requests that the reports list as open although they are not, because the webhook of their closing was lost.
func enqueueClosed(ctx context.Context, j *job, open []*forge.MergeRequest) error {
	for _, number := range j.Reports.OpenRequests(j.place) {
		if numbered(open, number) != nil {
			continue
		}
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: number}); err != nil {
			return err
		}
	}
	return nil
}

// enqueueClosedPreviews enqueues merge requests that are not open but still have a preview, because the webhook of
// their closing was lost.
func (j *job) enqueueClosedPreviews(ctx context.Context, open []*forge.MergeRequest) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	branches, err := j.space.Reviews.Previews(ctx, previewPrefix)
	if errors.Is(err, ErrRefused) {
		return nil // none can exist where Sluice may not write
	}
	if err != nil {
		return fmt.Errorf("list previews: %w", err)
	}
	for _, branch := range branches {
		number, err := strconv.Atoi(strings.TrimPrefix(branch, previewPrefix))
		if err != nil || number <= 0 || slices.ContainsFunc(open, func(mr *forge.MergeRequest) bool { return mr.Number == number }) {
			continue
		}
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: number, Force: true}); err != nil {
			return err
		}
	}
	return nil
}
