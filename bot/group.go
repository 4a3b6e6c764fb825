package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/review"
)

// group reviews a merge group of GitHub's merge queue, which is the trunk after the merge. It writes the verdict to
// the group's commit, where the queue reads it, and no comment. The group needs no trust, because only people with
// write access add a merge request to the queue.
func (t *task) group(ctx context.Context) error {
	branch, ok := groupTarget(t.hint.Ref)
	if !ok {
		return nil
	}
	if err := t.open(ctx); err != nil {
		return err
	}
	head, err := t.space.Commits.Revision(ctx, "refs/heads/"+t.hint.Ref)
	if errors.Is(err, gitstore.ErrNotFound) {
		return nil // merged or removed from the queue meanwhile
	}
	if err != nil {
		return err
	}
	target, err := t.space.Commits.Revision(ctx, "refs/heads/"+branch)
	if err != nil {
		return fmt.Errorf("target branch %s: %w", branch, err)
	}
	uses := t.uses.Of(t.place)
	fleetless := t.absent(ctx, target) && t.absent(ctx, head)
	if fleetless && len(uses) == 0 {
		return nil
	}
	key, state := "group/"+t.hint.Ref, head.Hash.String()+" on "+target.Hash.String()
	if t.seen(key, state) && !t.hint.Force {
		return nil
	}
	base, err := t.space.Commits.MergeBase(ctx, target, head)
	if err != nil {
		return err
	}
	if len(uses) > 0 {
		if err := t.fleetReviews(uses, fleetless, nil).reviewGroup(ctx, branch,
			CompanionRequest{Base: base.Hash, Head: head.Hash, Trusted: true, From: t.place}); err != nil {
			return err
		}
	}
	if fleetless {
		t.remember(key, state)
		return nil
	}
	request := review.Request{Trusted: true}
	request.Base, request.Head = base, head
	result, err := t.space.Reviews.Review(ctx, request)
	if err != nil {
		return err
	}
	result.Review.Repository = t.place.Repo().Path
	if err := publish.Status(ctx, t.forge, t.place.Repo(), result.Review,
		publish.Options{Context: t.contextFor(ctx, branch), Checks: t.settings.Checks}); err != nil {
		return err
	}
	t.log.Info("reviewed", "group", t.hint.Ref, "head", head.Hash.String())
	t.remember(key, state)
	return nil
}

// groupTarget returns the target branch of a group: main for gh-readonly-queue/main/pr-7-<commit>.
func groupTarget(ref string) (string, bool) {
	rest, ok := strings.CutPrefix(ref, "gh-readonly-queue/")
	i := strings.LastIndex(rest, "/pr-")
	if !ok || i <= 0 {
		return "", false
	}
	return rest[:i], true
}
