package service

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/queue"
	"github.com/sluice-gitops/sluice/gitstore"
)

// do processes a hint. A rate limit delays the hint and does not count as a failure.
func (s *Service) do(ctx context.Context, h hint.Hint) error {
	if !s.knows(h.Place) {
		return nil // the configuration does not name it, or no longer does
	}
	s.seen.Store(h.Place, true)
	ctx, end := s.metrics.span(ctx, "task "+string(h.Kind), h)
	err := s.bot.Do(ctx, h)
	if errors.Is(err, bot.ErrNoFleet) {
		s.notFleets.Store(h.Place, s.clock())
		if s.configured(h.Place) && !s.bot.Uses(h.Place) && len(s.bot.Followers(h.Place)) == 0 {
			s.log.Warn("the repository has no sluice.yaml on its trunk", "repository", h.Place)
		}
		err = nil
	} else if err == nil && h.Kind == hint.Trunk {
		s.notFleets.Delete(h.Place)
	}
	end(err)
	if err == nil && h.Number > 0 {
		s.reviewed(ctx, h)
	}
	if limit, ok := errors.AsType[*forge.RateLimitError](err); ok {
		return &queue.Delay{Until: limit.Until, Err: err}
	}
	if later, ok := errors.AsType[*bot.Later](err); ok {
		return &queue.Delay{Until: later.Until, Err: err}
	}
	if err != nil && ctx.Err() == nil {
		if damaged(err) {
			s.mirrors.Discard(h.Place) // the next task clones it again
		}
		s.log.Warn("task failed", "repository", h.Place, "kind", h.Kind, "number", h.Number, "delivery", h.ID, "error",
			err)
	}
	return err
}

// damaged reports whether an error may come from a damaged clone: a local file is corrupt, or an object that the remote
// has is missing.
func damaged(err error) bool {
	if errors.Is(err, gitstore.ErrNoRef) || errors.Is(err, gitstore.ErrUnrelated) {
		return false
	}
	return errors.Is(err, gitstore.ErrDamaged) || errors.Is(err, gitstore.ErrNotFound)
}

// parked reports a hint that failed too often. If it has a merge request, the report appears there.
func (s *Service) parked(h hint.Hint, why error) {
	incident := newIncident()
	s.log.Error("a task failed too often and is parked", "incident", incident, "repository", h.Place, "kind", h.Kind,
		"number", h.Number, "error", why)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.stopped(ctx, h, incident)
	if err := s.bot.Parked(ctx, h, incident, why); err != nil {
		s.log.Warn("cannot report a parked task on its merge request", "repository", h.Place, "kind", h.Kind, "number",
			h.Number, "error", err)
	}
}

// newIncident returns a short random id that links the text on a merge request to a line of the log.
func newIncident() string {
	const length = 8
	return strings.ToLower(rand.Text()[:length])
}

// commandsStale is the age at which a parked command is no longer executed, the same as for commands whose webhook
// was lost.
const commandsStale = time.Hour

// unpark enqueues the parked hints of a merge request again and returns their number.
func (s *Service) unpark(ctx context.Context, p hint.Place, number int) (n int, err error) {
	list, err := s.queue.Parked(ctx)
	if err != nil {
		return 0, err
	}
	for _, one := range list {
		if one.Hint.Place != p || one.Hint.Number != number {
			continue
		}
		if one.Hint.Kind.OfComment() && s.clock().Sub(one.Hint.At) > commandsStale {
			continue // too old: its author must give the command again
		}
		one.Hint.Force = true // the failure was reported, which counts as handled
		if err := s.queue.Unpark(ctx, one.Hint); err != nil && !errors.Is(err, queue.ErrNotParked) {
			return n, err
		}
		n++
	}
	return n, nil
}

// cancel removes the waiting or running review of a merge request and reports whether there was one.
func (s *Service) cancel(ctx context.Context, p hint.Place, number int) (bool, error) {
	found, err := s.queue.Drop(ctx, hint.Hint{Place: p, Kind: hint.Review, Number: number})
	if err != nil {
		return found, err
	}
	return found, s.queue.Interrupt(p, number)
}

// sink enqueues the hints of webhooks. It implements webhook.Sink.
type sink struct{ s *Service }

// Put enqueues a hint. It drops hints for repositories that the configuration does not name.
func (k sink) Put(ctx context.Context, h hint.Hint) error {
	if h.Kind == hint.Members {
		k.s.bot.ForgetAccess()
		return nil
	}
	if h.Place.Repo().Path == "" {
		for _, p := range k.s.places() {
			if p.Forge() != h.Place.Forge() {
				continue
			}
			one := h
			one.Place = p
			if err := k.s.put(ctx, one); err != nil {
				return err
			}
		}
		return nil
	}
	if !k.s.knows(h.Place) {
		return nil
	}
	k.s.seen.Store(h.Place, true)
	if h.Kind == hint.Tag || h.Kind == hint.Trunk && h.Ref != "" { // Ref is empty for tags
		for _, fleet := range k.s.bot.FollowersOf(h.Place, h.Ref) {
			if err := k.s.put(ctx, hint.Hint{Place: fleet, Kind: hint.Follow, ID: h.ID}); err != nil {
				return err
			}
		}
	}
	if h.Kind == hint.Tag {
		return nil
	}
	err := k.s.put(ctx, h)
	if err == nil && h.Urgent {
		k.s.interrupt(ctx, h)
	}
	return err
}

// Known implements webhook.Sink.
func (k sink) Known(ctx context.Context, id string) (bool, error) { return k.s.queue.Known(ctx, id) }

// Note implements webhook.Sink.
func (k sink) Note(ctx context.Context, id string) error {
	_, err := k.s.queue.Seen(ctx, id)
	return err
}

// interrupt makes room for a comment whose author has the right to what it asks for: it interrupts the running review
// that the comment cancels, or the hydration of its repository for a command that stops a rollout. A freeze or a halt
// also goes before other commands. It does not delay the answer to the webhook.
func (s *Service) interrupt(ctx context.Context, h hint.Hint) {
	const limit = 30 * time.Second
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		urgency, err := s.bot.Urgency(ctx, h)
		if err == nil && urgency.Cancels {
			err = s.queue.Interrupt(h.Place, h.Number)
		}
		if err == nil && urgency.Stops {
			err = queue.Prefer(s.queue, h, urgency.First)
		}
		if err != nil {
			s.log.Warn("cannot let an urgent comment go first", "repository", h.Place.String(), "number", h.Number,
				"error", err)
		}
	})
}
