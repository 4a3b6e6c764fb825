package service

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/queue"
	"github.com/sluice-gitops/sluice/service/conditions"
	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/service/events"
	"github.com/sluice-gitops/sluice/service/notify"
)

// newEvents returns the ledger of the configured receivers; nil without any.
func (s *Service) newEvents(c *config.Config) (*events.Ledger, error) {
	if len(c.Events.Receivers) == 0 {
		return nil, nil //nolint:nilnil // nobody is told
	}
	var receivers []events.Receiver
	for i := range c.Events.Receivers {
		r, err := c.Events.Receivers[i].Receiver()
		if err != nil {
			return nil, fmt.Errorf("events: receiver %s: %w", c.Events.Receivers[i].Name, err)
		}
		receivers = append(receivers, r)
	}
	return events.New(events.Config{
		Store: queue.NewEpisodes(s.queue), Changed: queue.ErrChanged, Receivers: receivers, Late: c.Events.Late,
		Client: notify.NewClient(), PlainHTTP: s.o.Runtime.Git.PlainHTTP, UserAgent: s.o.Runtime.UserAgent(),
		Clock: s.clock, Log: s.log,
		Observe: func(kind, result string) { s.metrics.told.WithLabelValues(kind, result).Inc() },
	}), nil
}

// about describes a repository for events.
func (s *Service) about(p hint.Place) conditions.Found {
	out := conditions.Found{Repository: p.Repo().Path}
	if f := s.state().forges[p.Forge()]; f != nil {
		out.URL = notify.Web(f.Git + "/" + p.Repo().Path)
	}
	return out
}

// found records the conditions that a task of the trunk found.
func (s *Service) found(ctx context.Context, p hint.Place, f bot.Findings) {
	if s.events == nil {
		return
	}
	about := s.about(p)
	about.Commit, about.Refused, about.Result = f.Commit, f.Refused, f.Result
	about.Promotions, about.Partial = f.Promotions, f.Partial
	s.observe(ctx, p)(about.Conditions())
}

// stopped records that a review is not tried again.
func (s *Service) stopped(ctx context.Context, h hint.Hint, incident string) {
	if s.events == nil || h.Kind != hint.Review || h.Number == 0 {
		return
	}
	about := s.about(h.Place)
	s.observe(ctx, h.Place)(about.Stopped(h.Number, fmt.Sprintf("The review of merge request %d stopped", h.Number),
		"It failed repeatedly (incident "+incident+" in the service's log)"))
}

// reviewed records that the task of a merge request succeeded.
func (s *Service) reviewed(ctx context.Context, h hint.Hint) {
	if s.events != nil && h.Kind == hint.Review {
		s.observe(ctx, h.Place)(conditions.Reviewed(h.Number))
	}
}

// observe returns a function that records conditions. A failure never stops a task: the next one records them.
func (s *Service) observe(ctx context.Context, p hint.Place) func(events.Conditions, func(*events.Event) bool) {
	return func(c events.Conditions, covers func(*events.Event) bool) {
		if err := s.events.Observe(ctx, p.String(), c, covers); err != nil && ctx.Err() == nil {
			s.log.Warn("events were not recorded; the next task records them", "repository", p, "error", err)
		}
	}
}
