package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Reviews implements bot.Reviews.
type Reviews struct{ *Workspace }

// Companion reviews a change of another repository that the fleet takes content from. It renders the fleet's trunk with that repository at
// two commits and compares the results. Everything else, including the policy and the other pins, comes from the trunk. Companion returns
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
	request := compare.Request{Key: w.FingerprintKey()}
	for _, side := range []struct {
		commit gitstore.Hash
		to     *gitstore.Commit
	}{{r.Base, &request.Base}, {r.Head, &request.Head}} {
		if err := w.Store.FetchPinned(ctx, repository.URL, w.Credentials(repository.URL), side.commit); err != nil {
			return nil, fmt.Errorf("commit %s of %s: %w", side.commit.Short(), repository.URL, err)
		}
		if *side.to, err = WithPin(ctx, w.Store, v, tip, repository, side.commit); err != nil {
			return nil, err
		}
	}
	s, err := companionSession(ctx, w.Workspace, tip.Tree, r)
	if err != nil {
		return nil, err
	}
	out, _, err := s.withRenderer(w.config.Renderers(r.From, worker.Untrusted)).reviewIsolated(ctx, w.config.ReviewWorkers, r.From.String(), ReviewOptions{Compare: request, Policy: tip.Tree})
	return out, err
}

// companionSession returns the session of a review of another repository. For a change by somebody without write access there,
// the session fetches charts without credentials and reads only that repository.
func companionSession(ctx context.Context, w *Workspace, trunk gitstore.Hash, r bot.CompanionRequest) (*Session, error) {
	if r.Trusted {
		return w.pushing(ctx, trunk)
	}
	s, err := w.untrusted(ctx, trunk)
	if err != nil {
		return nil, err
	}
	out, config := *s, s.Config
	config.Only, config.Credentials = r.Name, w.Credentials
	out.Hydrator = hydrate.New(config)
	return &out, nil
}

// WithPin returns a copy of the fleet's commit at in which sluice.lock pins another repository to a commit. The pin keeps the locked
// branch or tag, so that Kustomize URLs with that name still refer to the repository. The new commit exists only in memory.
func WithPin(ctx context.Context, store *gitstore.Store, v *source.View, at gitstore.Commit, r *fleet.Repository, commit gitstore.Hash) (gitstore.Commit, error) {
	before, _ := v.Pin(r) // a repository without a lock has no resolved ref
	lock := v.Lock()
	lock.SetPin(r.Name, fetch.Pin{URL: r.URL, Wanted: r.Wanted, Resolved: cmp.Or(before.Resolved, r.Wanted), Commit: commit.String()})
	data, err := lock.Bytes()
	if err != nil {
		return at, err
	}
	tree, err := store.Replace(ctx, at.Tree, fetch.LockFile, data)
	if err != nil {
		return at, err
	}
	hash, err := store.KeepCommit(gitstore.CommitSpec{Tree: tree, Parents: []gitstore.Hash{at.Hash}, Message: "with " + commit.String()})
	if err != nil {
		return at, err
	}
	return store.Commit(ctx, hash)
}
