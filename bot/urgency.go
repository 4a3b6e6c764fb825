package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// it only freezes or halts: it goes before other commands that wait. A rollback does not: what it restores depends
	// on them
	First bool
}

// Urgency reports what a comment may interrupt. It is the zero Urgency unless the author has write access. A command
// that was refused to its author for lack of a right a short time ago stops nothing. It changes nothing: processing the
// comment executes its commands.
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
		known := one.Stops() && b.lacksRight(t.Place, c.Author.Login, one)
		out.Cancels = out.Cancels || one.Verb == command.VerbCancel
		out.Stops = out.Stops || one.Stops() && !known
		out.First = out.First && one.Holds() && !known
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
	return out, nil
}

// NoRightError means that the trunk's sluice.yaml does not give the author of a command the right to it. It is an
// ErrRefused.
type NoRightError struct{ Reason string }

// Error returns the reason.
func (e *NoRightError) Error() string { return ErrRefused.Error() + ": " + e.Reason }

// Unwrap returns ErrRefused.
func (e *NoRightError) Unwrap() error { return ErrRefused }

// noUrgency is how long a command waits like others after its author was refused the same one for lack of a right. The
// rights are known only once the fleet is read, so the first one goes first, and the next ones do not.
const noUrgency = 10 * time.Minute

// noUrgencyKey names a stop by verb and target: who may not freeze prod may still be allowed to freeze dev.
func noUrgencyKey(p hint.Place, login string, c command.Command) string {
	return fmt.Sprintf("%s %s %s %s", p, strings.ToLower(login), c.Verb, cmp.Or(c.Env, c.Target))
}

// noteRefused remembers that an author lacks the right to a command, if that is why it was refused.
func (b *Bot) noteRefused(p hint.Place, login string, c command.Command, refused error) {
	if _, ok := errors.AsType[*NoRightError](refused); ok && c.Stops() {
		b.refusals.Add(noUrgencyKey(p, login, c), b.Clock())
	}
}

// lacksRight reports whether an author lacked the right to a command a short time ago.
func (b *Bot) lacksRight(p hint.Place, login string, c command.Command) bool {
	at, ok := b.refusals.Get(noUrgencyKey(p, login, c))
	return ok && b.Clock().Sub(at) < noUrgency
}
