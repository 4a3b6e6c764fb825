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
func (b *Bot) Parked(ctx context.Context, h hint.Hint, incident string, why error) error {
	f, ok := b.Forges(h.Place.Forge())
	if !ok || h.Number == 0 {
		return nil
	}
	t := b.newTask(f, h.Place, h, b.Log)
	text := fmt.Sprintf("failed repeatedly: %s (incident %s)", cause(why), incident)
	if h.Kind.OfComment() {
		return (&commandTask{task: t}).parked(ctx, text+". Comment /sluice retry to try again")
	}
	mr, err := f.MergeRequest(ctx, h.Place.Repo(), h.Number)
	if err != nil {
		return err
	}
	return t.say(ctx, mr, forge.Failure, "The review "+text+". `/sluice retry` tries again")
}

func (t *commandTask) parked(ctx context.Context, outcome string) error {
	c, err := t.forge.Comment(ctx, t.place.Repo(), t.hint.Number, t.hint.Comment)
	if err != nil {
		return err
	}
	commands, _ := command.Parse(c.Body) // the first attempt reported problems
	if edited(c, t.hint.Text) {
		commands = nil
	}
	if t.hint.Kind == hint.Question { // the log already says that an answer follows
		if len(commands) == 0 {
			return nil
		}
		return publish.Answer(ctx, t.forge, t.place.Repo(), t.hint.Number, fmt.Sprintf("failed/%s/%d", t.place, c.ID),
			func() (string, error) {
				return report.Block([]string{"The answer " + outcome}), nil
			})
	}
	var entries []report.CommandEntry
	for _, one := range commands {
		entries = append(entries, report.CommandEntry{
			Who: c.Author.Login, Command: one.String(), At: c.Created,
			Outcome: outcome,
		})
	}
	if len(entries) == 0 {
		return nil
	}
	return t.answered(ctx, c, true, entries...)
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
