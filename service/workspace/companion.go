package workspace

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Reviews implements bot.Reviews.
type Reviews struct{ *Workspace }

// Companion reviews a change of another repository that the fleet takes content from. It renders the fleet's trunk with that repository at
// two commits and compares the results. Everything else, including the policy and the other pins, comes from the trunk, except changes that
// the request names. Companion returns
// nil if the trunk does not ask for such reviews.
func (w Reviews) Companion(ctx context.Context, r bot.CompanionRequest) (*report.Review, error) {
	tip, _, err := w.TrunkTip(ctx)
	if err != nil {
		return nil, err
	}
	v, err := w.Open(ctx, tip.Tree)
	if problems, broken := errors.AsType[fleet.Problems](err); broken && problems.Absent() {
		return nil, nil //nolint:nilnil // the trunk no longer has a fleet
	} else if broken {
		return nil, fmt.Errorf("%w: its trunk is invalid: the next valid commit there starts the review again", bot.ErrRefused)
	}
	if err != nil {
		return nil, err
	}
	repository, ok := v.Fleet.Repository(r.Name)
	if !ok || !repository.Reviews {
		return nil, nil //nolint:nilnil // the trunk no longer asks for it
	}
	request := compare.Request{Key: w.FingerprintKey(), Base: tip, Head: tip}
	if r.Fleet != nil {
		request.Base, request.Head = r.Fleet.Base, r.Fleet.Head
	}
	pins, err := pinsFor(ctx, w.Workspace, v.Fleet, append([]bot.Pin{{Name: r.Name, Base: r.Base, Head: r.Head}}, r.With...))
	if err != nil {
		return nil, err
	}
	s, err := companionSession(ctx, w.Workspace, tip.Tree, r)
	if err != nil {
		return nil, err
	}
	o := ReviewOptions{Compare: request, Policy: tip.Tree, Pins: pins}
	out, _, err := s.withRenderer(w.config.Renderers(r.From, worker.Untrusted)).reviewIsolated(ctx, w.config.ReviewWorkers, r.From.String(), o)
	return out, err
}

// companionSession returns the session of a review of another repository. For a change by somebody without write access there,
// the session fetches charts without credentials and reads only that repository.
func companionSession(ctx context.Context, w *Workspace, trunk gitstore.Hash, r bot.CompanionRequest) (*Session, error) {
	if r.Trusted {
		return w.pushing(ctx, trunk)
	}
	names := []string{r.Name}
	for _, c := range r.With {
		names = append(names, c.Name)
	}
	return untrustedWith(ctx, w, trunk, names)
}

// untrustedWith returns a session for a change by somebody without write access that reads the named repositories, and no others.
func untrustedWith(ctx context.Context, w *Workspace, trunk gitstore.Hash, names []string) (*Session, error) {
	s, err := w.untrusted(ctx, trunk)
	if err != nil || len(names) == 0 {
		return s, err
	}
	out, config := *s, s.Config
	config.Only, config.Credentials = names, w.Credentials
	out.Hydrator = hydrate.New(config)
	return &out, nil
}
