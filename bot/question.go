package bot

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/report"
)

// Questions answers commands that only read.
type Questions interface {
	// Answer returns the Markdown text for a question: status, diff or explain.
	Answer(ctx context.Context, o Order) (string, error)
}

// askLater enqueues a question about the head of a merge request. The answer depends on untrusted content and can
// take as long as a review. It therefore waits with the reviews, and does not delay the commands of the repository.
func (t *commandTask) askLater(ctx context.Context, mr *forge.MergeRequest) (string, error) {
	if _, err := t.trustFor(ctx, mr); err != nil {
		return "", err
	}
	err := t.Enqueue(ctx, hint.Hint{
		Place: t.place, Kind: hint.Question, Number: mr.Number, Comment: t.hint.Comment,
		Text: t.text, ID: t.hint.ID,
	})
	return "the answer follows in a comment", err
}

// trustFor reports whether somebody with write access wrote the head of a merge request. If nobody trusts the head,
// the error wraps ErrRefused: Sluice neither renders it nor fetches what it refers to.
func (t *task) trustFor(ctx context.Context, mr *forge.MergeRequest) (own bool, err error) {
	trust, err := t.trustOf(ctx, mr)
	if err != nil {
		return false, err
	}
	if trust == companions.TrustNone {
		return false, fmt.Errorf("%w: the head %.10s waits for trust: somebody with write access must comment `/sluice trust`", ErrRefused, mr.Head)
	}
	return trust == companions.TrustOwn, nil
}

// question answers the questions of a comment about the head of its merge request, each in a separate comment.
func (t *commandTask) question(ctx context.Context) error {
	c, err := t.forge.Comment(ctx, t.place.Repo(), t.hint.Number, t.hint.Comment)
	if errors.Is(err, forge.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if edited(c, t.hint.Text) {
		return nil
	}
	mr, err := t.forge.MergeRequest(ctx, t.place.Repo(), t.hint.Number)
	if err != nil {
		return err
	}
	by, err := t.person(ctx, c)
	if err != nil {
		return err
	}
	commands, _ := command.Parse(c.Body) // the task of the comment reported problems
	for i, one := range commands {
		if one.Verb != command.VerbDiff && one.Verb != command.VerbExplain || by.Access < forge.AccessRead {
			continue
		}
		o := Order{Command: one, ID: t.orderID(mr, c, i), By: by, MR: mr, Said: c.Created}
		_, err := t.reply(ctx, mr, o, func() (string, error) { return t.answer(ctx, mr, o) })
		if err != nil {
			return fmt.Errorf("%s: %w", one.Verb, err)
		}
	}
	return nil
}

// answer returns the answer to a question, or the reason why there is none.
func (t *commandTask) answer(ctx context.Context, mr *forge.MergeRequest, o Order) (string, error) {
	own, err := t.trustFor(ctx, mr)
	if err == nil {
		o.Own = own
		err = t.open(ctx)
	}
	text := ""
	if err == nil {
		text, err = t.space.Questions.Answer(ctx, o)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrStopped) {
		return report.Block([]string{o.String(), err.Error()}), nil
	}
	return text, err
}

// reply posts an answer as a separate comment, once, even if the task is repeated.
func (t *commandTask) reply(ctx context.Context, mr *forge.MergeRequest, o Order, text func() (string, error)) (string,
	error,
) {
	return "answered", publish.Answer(ctx, t.forge, t.place.Repo(), mr.Number, "answer/"+o.ID, text)
}
