package repository

import (
	"context"

	"github.com/sluice-gitops/sluice/bot/triage"
	"github.com/sluice-gitops/sluice/report"
)

// Triage implements bot.Triage. Only the trunk has rules: a merge request must not choose its own labels and reviewers,
// nor must its target branch, which anybody with write access can create.
func (w *Session) Triage(ctx context.Context, r *report.Review) (triage.Plan, error) {
	tree, err := w.seenTrunk(ctx)
	if err != nil {
		return triage.Plan{}, err
	}
	f, _, err := w.Fleet(ctx, tree)
	if err != nil {
		return triage.Plan{}, err
	}
	return triage.Decide(f, w.Store.Snapshot(ctx, tree).ReadFile, r)
}
