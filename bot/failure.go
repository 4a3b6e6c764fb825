package bot

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// Parked reports a task that failed too often, in the status of the merge request's head or in the log of commands.
// It shows the kind of the error and the incident's id. The text of the error can contain addresses, paths and
// content of charts, so it appears only in the service's log, with the same id.
func (b *Bot) Parked(ctx context.Context, t hint.Hint, incident string, why error) error {
	f, ok := b.Forges(t.Place.Forge())
	if !ok || t.Number == 0 {
		return nil
	}
	j := &job{Bot: b, forge: statusForge{f, t.Place, b.statuses}, place: t.Place, hint: t, settings: b.Settings(t.Place), log: b.Log}
	text := fmt.Sprintf("failed repeatedly: %s (incident %s)", cause(why), incident)
	if t.Kind.OfComment() {
		return j.parkedComment(ctx, text+". Comment /sluice retry to try again")
	}
	mr, err := f.MergeRequest(ctx, t.Place.Repo(), t.Number)
	if err != nil {
		return err
	}
	return j.say(ctx, mr, forge.Failure, "The review "+text+". `/sluice retry` tries again")
}

func (j *job) parkedComment(ctx context.Context, outcome string) error {
	c, err := j.forge.Comment(ctx, j.place.Repo(), j.hint.Number, j.hint.Comment)
	if err != nil {
		return err
	}
	commands, _ := command.Parse(c.Body) // the first attempt reported problems
	if edited(c, j.hint.Text) {
		commands = nil
	}
	if j.hint.Kind == hint.Question { // the log already says that an answer follows
		if len(commands) == 0 {
			return nil
		}
		return publish.Answer(ctx, j.forge, j.place.Repo(), j.hint.Number, fmt.Sprintf("failed/%s/%d", j.place, c.ID), func() (string, error) {
			return report.Block([]string{"The answer " + outcome}), nil
		})
	}
	var entries []report.CommandEntry
	for _, one := range commands {
		entries = append(entries, report.CommandEntry{Who: c.Author.Login, Command: one.String(), At: c.Created, Outcome: outcome})
	}
	if len(entries) == 0 {
		return nil
	}
	return j.answered(ctx, c, true, entries...)
}

// cause describes an error by its kind, without its text.
func cause(err error) string {
	for _, known := range []struct {
		kind error
		text string
	}{
		{forge.ErrUnauthorized, "the forge does not accept the service's credential"},
		{forge.ErrForbidden, "the service's credential lacks a permission on the forge"},
		{forge.ErrUnsupported, "the forge or the service's credential does not support it"},
		{forge.ErrTooLong, "the text is too long for the forge"},
		{forge.ErrUnavailable, "the forge does not answer"},
		{forge.ErrConflict, "the state on the forge changed meanwhile"},
		{gitstore.ErrNotFound, "a commit or a branch could not be fetched"},
		{context.DeadlineExceeded, "it took too long"},
	} {
		if errors.Is(err, known.kind) {
			return known.text
		}
	}
	return "an internal error"
}
