package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
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
	s, err := companionSession(ctx, w.Workspace, tip.Tree, r.Trusted, pins)
	if err != nil {
		return nil, err
	}
	o := ReviewOptions{Compare: request, Policy: tip.Tree, Pins: pins}
	out, _, err := s.withRenderer(w.config.Renderers(r.From, worker.Untrusted)).reviewIsolated(ctx, w.config.ReviewWorkers, r.From.String(), o)
	return out, err
}

// companionSession returns the session of a review of another repository. For a change by somebody without write access there,
// the session fetches charts without credentials and reads only the compared commits of that repository.
func companionSession(ctx context.Context, w *Workspace, trunk gitstore.Hash, trusted bool, p Pins) (*Session, error) {
	if trusted {
		return w.pushing(ctx, trunk)
	}
	return untrustedWith(ctx, w, trunk, p)
}

// untrustedWith returns a session for a change by somebody without write access that reads the pinned commits of other repositories, and
// nothing else of any other repository.
func untrustedWith(ctx context.Context, w *Workspace, trunk gitstore.Hash, p Pins) (*Session, error) {
	s, err := w.untrusted(ctx, trunk)
	if err != nil {
		return nil, err
	}
	p.Base = slices.Concat(p.Base, pinsOnTrunk(ctx, w, trunk, p))
	return reading(s, p, w.Credentials), nil
}

// pinsOnTrunk returns the commits at which the trunk pins the repositories of p: the own policies of workspaces in them are from there.
func pinsOnTrunk(ctx context.Context, w *Workspace, trunk gitstore.Hash, p Pins) []source.Pinned {
	v, err := w.Open(ctx, trunk)
	if err != nil {
		return nil // the review reports an invalid fleet
	}
	var out []source.Pinned
	for _, r := range v.Fleet.Repositories {
		pin, ok := v.Pin(r)
		commit, err := gitstore.ParseHash(pin.Commit)
		named := slices.ContainsFunc(p.Head, func(one source.Pinned) bool { return one.Name == r.Name && one.URL == r.URL })
		if ok && err == nil && named {
			out = append(out, source.Pinned{Name: r.Name, URL: r.URL, Commit: commit})
		}
	}
	return out
}

// reading returns a session that reads the pinned commits although it refuses other repositories.
func reading(s *Session, p Pins, c source.Credentials) *Session {
	only := slices.Concat(p.Base, p.Head)
	if len(only) == 0 {
		return s
	}
	out, config := *s, s.Config
	config.Only, config.Credentials = only, c
	out.Hydrator = hydrate.New(config)
	return &out
}
