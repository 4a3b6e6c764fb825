package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
)

// sweepTask enqueues hints for what changed.
type sweepTask struct {
	*task
	tips map[string]gitstore.Commit // of target branches
}

// reviewOpen enqueues the reviews of the open merge requests into the trunk, except those that the trunk's new commits
// do not concern.
func (t *sweepTask) reviewOpen(ctx context.Context, trunk string) error {
	open, err := t.forge.OpenMergeRequests(ctx, t.place.Repo(), trunk)
	if err != nil {
		return err
	}
	for _, mr := range open {
		if t.unchanged(ctx, mr) {
			continue
		}
		if err := t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Review, Number: mr.Number}); err != nil {
			return err
		}
	}
	return nil
}

// run enqueues hints for events whose webhooks may be lost: open merge requests that changed since their last review,
// the trunk, closed merge requests that are listed as open or have a preview, and commands. It continues after errors.
// A sweep that finds no change sends two requests to the forge, whatever the number of merge requests.
func (t *sweepTask) run(ctx context.Context) error {
	began := t.Clock()
	open, err := t.forge.OpenMergeRequests(ctx, t.place.Repo(), "")
	if err != nil {
		return err
	}
	t.listings.replace(t.place, began, open)
	for _, mr := range open {
		if t.unchanged(ctx, mr) {
			continue
		}
		// A review that takes longer than the time between sweeps has not finished yet: another hint would begin it
		// again, for ever.
		if err := t.Enqueue(ctx, hint.Hint{
			Place: t.place, Kind: hint.Review, Number: mr.Number,
			Unless: true,
		}); err != nil {
			return err
		}
	}
	// also what the fleet follows
	if err := t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Trunk, Force: true}); err != nil {
		return err
	}
	if err := errors.Join(t.enqueueClosed(ctx, open), t.enqueueSweeps(ctx, t.uses.SweptWith(t.place))); err != nil {
		return err
	}
	err = t.enqueueClosedPreviews(ctx, open)
	if errors.Is(err, ErrRefused) { // the task of the trunk reports it
		err = nil
	}
	return errors.Join(t.recoverCommands(ctx), err)
}

// unchanged reports whether the last review of a merge request had the same head, labels and dependencies, and no later
// commit of the target branch concerns it. A merge request that was not reviewed, or that waits for trust, counts as
// changed.
func (t *sweepTask) unchanged(ctx context.Context, mr *forge.MergeRequest) bool {
	state := t.state(mr.Number)
	if state.retired != t.retiredState() || state.draft && !mr.Draft {
		return false
	}
	identity, known := t.dependenciesNow(ctx, mr)
	if !known {
		return false
	}
	review := &reviewTask{task: t.task, mr: mr, identity: identity}
	if same, err := t.status(mr, verdictOwn).hasBasis(ctx, identity); err != nil || !same {
		return false // the review reports the error
	}
	limited := state.own.limit == review.limit()
	if limited && len(t.uses.Of(t.place)) == 0 {
		return true
	}
	if !limited && (state.own.input == input{} || state.own.lacks.due(mr.Head, t.Clock())) {
		return false
	}
	var err error
	if review.target, err = t.tipOf(ctx, mr.TargetBranch); err != nil {
		return false // the review reports it
	}
	return review.currentForFleets(ctx) && (limited || review.current(ctx))
}

// tipOf returns the tip of a branch, which it fetches once.
func (t *sweepTask) tipOf(ctx context.Context, branch string) (gitstore.Commit, error) {
	if tip, ok := t.tips[branch]; ok {
		return tip, nil
	}
	if err := t.open(ctx); err != nil {
		return gitstore.Commit{}, err
	}
	tip, err := t.space.Commits.Revision(ctx, "refs/heads/"+branch)
	if err != nil {
		return gitstore.Commit{}, err
	}
	if t.tips == nil {
		t.tips = map[string]gitstore.Commit{}
	}
	t.tips[branch] = tip
	return tip, nil
}

// enqueueClosed enqueues merge requests that the reports list as open although they are not, because the webhook of
// their closing was lost.
func (t *sweepTask) enqueueClosed(ctx context.Context, open []*forge.MergeRequest) error {
	for _, number := range t.Reports.OpenRequests(t.place) {
		if numbered(open, number) != nil {
			continue
		}
		if err := t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Review, Number: number}); err != nil {
			return err
		}
	}
	return nil
}

// enqueueClosedPreviews enqueues merge requests that are not open but still have a preview, because the webhook of
// their closing was lost.
func (t *sweepTask) enqueueClosedPreviews(ctx context.Context, open []*forge.MergeRequest) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	branches, err := t.space.Reviews.Previews(ctx, previewPrefix)
	if errors.Is(err, ErrRefused) {
		return nil // none can exist where Sluice may not write
	}
	if err != nil {
		return fmt.Errorf("list previews: %w", err)
	}
	for _, branch := range branches {
		number, err := strconv.Atoi(strings.TrimPrefix(branch, previewPrefix))
		if err != nil || number <= 0 || slices.ContainsFunc(open,
			func(mr *forge.MergeRequest) bool { return mr.Number == number }) {
			continue
		}
		if err := t.Enqueue(ctx, hint.Hint{
			Place: t.place, Kind: hint.Review, Number: number,
			Force: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

// fresh is the age up to which a sweep executes a command whose webhook was lost.
const fresh = time.Hour

// recoverCommands enqueues comments with commands whose webhooks were lost. Such a comment is refused if it was edited,
// because the editor may be another person than the author.
func (t *sweepTask) recoverCommands(ctx context.Context) error {
	now := t.Clock()
	recent, err := t.forge.RecentMergeRequests(ctx, t.place.Repo(), now.Add(-fresh))
	if err != nil || len(recent) == 0 {
		return err
	}
	self, err := t.forge.Self(ctx)
	if err != nil {
		return err
	}
	for _, mr := range recent {
		if t.state(mr.Number).commands.Equal(mr.Updated) {
			continue
		}
		all, err := t.forge.Comments(ctx, t.place.Repo(), mr.Number)
		if err != nil {
			return err
		}
		handled := publish.Handled(self, all)
		for _, c := range all {
			if now.Sub(c.Created) > fresh || c.Author.Bot || strings.EqualFold(c.Author.Login, self.Login) ||
				slices.Contains(handled, c.ID) {
				continue
			}
			if commands, problems := command.Parse(c.Body); len(commands)+len(problems) == 0 {
				continue
			}
			if err := t.Enqueue(ctx, hint.Hint{
				Place: t.place, Kind: hint.Comment, Number: mr.Number,
				Comment: c.ID,
			}); err != nil {
				return err
			}
		}
		if now.Sub(mr.Updated) > time.Minute { // the forge's timestamps are coarse, and its clock may differ
			t.update(mr.Number, func(s *headState) { s.commands = mr.Updated })
		}
	}
	return nil
}
