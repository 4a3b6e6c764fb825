package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
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

// Artifacts publishes what cluster branches have.
type Artifacts interface {
	// Publish pushes the artifacts that the registry of the trunk's fleet lacks. missing says why some still are; "" if
	// none is.
	Publish(ctx context.Context, trunk gitstore.Commit) (missing string, err error)
}

// Findings are what a task of the trunk found, for those who are told of it.
type Findings struct {
	Commit     string           // of the trunk
	Refused    string           // why the commit is not hydrated; empty: it is
	Result     *hydrate.Result  // nil: nothing was hydrated and no promotion evaluated
	Promotions []promote.Status //
	Partial    bool             // some promotions could not be evaluated
}

// trunkTask hydrates the trunk and evaluates promotions.
type trunkTask struct {
	*task
	broken string // why the fleet of the trunk's tip cannot be read
	// unsettled means that the task changed something, or left something that the next one may mend.
	unsettled bool
}

// run does the task of the trunk, unless it is known to find nothing to do; see settledKey.
func (t *trunkTask) run(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	refs, err := t.settledRefs(ctx)
	if err != nil || !t.hint.Force && t.seen(settledKey, refs) {
		return err
	}
	t.remember(settledKey, "")
	if err := t.work(ctx); err != nil {
		return err
	}
	t.settle(ctx, refs)
	return nil
}

// work hydrates the tip of the trunk, evaluates promotions, and reports both on the commits and on the merge requests
// that brought them. If the tip is new, it reviews the open merge requests again, because their base moved.
func (t *trunkTask) work(ctx context.Context) error {
	tip, f, err := t.tip(ctx)
	if errors.Is(err, ErrNoFleet) {
		t.followers.set(t.place, nil)
		err = errors.Join(err, t.enqueueSweeps(ctx, t.uses.Set(t.place, nil)))
	}
	if err != nil {
		return err
	}
	if f == nil {
		t.Found(ctx, t.place, Findings{Commit: tip.Hash.String(), Refused: t.broken})
		return nil
	}
	if err := errors.Join(t.learnUses(ctx, f, tip.Tree), (&follower{
		trunkTask: trunkTask{task: t.task}, tip: tip,
		fleet: f,
	}).enqueue(ctx)); err != nil {
		return err
	}
	earlier, err := t.backfill(ctx, tip)
	var result *hydrate.Result
	if err == nil {
		result, err = t.space.Branches.Hydrate(ctx, hydrate.Request{
			Commit: tip, Write: true,
			PerPush: t.settings.PerPush,
		})
	}
	if errors.Is(err, ErrRefused) {
		t.Found(ctx, t.place, Findings{Commit: tip.Hash.String(), Refused: err.Error()})
		return errors.Join(earlier, t.refused(ctx, tip, err))
	}
	if err != nil {
		return errors.Join(earlier, err)
	}
	// Promotions run before statuses and comments are written, so that a forge that refuses those does not delay
	// them.
	promotions, err := t.space.Environments.Promotions(ctx, tip)
	if ctx.Err() != nil {
		return errors.Join(earlier, err, context.Cause(ctx)) // not done: nothing after this may look like success
	}
	if err != nil {
		t.log.Warn("promotions", "error", err) // the hydration is reported in any case
	}
	t.publish(ctx, tip)
	t.Found(ctx, t.place, Findings{
		Commit: tip.Hash.String(), Refused: t.broken, Result: result, Promotions: promotions, Partial: err != nil,
	})
	t.unsettled = t.unsettled || err != nil || !quiet(result, promotions)
	for _, e := range promotions {
		t.log.Debug("promotion", "environment", e.Environment, "runs", e.Source.String(), "done", e.Done, "waits",
			e.Decision.WaitsFor)
	}
	report := reporter{t.task, tip}
	reported := errors.Join(earlier,
		t.tolerate(ctx, errors.Join(report.hydrated(ctx, result), report.promoted(ctx, promotions),
			report.deployed(ctx, f, result, promotions))),
		report.rollouts(ctx, f, result, promotions))
	if t.seen("trunk", tip.Hash.String()) {
		return reported
	}
	if err := (&sweepTask{task: t.task}).reviewOpen(ctx, f.Spec.Trunk); err != nil {
		return errors.Join(reported, err)
	}
	t.remember("trunk", tip.Hash.String())
	for _, e := range result.Environments {
		if e.Status == hydrate.StatusConflict {
			return errors.Join(reported, fmt.Errorf("environment %s: %s", e.Name, e.Reason)) // the queue retries
		}
	}
	return reported
}

// publish pushes the artifacts of branches that moved, after all of them have. A registry that does not work stops
// nothing: the next task tries again.
func (t *trunkTask) publish(ctx context.Context, tip gitstore.Commit) {
	if t.space.Artifacts == nil {
		return
	}
	missing, err := t.space.Artifacts.Publish(ctx, tip)
	if err != nil {
		missing = err.Error()
	}
	if missing != "" {
		t.unsettled = true
		t.log.Warn("artifacts are missing in the registry: the next check pushes them", "reason", missing)
	}
}

// refused reports on a commit why it is not hydrated. Only a new commit or another configuration helps.
func (t *trunkTask) refused(ctx context.Context, c gitstore.Commit, why error) error {
	t.unsettled = true
	t.log.Warn("not hydrated", "commit", c.Hash.String(), "error", why)
	return t.forge.SetStatus(ctx, t.place.Repo(), c.Hash.String(),
		forge.Status{Context: t.context() + "/hydrate", State: forge.Failure, Description: why.Error()})
}

// tolerate returns an error from writing statuses if a retry may help. It logs other errors and returns nil, because
// the next task of the trunk writes the statuses again.
func (t *trunkTask) tolerate(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, forge.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	t.log.Warn("statuses could not be written", "error", err)
	t.unsettled = true
	return nil
}

// maxBackfill is the number of trunk commits before the tip that are hydrated after the fact. Older ones are skipped.
const maxBackfill = 100

// backfill hydrates the commits of the trunk before its tip that were not hydrated, because several were pushed at
// once or the service was down. Each gets its own commit on the branches and its own statuses. If a commit cannot be
// hydrated, backfill writes a status and continues with later ones. reported is the error of writing statuses.
func (t *trunkTask) backfill(ctx context.Context, tip gitstore.Commit) (reported, err error) {
	list, err := t.space.Commits.Missed(ctx, tip, maxBackfill)
	if err != nil {
		return nil, fmt.Errorf("commits before %s: %w", tip.Hash.Short(), err)
	}
	t.unsettled = t.unsettled || len(list) > 0
	for _, c := range list {
		f, _, err := t.space.Fleets.Fleet(ctx, c.Tree)
		if err := t.brokenFleet(ctx, c, err); err != nil && !errors.Is(err, ErrNoFleet) {
			return reported, err
		}
		if f == nil {
			continue
		}
		result, err := t.space.Branches.Hydrate(ctx, hydrate.Request{
			Commit: c, Write: true,
			PerPush: t.settings.PerPush,
		})
		if errors.Is(err, ErrRefused) {
			reported = errors.Join(reported, t.tolerate(ctx, t.refused(ctx, c, err)))
			continue
		}
		if err != nil {
			return reported, err
		}
		reported = errors.Join(reported, t.tolerate(ctx, reporter{t.task, c}.hydrated(ctx, result)))
	}
	return reported, nil
}

// tip returns the trunk's commit and its fleet, or ErrNoFleet. If the fleet of the commit cannot be read, it
// writes a red status on the commit and returns the last commit before it with a readable fleet, so that a mistake on
// the trunk stops neither promotions nor rollbacks.
func (t *trunkTask) tip(ctx context.Context) (gitstore.Commit, *fleet.Fleet, error) {
	var head gitstore.Hash
	var f *fleet.Fleet
	var broken error
	tip, err := t.space.Commits.Trunk(ctx, func(ctx context.Context, c gitstore.Commit) string {
		head = c.Hash
		if f, _, broken = t.space.Fleets.Fleet(ctx, c.Tree); broken != nil {
			return ""
		}
		return f.Spec.Trunk
	})
	if err != nil { // a failed fetch must not make policy and rights come from another branch
		return tip, nil, err
	}
	if tip.Hash != head {
		f, _, broken = t.space.Fleets.Fleet(ctx, tip.Tree)
	}
	return t.readable(ctx, tip, f, broken)
}

func (t *trunkTask) readable(ctx context.Context, tip gitstore.Commit, f *fleet.Fleet, err error) (gitstore.Commit,
	*fleet.Fleet, error,
) {
	if err == nil {
		return tip, f, nil
	}
	t.broken = err.Error()
	if err := t.brokenFleet(ctx, tip, err); err != nil {
		return tip, nil, err
	}
	good, f, err := t.space.Fleets.Readable(ctx, tip)
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return tip, nil, nil // no commit has a readable fleet
	}
	return good, f, err
}

// brokenFleet reports on a commit that its fleet cannot be read. It returns errors that are not mistakes in the fleet.
func (t *trunkTask) brokenFleet(ctx context.Context, tip gitstore.Commit, err error) error {
	problems, broken := errors.AsType[fleet.Problems](err)
	if !broken {
		return err
	}
	if problems.Absent() {
		return ErrNoFleet
	}
	t.unsettled = true
	return t.tolerate(ctx, t.forge.SetStatus(ctx, t.place.Repo(), tip.Hash.String(), forge.Status{
		Context: t.context() + "/hydrate", State: forge.Failure,
		Description: fmt.Sprintf("%d problems in the fleet: %s", len(problems), problems[0]),
	}))
}

// Most checks of promotions find what the last one found. Such a check ends after a listing of the refs. It must not if
// anything but a branch can change its result: the time, the forge, a check, or an error that a retry may mend. Every
// sweep makes a whole check, so that a status that somebody else overwrote, or another configuration, is noticed as
// before.

// settledKey is the subject under which a Bot remembers the refs of a repository in which only a move of a branch gives
// the trunk's task something to do.
const settledKey = "settled"

// settledRefs identifies the refs that the task reads and the settings that apply.
func (t *trunkTask) settledRefs(ctx context.Context) (string, error) {
	refs, err := t.space.Branches.Refs(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %+v", refs, t.settings), nil
}

// settle remembers the refs if the task, which has succeeded, left nothing to do. refs are those of the source
// repository, so it remembers none where the rendered branches are elsewhere.
func (t *trunkTask) settle(ctx context.Context, refs string) {
	if t.unsettled {
		return
	}
	output, onForge, err := t.space.Branches.Output(ctx)
	if err == nil && onForge && t.place.Fold() == hint.NewPlace(t.place.Forge(), output.Path).Fold() {
		t.remember(settledKey, refs)
	}
}

// quiet reports whether a hydration and promotions changed nothing, and can change something only if a branch moves.
func quiet(r *hydrate.Result, promotions []promote.Status) bool {
	for i := range r.Environments {
		e := &r.Environments[i]
		still := []hydrate.Status{hydrate.StatusUnchanged, hydrate.StatusChecked, hydrate.StatusElsewhere}
		if !slices.Contains(still, e.Status) || len(e.Failures)+len(e.Held) > 0 {
			return false
		}
	}
	for i := range promotions {
		if !promotions[i].Settled() {
			return false
		}
	}
	return true
}
