package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
)

// Answer returns the Markdown text for a question: status, diff or explain.
func (w *Workspace) Answer(ctx context.Context, o bot.Order) (string, error) {
	switch o.Verb {
	case command.VerbStatus:
		return w.status(ctx, o)
	case command.VerbExplain:
		return w.explain(ctx, o)
	}
	return w.diff(ctx, o)
}

// head returns the head of the merge request that the bot checked for trust. It refuses another head.
func (w *Workspace) head(ctx context.Context, mr *forge.MergeRequest) (gitstore.Commit, error) {
	head, err := w.Revision(ctx, w.repo.Forge.MergeRequestRef(mr.Number))
	if err == nil && head.Hash.String() != mr.Head {
		err = fmt.Errorf("%w: the merge request has a newer head: comment again", bot.ErrRefused)
	}
	return head, err
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// diff returns the review of the merge request, limited to some environments, apps and clusters.
func (w *Workspace) diff(ctx context.Context, o bot.Order) (string, error) {
	head, err := w.head(ctx, o.MR)
	if err != nil {
		return "", err
	}
	target, err := w.Revision(ctx, "refs/heads/"+o.MR.TargetBranch)
	if err != nil {
		return "", err
	}
	base, err := w.MergeBase(ctx, target, head)
	if err != nil {
		return "", err
	}
	r, _, err := w.Review(ctx, bot.ReviewRequest{Base: base, Head: head, Trusted: o.Own})
	if err != nil {
		return "", err
	}
	if r.Changes != nil {
		r.Changes.Groups = slices.DeleteFunc(r.Changes.Groups, func(g diff.Group) bool { return !selected(&o, &g) })
		r.Changes.Apps = slices.DeleteFunc(r.Changes.Apps, func(a diff.App) bool {
			return !slices.ContainsFunc(r.Changes.Groups, func(g diff.Group) bool { return g.App == a.Name })
		})
	}
	const margin = 2000 // characters for the other parts of the comment
	text, _ := report.Markdown(r, w.repo.Forge.CommentLimit()-margin)
	return text, nil
}

// selected reports whether the answer to a question includes a group of changes.
func selected(o *bot.Order, g *diff.Group) bool {
	if len(o.App) > 0 && !slices.Contains(o.App, g.App) {
		return false
	}
	if o.Env != "" && !slices.ContainsFunc(g.Where, func(r diff.Reach) bool { return r.Environment == o.Env }) {
		return false
	}
	return len(o.Clusters) == 0 || slices.ContainsFunc(o.Clusters, func(c string) bool { return slices.Contains(g.Clusters, c) })
}

// status answers `/sluice status` with the text of `sluice status`. It evaluates promotions and changes nothing.
func (w *Workspace) status(ctx context.Context, o bot.Order) (string, error) {
	running, err := w.Running(ctx, o.Trunk.Tree)
	if err != nil {
		return "", err
	}
	list, failed := w.promote(ctx, promote.Request{Trunk: o.Trunk, DryRun: true})
	if failed != nil && len(list) == 0 {
		return "", failed
	}
	rows := make([]report.RolloutRow, len(running))
	var text strings.Builder
	for i, r := range running {
		rows[i] = report.RolloutRow{Environment: r.Environment, State: "not rendered yet", Since: r.Since, Waits: r.Foreign}
		if !r.Source.IsZero() {
			rows[i].Commit, rows[i].State = r.Source.String(), "runs it"
		}
		at := slices.IndexFunc(list, func(e promote.Status) bool { return e.Environment == r.Environment })
		if at < 0 {
			r.WriteText(&text)
			continue
		}
		rows[i].Waits = cmp.Or(r.Foreign, list[at].Decision.WaitsFor)
		list[at].WriteText(&text, "/sluice")
	}
	if failed != nil {
		text.WriteString("Some environments could not be read. The service's log has the reason.\n")
	}
	return report.RolloutBlock(rows) + "\n" + report.Block(strings.Split(strings.TrimSpace(text.String()), "\n")), nil
}
