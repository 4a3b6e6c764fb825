package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// A fleet can take content from other repositories (kind: Repository). If the fleet's trunk asks for it, the bot also
// reviews merge requests of those repositories. It renders the fleet's trunk twice, with the other repository at the
// base and at the head of the merge request, and comments on that merge request. Permissions in the other repository
// decide whose changes the bot renders.

// CompanionRequest asks for a review of a change of another repository.
type CompanionRequest struct {
	Name       string        // of the repository in the fleet
	Base, Head gitstore.Hash // commits of that repository
	Trusted    bool          // somebody with write access there wrote the head
	From       hint.Place    // the repository
	With       []review.Pin  // changes of further repositories that are rendered together with this one
	Fleet      *FleetChange  // of the fleet itself, rendered together with this one; nil: the trunk
}

// FleetChange is a change of a fleet.
type FleetChange struct{ Base, Head gitstore.Commit }

// fleetReviews are the reviews of a change of a repository in the fleets that take content from it.
type fleetReviews struct {
	*task
	uses    []companions.Use
	verdict string // the name of their verdict; verdictOwn in a repository that is no fleet itself
	deps    *companions.Dependencies
}

func (t *task) fleetReviews(uses []companions.Use, fleetless bool, deps *companions.Dependencies) fleetReviews {
	f := fleetReviews{task: t, uses: uses, verdict: verdictFleets, deps: deps}
	if fleetless {
		f.verdict = verdictOwn
	}
	return f
}

// fleetless reports whether the repository is no fleet itself, so that nothing else writes the first comment and the
// status that the branch protection requires.
func (f fleetReviews) fleetless() bool { return f.verdict == verdictOwn }

// reviewForFleets writes a comment for each fleet, and one status with the worst verdict.
func (t *reviewTask) reviewForFleets(ctx context.Context, f fleetReviews) error {
	if !t.hint.Force {
		if t.currentForFleets(ctx) {
			return nil
		}
		if stopped, err := t.stopped(ctx, f.fleetless()); err != nil || stopped {
			return err
		}
	}
	head, err := t.head(ctx)
	if errors.Is(err, errOtherHead) {
		return t.retryBehind(t.mr.Number)
	}
	if err != nil {
		return err
	}
	base, err := t.space.Commits.MergeBase(ctx, t.target, head)
	if errors.Is(err, gitstore.ErrUnrelated) {
		if !f.fleetless() {
			return nil // the repository's own review says so
		}
		return t.unrelated(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.fetchDependencies(ctx); err != nil {
		return err
	}
	newer, unreached := false, false
	request := CompanionRequest{Base: base.Hash, Head: head.Hash, Trusted: t.own, From: t.place}
	worst, stopped, err := f.each(ctx, t.mr.TargetBranch, request,
		func(i int, u companions.Use, review *report.Review) error {
			unreached = unreached || review.Unreached
			outcome, err := t.publishFor(ctx, f, i, review)
			newer = newer || outcome == publish.Superseded
			return err
		})
	switch {
	case err != nil:
		return err
	case newer:
		return t.retryBehind(t.mr.Number)
	case worst == nil:
		return nil
	}
	if err := t.publishWorst(ctx, f, worst); err != nil {
		return err
	}
	t.log.Info("reviewed", "merge_request", t.mr.Number, "head", t.mr.Head, "fleets", len(f.uses))
	t.update(t.mr.Number, func(s *headState) {
		s.behind, s.verdict = 0, f.verdict
		s.fleets = reviewed{
			input: inputFor(t.mr, t.target.Hash, f.uses, t.identity), limit: t.limitIf(stopped),
			lacks: t.lacked(s.fleets.lacks, unreached),
		}
		if f.fleetless() {
			s.reviewedOwn(inputOf(t.mr, t.target.Hash, t.identity))
		}
	})
	return nil
}

// publishFor writes the page and the comment of the review for a fleet, by its index.
func (t *reviewTask) publishFor(ctx context.Context, f fleetReviews, i int,
	review *report.Review,
) (outcome publish.Outcome, err error) {
	u := f.uses[i]
	review.MergeRequest.Number, review.MergeRequest.URL, review.MergeRequest.Title = t.mr.Number, t.mr.URL, t.mr.Title
	options := publish.Options{ID: commentID(u.Fleet), Earlier: earlierCommentID(u.Fleet, f.uses), URL: t.mr.URL}
	if f.fleetless() && i == 0 {
		options.ID, options.Earlier = "", "" // with the commands, and with what waits for trust
	}
	if review.Changes != nil { // an error, which has no changes, is in the comment
		t.store(u.Fleet, t.mr, review)
	}
	t.rememberFleetScope(u, review)
	err = t.commenting(ctx, t.mr.Number, func(ctx context.Context) (err error) {
		outcome, err = publish.Comment(ctx, t.forge, t.place.Repo(), t.mr, review, options)
		return err
	})
	return outcome, err
}

// publishWorst writes the worst verdict of the reviews for fleets as the status of the head.
func (t *reviewTask) publishWorst(ctx context.Context, f fleetReviews, worst *report.Review) error {
	w, unlock, err := t.status(t.mr, f.verdict).writer(ctx, basisOf(t.mr, t.identity))
	if err != nil {
		return err
	}
	defer unlock()
	return publish.Status(ctx, w, t.place.Repo(), worst, publish.Options{
		Context: w.context, URL: t.mr.URL,
		Checks: t.settings.Checks,
	})
}

// reviewGroup writes the worst verdict on a merge group of the repository to the group's commit.
func (f fleetReviews) reviewGroup(ctx context.Context, branch string, r CompanionRequest) error {
	worst, _, err := f.each(ctx, branch, r, func(int, companions.Use, *report.Review) error { return nil })
	if err != nil || worst == nil {
		return err
	}
	return publish.Status(ctx, f.forge, f.place.Repo(), worst,
		publish.Options{Context: f.statusContext(ctx, branch, f.verdict), Checks: f.settings.Checks})
}

// each reviews a change of a branch in each fleet and calls do with the review. It returns the review with the worst
// verdict, or nil if no fleet asks for one, and whether a review exceeded a limit. If a fleet refuses the review, or
// the review exceeds a limit, do gets a review that contains the error. Other errors do not stop the reviews of the
// remaining fleets: each joins them, and a retry may succeed.
func (f fleetReviews) each(ctx context.Context, branch string, r CompanionRequest,
	do func(i int, u companions.Use, review *report.Review) error,
) (worst *report.Review, stopped bool, err error) {
	var failed []error
	trusted := r.Trusted
	for i, u := range f.uses {
		names := u.Names(branch)
		r.Name = names[0]
		rendered := f.deps.In(u.Fleet)
		r.With, r.Fleet = asPins(rendered.Pins), (*FleetChange)(rendered.Change)
		for _, name := range names[1:] {
			r.With = append(r.With, review.Pin{Name: name, Base: r.Base, Head: r.Head})
		}
		r.Trusted = trusted && rendered.Own
		review, err := f.of(ctx, u, r)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case errors.Is(err, ErrStopped), errors.Is(err, ErrRefused):
			stopped = stopped || errors.Is(err, ErrStopped)
			review = &report.Review{
				Base: r.Base.String(), Verdict: report.VerdictError,
				Errors: []string{fmt.Sprintf("fleet %s: %v", u.Fleet.Repo().Path, err)},
			}
		case errors.Is(err, ErrUnknownForge):
			review = nil // the configuration no longer names the fleet
		case err != nil:
			failed = append(failed, apart("fleet "+u.Fleet.Repo().Path, err))
			continue
		}
		if review == nil {
			f.Bot.uses.Forget(u.Fleet, f.place)
			continue
		}
		stopped = stopped || review.Stopped
		// the compared commits exist only in the clone of the fleet
		review.Head, review.Repository = r.Head.String(), f.place.Repo().Path
		f.deps.Show(review, u.Fleet)
		if err := do(i, u, review); err != nil {
			return nil, false, err
		}
		if worst == nil || rank(review.Verdict) > rank(worst.Verdict) {
			worst = review
		}
	}
	return worst, stopped, errors.Join(failed...)
}

// apart names another repository in an error and hides the error's type, so that the service does not delete this
// repository's clone because the other clone is damaged. Rate limits and Later errors keep their type, because they
// delay the task.
func apart(name string, err error) error {
	_, limited := errors.AsType[*forge.RateLimitError](err)
	_, later := errors.AsType[*Later](err)
	if limited || later {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.New(name + ": " + err.Error())
}

// of reviews the change in one fleet.
func (f fleetReviews) of(ctx context.Context, u companions.Use, r CompanionRequest) (*report.Review, error) {
	space, err := f.Open(ctx, u.Fleet)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return space.Reviews.Companion(ctx, r)
}

func rank(v report.Verdict) int {
	return slices.Index([]report.Verdict{
		report.VerdictPass, report.VerdictWarn, report.VerdictCaution,
		report.VerdictFail, report.VerdictError,
	}, v)
}

// unresolved makes the status of a merge request pending if Sluice cannot read what it depends on and its Depends-On
// lines are not those of the last review. Otherwise a new line would have no effect until the other forge answers.
func (f fleetReviews) unresolved(ctx context.Context, mr *forge.MergeRequest) error {
	if f.depended.SameLines(headKey(f.place, mr.Number), mr) {
		return nil
	}
	const text = "cannot read what this merge request depends on; Sluice tries again"
	err := f.say(ctx, mr, forge.Pending, text)
	if f.fleetless() || len(f.uses) == 0 {
		return err
	}
	return errors.Join(err, f.status(mr, verdictFleets).say(ctx, forge.Pending, text, ""))
}

// Uses reports whether a fleet takes content from a repository and shows reviews there.
func (b *Bot) Uses(p hint.Place) bool { return len(b.uses.Of(p)) > 0 }

// learnUses records the repositories whose merge requests the fleet's trunk asks to review. It enqueues sweeps of the
// repositories that are new, and of all of them if the trunk moved.
func (t *task) learnUses(ctx context.Context, f *fleet.Fleet, trunk gitstore.Hash) error {
	next := map[hint.Place]companions.Use{}
	for _, r := range f.Repositories {
		if !r.Reviews {
			continue
		}
		p, ok := t.PlaceOf(r.URL)
		if !ok || p.Fold() == t.place.Fold() || !sameOwner(p, t.place) {
			t.log.Warn("merge requests of a repository are not reviewed: it must have the owner of the fleet, and be among the repositories of the same forge in the configuration",
				"name", r.Name, "url", r.URL)
			continue
		}
		d := companions.DeclarationOf(p, r)
		one := companions.Use{Fleet: t.place, Name: d.Name, Branch: d.Branch, Trunk: trunk}
		for had, first := range next {
			if had.Fold() == p.Fold() {
				first.More = append(first.More, d)
				p, one = had, first
				break
			}
		}
		next[p] = one
	}
	return t.enqueueSweeps(ctx, t.uses.Set(t.place, next))
}

// sameOwner reports whether two repositories have one owner on one forge. A fleet of another owner must neither read a
// repository with the service's credential nor have the service write there.
func sameOwner(a, b hint.Place) bool {
	return a.Forge() == b.Forge() && a.Owner() == b.Owner()
}

func (t *task) enqueueSweeps(ctx context.Context, places []hint.Place) error {
	for _, p := range places {
		if err := t.Enqueue(ctx, hint.Hint{Place: p, Kind: hint.Sweep}); err != nil {
			return err
		}
	}
	return nil
}
