package bot

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// stateGone is the remembered state of a merge request that the forge no longer has.
const stateGone = "gone"

// gone cleans up after a merge request that the forge no longer has, as closed does after others: the reviews that show it start again, and
// so do those of merge requests with its head. If the forge has one of that number again, the bot reviews that one.
func gone(ctx context.Context, j *job, number int) error {
	if err := j.Reports.Gone(j.place, number); err != nil {
		j.log.Warn("the list of merge requests is not current", "merge_request", number, "error", err)
	}
	if err := announce(ctx, j, &forge.MergeRequest{Number: number, State: forge.Closed}); err != nil {
		return err
	}
	j.listings.remove(j.place, number)
	recorded, err := j.Verdicts.Verdict(ctx, j.place, number, verdictOwn)
	if err != nil {
		return fmt.Errorf("verdict of merge request %d: %w", number, err)
	}
	if recorded == "" && !j.hint.Force && j.seen(reviewKey(number), stateGone) {
		return nil
	}
	if err := j.open(ctx); err != nil {
		return err
	}
	if err := dropReview(ctx, j, number); err != nil {
		return err
	}
	if head, _, _ := strings.Cut(recorded, " "); head != "" {
		others, err := j.withHead(ctx, head, number)
		if err != nil {
			return err
		}
		if err := reviewAgain(ctx, j, others); err != nil {
			return err
		}
	}
	j.remember(reviewKey(number), stateGone)
	return nil
}
