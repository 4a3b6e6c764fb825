package bot

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot/command"
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
func (j *job) askLater(ctx context.Context, mr *forge.MergeRequest) (string, error) {
	if _, err := j.trustFor(ctx, mr); err != nil {
		return "", err
	}
	err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Question, Number: mr.Number, Comment: j.hint.Comment, Text: j.text, ID: j.hint.ID})
	return "the answer follows in a comment", err
}

// trustFor reports whether somebody with write access wrote the head of a merge request. If nobody trusts the head,
// the error wraps ErrRefused: Sluice neither renders it nor fetches what it refers to.
func (j *job) trustFor(ctx context.Context, mr *forge.MergeRequest) (own bool, err error) {
	ok, by, err := j.trusted(ctx, mr)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, fmt.Errorf("%w: the head %.10s waits for trust: somebody with write access must comment `/sluice trust`", ErrRefused, mr.Head)
	}
	return by == "", nil
}

// question answers the questions of a comment about the head of its merge request, each in a separate comment.
func (j *job) question(ctx context.Context) error {
	c, err := j.forge.Comment(ctx, j.place.Repo(), j.hint.Number, j.hint.Comment)
	if errors.Is(err, forge.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if edited(c, j.hint.Text) {
		return nil
	}
	mr, err := j.forge.MergeRequest(ctx, j.place.Repo(), j.hint.Number)
	if err != nil {
		return err
	}
	by, err := j.person(ctx, c)
	if err != nil {
		return err
	}
	commands, _ := command.Parse(c.Body) // the task of the comment reported problems
	for i, one := range commands {
		if one.Verb != command.VerbDiff && one.Verb != command.VerbExplain || by.Access < forge.AccessRead {
			continue
		}
		o := Order{Command: one, ID: j.orderID(mr, c, i), By: by, MR: mr, Said: c.Created}
		_, err := j.reply(ctx, mr, o, func() (string, error) { return j.answer(ctx, mr, o) })
		if err != nil {
			return fmt.Errorf("%s: %w", one.Verb, err)
		}
	}
	return nil
}

// answer returns the answer to a question, or the reason why there is none.
func (j *job) answer(ctx context.Context, mr *forge.MergeRequest, o Order) (string, error) {
	own, err := j.trustFor(ctx, mr)
	if err == nil {
		o.Own = own
		err = j.open(ctx)
	}
	text := ""
	if err == nil {
		text, err = j.space.Questions.Answer(ctx, o)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrStopped) {
		return report.Block([]string{o.String(), err.Error()}), nil
	}
	return text, err
}

// reply posts an answer as a separate comment, once, even if the task is repeated.
func (j *job) reply(ctx context.Context, mr *forge.MergeRequest, o Order, text func() (string, error)) (string, error) {
	return "answered", publish.Answer(ctx, j.forge, j.place.Repo(), mr.Number, "answer/"+o.ID, text)
}
