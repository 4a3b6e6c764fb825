package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// Answer returns the Markdown text for a question: status, diff or explain.
func (w *Session) Answer(ctx context.Context, o bot.Order) (string, error) {
	switch o.Verb {
	case command.VerbStatus:
		return w.status(ctx, o)
	case command.VerbExplain:
		return w.explain(ctx, o)
	}
	return w.diff(ctx, o)
}

// head returns the head of the merge request that the bot checked for trust. It refuses another head.
func (w *Session) head(ctx context.Context, mr *forge.MergeRequest) (gitstore.Commit, error) {
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
func (w *Session) diff(ctx context.Context, o bot.Order) (string, error) {
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
	request := review.Request{Trusted: o.Own}
	request.Base, request.Head = base, head
	result, err := Reviews{w}.Review(ctx, request)
	if err != nil {
		return "", err
	}
	r := result.Review
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
	if o.Env != "" && !slices.Contains(g.Environments, o.Env) {
		return false
	}
	return len(o.Clusters) == 0 || slices.ContainsFunc(o.Clusters,
		func(c string) bool { return slices.Contains(g.Clusters, c) })
}

// status answers `/sluice status` with the text of `sluice status`. It evaluates promotions and changes nothing.
func (w *Session) status(ctx context.Context, o bot.Order) (string, error) {
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
		rows[i] = report.RolloutRow{
			Environment: r.Environment, State: "not rendered yet", Since: r.Since,
			Waits: r.Foreign,
		}
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
	f, _, err := w.Fleet(ctx, o.Trunk.Tree)
	if err != nil {
		return "", err
	}
	return report.RolloutBlock(rows, promote.Unsigned(f)) + "\n" + report.Block(strings.Split(strings.TrimSpace(text.String()), "\n")), nil
}

// explain answers `/sluice explain`: which layers of the merge request's head set a value of a target. A worker process
// reads the head.
func (w *Session) explain(ctx context.Context, o bot.Order) (string, error) {
	head, err := w.head(ctx, o.MR)
	if err != nil {
		return "", err
	}
	if _, err := w.trunkTree(ctx); err != nil { // the trunk declares which other repositories the clone may fetch from
		return "", err
	}
	s := w.Session
	if !o.Own {
		s = w.WithoutCredentials()
	}
	answer, err := review.Explain(ctx, s, w.config.ReviewWorkers, w.repo.Place.String(), review.ExplainRequest{
		Tree: head.Tree, App: first(o.App), Cluster: first(o.Clusters), Path: o.Path, Key: w.FingerprintKey(),
	})
	if limit, ok := errors.AsType[*review.LimitError](err); ok { // the same question would exceed the limit again
		return "", fmt.Errorf("%w: %w", bot.ErrRefused, limit)
	}
	if err != nil {
		return "", err
	}
	if answer.Refused != "" {
		return "", fmt.Errorf("%w: %s", bot.ErrRefused, safetext.Message(answer.Refused, 1, maxRefusal))
	}
	const margin = 2000 // characters for the other parts of the comment
	return report.Block(fitLines(answer.Lines, w.repo.Forge.CommentLimit()-margin)), nil
}

const (
	maxExplainer = 500 // characters of a line
	maxRefusal   = 300 // characters
)

// fitLines shortens lines, and omits the last ones if all lines exceed a number of characters.
func fitLines(lines []string, limit int) []string {
	for i, line := range lines {
		lines[i] = safetext.Shorten(line, maxExplainer)
		if limit -= len(lines[i]) + 1; limit < 0 {
			return append(lines[:i], fmt.Sprintf("… and %d more lines: name a path", len(lines)-i))
		}
	}
	return lines
}
