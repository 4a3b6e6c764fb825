package bot

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// Urgency is what a comment may interrupt before it is processed.
type Urgency struct {
	Cancels bool // it cancels the review of its merge request, which may run
	Stops   bool // it freezes, halts or rolls back: it waits for no hydration of its repository
	First   bool // it only freezes or halts: it goes before other commands that wait. A rollback does not: what it restores depends on them
}

// Urgency reports what a comment may interrupt. It is the zero Urgency unless the author has write access. An author whose command was refused for
// lack of a right a short time ago stops nothing. It changes nothing: processing the comment executes its commands.
func (b *Bot) Urgency(ctx context.Context, t hint.Hint) (Urgency, error) {
	f, ok := b.Forges(t.Place.Forge())
	if !ok {
		return Urgency{}, nil
	}
	c, err := f.Comment(ctx, t.Place.Repo(), t.Number, t.Comment)
	if err != nil || edited(c, t.Text) || c.Author.Bot {
		return Urgency{}, err
	}
	commands, _ := command.Parse(c.Body) // mistakes in other commands do not matter here
	out := Urgency{First: len(commands) > 0}
	for _, one := range commands {
		out.Cancels = out.Cancels || one.Verb == command.VerbCancel
		out.Stops = out.Stops || one.Stops()
		out.First = out.First && one.Holds()
	}
	if !out.Cancels && !out.Stops {
		return Urgency{}, nil
	}
	access, err := f.Access(ctx, t.Place.Repo(), c.Author.Login)
	if errors.Is(err, forge.ErrNotFound) {
		return Urgency{}, nil // a stranger
	}
	if err != nil || access < forge.AccessWrite {
		return Urgency{}, err
	}
	if b.lacksRights(t.Place, c.Author.Login) {
		out.Stops, out.First = false, false
	}
	return out, nil
}

// NoRightError means that the trunk's sluice.yaml does not give the author of a command the right to it. It is an ErrRefused.
type NoRightError struct{ Reason string }

// Error returns the reason.
func (e *NoRightError) Error() string { return ErrRefused.Error() + ": " + e.Reason }

// Unwrap returns ErrRefused.
func (e *NoRightError) Unwrap() error { return ErrRefused }

// noUrgency is how long the commands of an author without a right to one wait like those of others. The rights are known only once the fleet is
// read, so the first command goes first, and the next ones do not.
const noUrgency = 10 * time.Minute

func noUrgencyKey(p hint.Place, login string) string {
	return p.String() + " no right " + strings.ToLower(login)
}

// noteRefused remembers that an author lacks the right to a command, if that is why it was refused.
func (b *Bot) noteRefused(p hint.Place, login string, refused error) {
	if _, ok := errors.AsType[*NoRightError](refused); ok {
		b.done.Add(noUrgencyKey(p, login), b.Clock().Format(time.RFC3339))
	}
}

// lacksRights reports whether an author lacked the right to a command a short time ago.
func (b *Bot) lacksRights(p hint.Place, login string) bool {
	text, _ := b.done.Get(noUrgencyKey(p, login)) // "" is no time
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && b.Clock().Sub(at) < noUrgency
}
