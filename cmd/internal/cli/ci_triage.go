package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/triage"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/report"
)

// triage sets the labels that spec.review of the trunk asks for, and asks for reviews. It returns the keys of the
// requests, which the comment keeps: without a comment it asks nobody. What went wrong is in the notes of the review.
func (c *ciOptions) triage(ctx context.Context, o IO, s *app.Session, at *ci.Context, f app.Forge,
	mr *forge.MergeRequest, r *report.Review, trunk ciTrunk,
) []string {
	if f == nil || mr == nil || mr.Head != r.Head || at.Fork || c.companion.fleet != "" || c.noComment && c.noStatus {
		return nil
	}
	warn := warner(o)
	fleet, _, err := s.Fleet(ctx, trunk.commit.Tree)
	if err != nil {
		warn(fmt.Errorf("spec.review: %w", err))
		return nil
	}
	plan, err := triage.Decide(fleet, s.Store.Snapshot(ctx, trunk.commit.Tree).ReadFile, r)
	if err != nil {
		warn(fmt.Errorf("spec.review: %w", err))
		return nil
	}
	if c.noComment {
		plan.Requests = nil
	}
	repo := forge.Repository{Path: at.Repository}
	result := triage.Apply(ctx, f, repo, mr, plan, func(ctx context.Context) ([]string, error) {
		return publish.Asked(ctx, f, repo, mr.Number, c.id)
	})
	for _, err := range result.Errors {
		warn(fmt.Errorf("spec.review: %w", err))
	}
	r.Findings.Notes = append(r.Findings.Notes, result.Notes...)
	for _, list := range []struct {
		what  string
		names []string
	}{
		{"labels added", result.Added},
		{"labels removed", result.Removed},
		{"asked for a review", triage.Names(result.Asked)},
	} {
		if len(list.names) > 0 {
			fmt.Fprintf(o.Out, "%s: %s\n", list.what, strings.Join(list.names, ", "))
		}
	}
	return triage.Keys(result.Asked)
}
