package repository

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/promotions"
)

// Promotions evaluates the gates of promotions and executes promotions that are due.
func (w *Session) Promotions(ctx context.Context, trunk gitstore.Commit) ([]promote.Status, error) {
	return w.promote(ctx, promote.Request{Trunk: trunk})
}

// promote adds the clock, the forge and the output repository to the request.
func (w *Session) promote(ctx context.Context, r promote.Request) ([]promote.Status, error) {
	s, err := w.pushing(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	output, err := w.outputOf(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	if !r.OnlyStop { // nothing moves
		if r.Unprotected, err = w.unprotected(ctx, r.Trunk.Tree, output); err != nil {
			return nil, err
		}
	}
	r.Now, r.PerPush, r.Candidates = w.now(), w.repo.PerPush, w.config.Candidates
	o := promotions.Options{Trunk: r.Trunk, Reviews: w.config.Verdicts, Checks: w.config.Checks}
	if w.repo.Forge != nil {
		o.Forge = &promotions.OnForge{
			Forge: w.repo.Forge, Sources: w.repo.Place.Repo(), Output: output,
			Authors: w.config.Authors,
		}
	}
	adapters := promotions.Adapters(s, o)
	if r.Adapters.Statuses != nil {
		adapters.Statuses = r.Adapters.Statuses
	}
	r.Adapters = adapters
	return promote.Run(ctx, s.Hydrator, r)
}

// Order executes a command on an environment if the trunk's sluice.yaml gives the person the right. Otherwise the
// error wraps bot.ErrRefused and contains the reason.
func (w *Session) Order(ctx context.Context, o bot.Order) (string, error) {
	f, _, err := w.Fleet(ctx, o.Trunk.Tree)
	if err != nil {
		return "", err
	}
	c, err := commandOf(f, o.Command, w.now())
	if err != nil {
		return "", fmt.Errorf("%w: %w", bot.ErrRefused, err)
	}
	if c.Kind == rollout.EventPromote || c.Kind == rollout.EventApprove {
		if err := w.requireProtection(ctx, o.Trunk.Tree); err != nil {
			return "", err
		}
	}
	c.ID, c.By, c.At, c.Said = o.ID, o.By.User.Login, w.now(), o.Said
	stop := o.Holds()
	if stop && !o.Said.IsZero() && o.Said.Before(c.At) {
		// A stop goes before commands that wait. It is recorded with the time of its comment, so that a command of an
		// earlier comment that is executed later does not end it.
		c.At = o.Said
	}
	if c.Person, err = person(ctx, f, o, c.Environment); err != nil {
		return "", err
	}
	if c.Kind != rollout.EventApprove { // approvers of a workspace may approve as well
		if ok, why := allowed(f, c); !ok {
			return "", &bot.NoRightError{Reason: why}
		}
	}
	c.InTeam = func(ctx context.Context, team string) (bool, error) { return inTeam(ctx, o, team) }
	// The caller has the trunk looked at afterwards, with all environments and gates. A stop waits for none of them.
	list, failed := w.promote(ctx, promote.Request{
		Trunk: o.Trunk, Commands: []promote.Command{*c}, Environments: []string{c.Environment}, OnlyStop: stop,
	})
	for _, e := range list {
		if e.Environment != c.Environment {
			continue
		}
		if len(e.Refused) > 0 {
			return "", fmt.Errorf("%w: %s", bot.ErrRefused, strings.Join(e.Refused, "; "))
		}
		return outcome(&e), nil
	}
	// until somebody mends the branch, a retry has the same result
	if records, ok := errors.AsType[*promote.RecordsError](failed); ok {
		return "", fmt.Errorf("%w: %w", bot.ErrRefused, records)
	}
	if failed != nil {
		return "", failed
	}
	return "", fmt.Errorf("%w: %s has no `after`, so it follows the trunk", bot.ErrRefused, c.Environment)
}

// allowed reports whether the person of a command has the right to it, before anything else is asked for. An
// environment that does not exist is refused later.
func allowed(f *fleet.Fleet, c *promote.Command) (bool, string) {
	e, ok := f.Environment(c.Environment)
	if !ok {
		return true, ""
	}
	return rollout.Allowed(*e, c.Verb, c.Person)
}

// outcome describes what a command did.
func outcome(e *promote.Status) string {
	parts := e.Done
	if e.Decision.WaitsFor != "" {
		parts = append(parts, e.Decision.WaitsFor)
	}
	if len(parts) == 0 {
		return "done"
	}
	return strings.Join(parts, "; ")
}

// person returns the author of a command, with their teams among those that sluice.yaml names for the environment.
func person(ctx context.Context, f *fleet.Fleet, o bot.Order, environment string) (rollout.Person, error) {
	out := rollout.Person{User: o.By.User.Login}
	if o.By.Access != forge.AccessNone {
		out.Role = o.By.Access.String()
	}
	e, ok := f.Environment(environment)
	if !ok {
		return out, nil
	}
	teams := map[string]bool{}
	for _, t := range e.Promotion.Approvers.Teams {
		teams[t] = true
	}
	for _, r := range e.Promotion.Rights {
		for _, t := range r.Teams {
			teams[t] = true
		}
	}
	for t := range teams {
		in, err := inTeam(ctx, o, t)
		if err != nil {
			return out, err
		}
		if in {
			out.Teams = append(out.Teams, t)
		}
	}
	return out, nil
}

// inTeam reports whether the author of a command is in a team. Nobody is in a team that does not exist.
func inTeam(ctx context.Context, o bot.Order, team string) (bool, error) {
	in, err := o.By.InTeam(ctx, team)
	if errors.Is(err, forge.ErrNotFound) {
		return false, nil
	}
	return in, err
}

// commandOf converts a chat command into a command of promotions.
func commandOf(f *fleet.Fleet, c command.Command, now time.Time) (*promote.Command, error) {
	out := &promote.Command{Environment: c.Env, Verb: string(c.Verb)}
	out.Reason, out.Apps, out.Workspaces, out.Now, out.Clusters = c.Reason, c.App, c.Spaces, c.Now, c.Clusters
	kinds := map[command.Verb]rollout.EventKind{
		command.VerbPromote: rollout.EventPromote, command.VerbApprove: rollout.EventApprove,
		command.VerbRollback: rollout.EventRollback, command.VerbFreeze: rollout.EventFreeze,
		command.VerbUnfreeze: rollout.EventUnfreeze, command.VerbHalt: rollout.EventHalt,
		command.VerbResume: rollout.EventResume,
	}
	out.Again, out.Named = c.Again, c.Hold
	kind, ok := kinds[c.Verb]
	if !ok {
		return nil, fmt.Errorf("%s is not a command on an environment", c.Verb)
	}
	out.Kind, out.Revision = kind, c.Commit
	switch {
	case c.Verb == command.VerbRollback:
		out.Revision = c.To
	case c.Cancel:
		out.Kind = rollout.EventCancel
	}
	out.Wave = c.Wave
	if c.Verb == command.VerbFreeze || c.Verb == command.VerbUnfreeze {
		if err := out.Aim(f, c.Target); err != nil {
			return nil, err
		}
		if c.Until != "" {
			var err error
			if out.Until, err = command.ParseUntil(c.Until, now); err != nil {
				return nil, err
			}
		}
	}
	if _, known := f.Environment(out.Environment); !known {
		return nil, promote.UnknownEnvironment(f, out.Environment)
	}
	return out, nil
}
