package repository

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// Reviews implements bot.Reviews.
type Reviews struct{ *Session }

// Review reviews a merge request of the fleet by the policy of the trunk. For an untrusted change, it fetches charts
// without credentials, and no other repository but the commits of the request's pins.
func (w Reviews) Review(ctx context.Context, r review.Request) (*review.Result, error) {
	trunk, err := w.trunkTree(ctx)
	if err != nil {
		return nil, err
	}
	if len(r.Pins) > 0 {
		f, _, err := w.Fleet(ctx, trunk)
		if err != nil {
			return nil, err
		}
		if r.Pins, err = review.FetchPins(ctx, w.Session.Session, f, r.Pins); err != nil {
			return nil, err
		}
	}
	return w.isolated(ctx, w.repo.Place, trunk, r)
}

// isolated reviews in a worker process. The merge request is one of the repository at from.
func (w Reviews) isolated(ctx context.Context, from hint.Place, trunk gitstore.Hash, r review.Request) (*review.Result,
	error,
) {
	r.Policy, r.Key, r.Images = trunk, w.FingerprintKey(), r.Trusted
	s, err := w.reading(ctx, trunk, &r)
	if err != nil {
		return nil, err
	}
	local := review.Local{Session: s.WithRenderer(w.config.Renderers(from, worker.Untrusted))}
	return review.Isolated(local, w.config.ReviewWorkers, from.String()).Review(ctx, r)
}

// Companion reviews a change of another repository that the fleet takes content from. It renders the fleet's trunk with
// that repository at two commits and compares the results. Everything else, including the policy and the other pins,
// comes from the trunk, except changes that the request names. Companion returns nil if the trunk does not ask for such
// reviews.
func (w Reviews) Companion(ctx context.Context, r bot.CompanionRequest) (*report.Review, error) {
	tip, _, err := w.TrunkTip(ctx)
	if err != nil {
		return nil, err
	}
	v, err := w.Open(ctx, tip.Tree)
	if problems, broken := errors.AsType[fleet.Problems](err); broken && problems.Absent() {
		return nil, nil //nolint:nilnil // the trunk no longer has a fleet
	} else if broken {
		return nil, fmt.Errorf("%w: its trunk is invalid: the next valid commit there starts the review again",
			bot.ErrRefused)
	}
	if err != nil {
		return nil, err
	}
	repository, ok := v.Fleet.Repository(r.Name)
	if !ok || !repository.Reviews {
		return nil, nil //nolint:nilnil // the trunk no longer asks for it
	}
	request := review.Request{Trusted: r.Trusted}
	request.Base, request.Head = tip, tip
	if r.Fleet != nil {
		request.Base, request.Head = r.Fleet.Base, r.Fleet.Head
	}
	this := review.Pin{Name: r.Name, Base: r.Base, Head: r.Head}
	if request.Pins, err = review.FetchPins(ctx, w.Session.Session, v.Fleet,
		append([]review.Pin{this}, r.With...)); err != nil {
		return nil, err
	}
	out, err := w.isolated(ctx, r.From, tip.Tree, request)
	if err != nil {
		return nil, err
	}
	return out.Review, nil
}

// reading returns the session of a review. For a change by somebody without write access, the session fetches charts
// without credentials, and reads the pinned commits of other repositories, and nothing else of any other repository.
// The trunk names the output repository.
func (w Reviews) reading(ctx context.Context, trunk gitstore.Hash, r *review.Request) (*session.Session, error) {
	if f, _, err := w.Fleet(ctx, trunk); err == nil && f.OutputRegistry() != "" {
		r.Preview = nil // nobody can look at a branch that is in a registry
	}
	if r.Trusted {
		return w.pushing(ctx, trunk)
	}
	if _, err := w.outputOf(ctx, trunk); err != nil {
		return nil, err
	}
	s, err := w.WithoutCredentials().WithRemote(ctx, gitstore.Commit{Tree: trunk}, "")
	if err != nil {
		return nil, err
	}
	return s.WithPinned(review.PinnedCommits(ctx, w.Session.Session, trunk, r.Pins), w.Credentials), nil
}
