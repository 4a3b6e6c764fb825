package bot

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
)

// Branches writes rendered commits to branches.
type Branches interface {
	// Refs identifies where the default branch and all branches of the source repository are, as the task reads them.
	Refs(ctx context.Context) (string, error)
	Hydrate(ctx context.Context, r hydrate.Request) (*hydrate.Result, error)
	Running(ctx context.Context, tree gitstore.Hash) ([]promote.Running, error)
	// Output returns the repository of the rendered branches. If it is not on the forge, onForge is false and the
	// result is the source repository.
	Output(ctx context.Context) (repo forge.Repository, onForge bool, err error)
}

// Environments promotes commits.
type Environments interface {
	// Promotions evaluates the gates of promotions and executes promotions that are due.
	Promotions(ctx context.Context, trunk gitstore.Commit) ([]promote.Status, error)
	// Order executes a command on an environment if the trunk's sluice.yaml gives the person the right. Otherwise the
	// error wraps ErrRefused and contains the reason.
	Order(ctx context.Context, o Order) (string, error)
}

// trunk does the task of the trunk, unless it is known to find nothing to do; see settledKey.
func (j *job) trunk(ctx context.Context) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	refs, err := settledRefs(ctx, j)
	if err != nil || !j.hint.Force && j.seen(settledKey, refs) {
		return err
	}
	j.remember(settledKey, "")
	if err := workOnTrunk(ctx, j); err != nil {
		return err
	}
	settle(ctx, j, refs)
	return nil
}

// workOnTrunk hydrates the tip of the trunk, evaluates promotions, and reports both on the commits and on the merge requests that brought
// them. If the tip is new, it reviews the open merge requests again, because their base moved.
func workOnTrunk(ctx context.Context, j *job) error {
	tip, f, err := j.trunkTip(ctx)
	if errors.Is(err, ErrNoFleet) {
		j.followers.set(j.place, nil)
		err = errors.Join(err, enqueueSweeps(ctx, j, j.uses.set(j.place, nil)))
	}
	if err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	if err := errors.Join(learnUses(ctx, j, f, tip.Tree), learnFollowed(ctx, j, f, tip.Hash)); err != nil {
		return err
	}
	earlier, err := j.backfill(ctx, tip)
	var result *hydrate.Result
	if err == nil {
		result, err = j.space.Branches.Hydrate(ctx, hydrate.Request{Commit: tip, Write: true, PerPush: j.settings.PerPush})
	}
	if errors.Is(err, ErrRefused) {
		return errors.Join(earlier, j.refused(ctx, tip, err))
	}
	if err != nil {
		return errors.Join(earlier, err)
	}
	// Promotions run before statuses and comments are written, so that a forge that refuses those does not delay
	// them.
	promotions, err := j.space.Environments.Promotions(ctx, tip)
	if ctx.Err() != nil {
		return errors.Join(earlier, err, context.Cause(ctx)) // not done: nothing after this may look like success
	}
	if err != nil {
		j.log.Warn("promotions", "error", err) // the hydration is reported in any case
	}
	j.unsettled = j.unsettled || err != nil || !quiet(result, promotions)
	for _, e := range promotions {
		j.log.Debug("promotion", "environment", e.Environment, "runs", e.Source.String(), "done", e.Done, "waits", e.Decision.WaitsFor)
	}
	reported := errors.Join(earlier,
		j.tolerate(ctx, errors.Join(j.reportHydrated(ctx, tip, result), j.reportPromoted(ctx, promotions))),
		j.rollouts(ctx, tip, f, result, promotions))
	if j.seen("trunk", tip.Hash.String()) {
		return reported
	}
	if err := j.reviewOpen(ctx, f.Spec.Trunk); err != nil {
		return errors.Join(reported, err)
	}
	j.remember("trunk", tip.Hash.String())
	for _, e := range result.Environments {
		if e.Status == hydrate.StatusConflict {
			return errors.Join(reported, fmt.Errorf("environment %s: %s", e.Name, e.Reason)) // the queue retries
		}
	}
	return reported
}

// refused reports on a commit why it is not hydrated. Only a new commit or another configuration helps.
func (j *job) refused(ctx context.Context, c gitstore.Commit, why error) error {
	j.unsettled = true
	j.log.Warn("not hydrated", "commit", c.Hash.String(), "error", why)
	return j.forge.SetStatus(ctx, j.place.Repo(), c.Hash.String(), forge.Status{Context: j.context() + "/hydrate", State: forge.Failure, Description: why.Error()})
}

// tolerate returns an error from writing statuses if a retry may help. It logs other errors and returns nil, because the next task of
// the trunk writes the statuses again.
func (j *job) tolerate(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, forge.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	j.log.Warn("statuses could not be written", "error", err)
	j.unsettled = true
	return nil
}

// maxBackfill is the number of trunk commits before the tip that are hydrated after the fact. Older ones are skipped.
const maxBackfill = 100

// backfill hydrates the commits of the trunk before its tip that were not hydrated, because several were pushed at
// once or the service was down. Each gets its own commit on the branches and its own statuses. If a commit cannot be
// hydrated, backfill writes a status and continues with later ones. reported is the error of writing statuses.
func (j *job) backfill(ctx context.Context, tip gitstore.Commit) (reported, err error) {
	list, err := j.space.Commits.Missed(ctx, tip, maxBackfill)
	if err != nil {
		return nil, fmt.Errorf("commits before %s: %w", tip.Hash.Short(), err)
	}
	j.unsettled = j.unsettled || len(list) > 0
	for _, c := range list {
		f, _, err := j.space.Fleets.Fleet(ctx, c.Tree)
		if err := j.brokenFleet(ctx, c, err); err != nil && !errors.Is(err, ErrNoFleet) {
			return reported, err
		}
		if f == nil {
			continue
		}
		result, err := j.space.Branches.Hydrate(ctx, hydrate.Request{Commit: c, Write: true, PerPush: j.settings.PerPush})
		if errors.Is(err, ErrRefused) {
			reported = errors.Join(reported, j.tolerate(ctx, j.refused(ctx, c, err)))
			continue
		}
		if err != nil {
			return reported, err
		}
		reported = errors.Join(reported, j.tolerate(ctx, j.reportHydrated(ctx, c, result)))
	}
	return reported, nil
}

// trunkTip returns the trunk's commit and its fleet, or ErrNoFleet. If the fleet of the commit cannot be read, it
// writes a red status on the commit and returns the last commit before it with a readable fleet, so that a mistake on
// the trunk stops neither promotions nor rollbacks.
func (j *job) trunkTip(ctx context.Context) (gitstore.Commit, *fleet.Fleet, error) {
	var head gitstore.Hash
	var f *fleet.Fleet
	var broken error
	tip, err := j.space.Commits.Trunk(ctx, func(ctx context.Context, c gitstore.Commit) string {
		head = c.Hash
		if f, _, broken = j.space.Fleets.Fleet(ctx, c.Tree); broken != nil {
			return ""
		}
		return f.Spec.Trunk
	})
	if err != nil { // a failed fetch must not make policy and rights come from another branch
		return tip, nil, err
	}
	if tip.Hash != head {
		f, _, broken = j.space.Fleets.Fleet(ctx, tip.Tree)
	}
	return j.readable(ctx, tip, f, broken)
}

func (j *job) readable(ctx context.Context, tip gitstore.Commit, f *fleet.Fleet, err error) (gitstore.Commit, *fleet.Fleet, error) {
	if err == nil {
		return tip, f, nil
	}
	if err := j.brokenFleet(ctx, tip, err); err != nil {
		return tip, nil, err
	}
	good, f, err := j.space.Fleets.Readable(ctx, tip)
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return tip, nil, nil // no commit has a readable fleet
	}
	return good, f, err
}

// brokenFleet reports on a commit that its fleet cannot be read. It returns errors that are not mistakes in the fleet.
func (j *job) brokenFleet(ctx context.Context, tip gitstore.Commit, err error) error {
	problems, broken := errors.AsType[fleet.Problems](err)
	if !broken {
		return err
	}
	if problems.Absent() {
		return ErrNoFleet
	}
	j.unsettled = true
	return j.tolerate(ctx, j.forge.SetStatus(ctx, j.place.Repo(), tip.Hash.String(), forge.Status{
		Context: j.context() + "/hydrate", State: forge.Failure, Description: fmt.Sprintf("%d problems in the fleet: %s", len(problems), problems[0]),
	}))
}
