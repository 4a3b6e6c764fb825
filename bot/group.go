package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
)

// group reviews a merge group of GitHub's merge queue, which is the trunk after the merge. It writes the verdict to
// the group's commit, where the queue reads it, and no comment. The group needs no trust, because only people with
// write access add a merge request to the queue.
func (j *job) group(ctx context.Context) error {
	branch, ok := groupTarget(j.hint.Ref)
	if !ok {
		return nil
	}
	if err := j.open(ctx); err != nil {
		return err
	}
	head, err := j.space.Commits.Revision(ctx, "refs/heads/"+j.hint.Ref)
	if errors.Is(err, gitstore.ErrNotFound) {
		return nil // merged or removed from the queue meanwhile
	}
	if err != nil {
		return err
	}
	target, err := j.space.Commits.Revision(ctx, "refs/heads/"+branch)
	if err != nil {
		return fmt.Errorf("target branch %s: %w", branch, err)
	}
	uses := j.uses.of(j.place)
	fleetless := j.absent(ctx, target) && j.absent(ctx, head)
	if fleetless && len(uses) == 0 {
		return nil
	}
	key, state := "group/"+j.hint.Ref, head.Hash.String()+" on "+target.Hash.String()
	if j.seen(key, state) && !j.hint.Force {
		return nil
	}
	base, err := j.space.Commits.MergeBase(ctx, target, head)
	if err != nil {
		return err
	}
	if len(uses) > 0 {
		if err := (companions{job: j, uses: uses, fleetless: fleetless}).group(ctx, branch, CompanionRequest{Base: base.Hash, Head: head.Hash, Trusted: true, From: j.place}); err != nil {
			return err
		}
	}
	if fleetless {
		j.remember(key, state)
		return nil
	}
	review, _, err := j.space.Reviews.Review(ctx, ReviewRequest{Base: base, Head: head, Trusted: true})
	if err != nil {
		return err
	}
	review.Repository = j.place.Repo().Path
	if err := publish.Status(ctx, j.forge, j.place.Repo(), review, publish.Options{Context: j.contextFor(ctx, branch), Checks: j.settings.Checks}); err != nil {
		return err
	}
	j.log.Info("reviewed", "group", j.hint.Ref, "head", head.Hash.String())
	j.remember(key, state)
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
