package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// A fleet can take content from other repositories (kind: Repository). If the fleet's trunk asks for it, the bot also reviews merge
// requests of those repositories. It renders the fleet's trunk twice, with the other repository at the base and at the head of the merge
// request, and comments on that merge request. Permissions in the other repository decide whose changes the bot renders.

// CompanionRequest asks for a review of a change of another repository.
type CompanionRequest struct {
	Name       string        // of the repository in the fleet
	Base, Head gitstore.Hash // commits of that repository
	Trusted    bool          // somebody with write access there wrote the head
	From       hint.Place    // the repository
	With       []Pin         // changes of further repositories that are rendered together with this one
	Fleet      *FleetChange  // of the fleet itself, rendered together with this one; nil: the trunk
}

// Pin is a change of a repository that a fleet takes content from.
type Pin struct {
	Name       string        // of the repository in the fleet
	Base, Head gitstore.Hash // commits of that repository
}

// FleetChange is a change of a fleet.
type FleetChange struct{ Base, Head gitstore.Commit }

// companions are the reviews of a merge request of a repository that fleets take content from.
type companions struct {
	*job
	uses      []use
	fleetless bool // the repository has no fleet itself
	deps      *dependencies
}

func companionKey(number int) string { return fmt.Sprintf("companion/%d", number) }

// companionLimitKey marks a head whose reviews for fleets exceed a limit. The repository's own review has a mark of its own.
func companionLimitKey(number int) string { return fmt.Sprintf("companion-limit/%d", number) }

// review writes a comment for each fleet, and one status with the worst verdict.
func (c companions) review(ctx context.Context, mr *forge.MergeRequest, target gitstore.Commit, own bool) error {
	if !c.hint.Force {
		if companionsUnchanged(ctx, c.job, mr, target.Hash, c.deps.identity()) {
			return nil
		}
		if stopped, err := c.stopped(ctx, mr, c.fleetless, c.deps.identity()); err != nil || stopped {
			return err
		}
	}
	base, head, err := c.compared(ctx, mr, target)
	if err != nil || head.Hash.IsZero() {
		return err
	}
	if err := c.deps.fetch(ctx, c.job, mr.Number); err != nil {
		return err
	}
	newer, lacks := false, false
	worst, stopped, err := c.each(ctx, mr.TargetBranch, CompanionRequest{Base: base.Hash, Head: head.Hash, Trusted: own, From: c.place}, func(i int, u use, review *report.Review) error {
		review.MergeRequest.Number, review.MergeRequest.URL, review.MergeRequest.Title = mr.Number, mr.URL, mr.Title
		options := publish.Options{ID: commentID(u.fleet), Earlier: earlierCommentID(u.fleet, c.uses), URL: mr.URL}
		if c.fleetless && i == 0 {
			options.ID, options.Earlier = "", "" // with the commands, and with what waits for trust
		}
		lacks = lacks || review.Unreached
		keepFor(c.job, u.fleet, mr, review)
		rememberCompanionScope(c.job, mr.Number, u, review, c.deps)
		return commenting(ctx, c.job, mr.Number, func(ctx context.Context) error {
			outcome, err := publish.Comment(ctx, c.forge, c.place.Repo(), mr, review, options)
			newer = newer || outcome == publish.Superseded
			return err
		})
	})
	switch {
	case err != nil:
		return err
	case newer:
		return c.behind(mr.Number)
	case worst == nil:
		return nil
	}
	if err := c.status(ctx, mr, worst); err != nil {
		return err
	}
	c.log.Info("reviewed", "merge_request", mr.Number, "head", mr.Head, "fleets", len(c.uses))
	noteUnreached(c.job, mr, verdictFleets, lacks)
	limited := ""
	if stopped {
		limited = limitState(mr, c.deps.identity()) // the same head would exceed the limit again
	}
	c.remember(companionLimitKey(mr.Number), limited)
	c.remember(behindKey(mr.Number), "")
	c.remember(companionKey(mr.Number), c.verdictName()+"\n"+companionState(mr, target.Hash, c.uses, c.deps.identity()))
	if c.fleetless {
		c.remember(reviewKey(mr.Number), reviewState(mr, target.Hash, c.deps.identity()))
	}
	return nil
}

// compared returns the merge base and the head. The head is zero if they cannot be compared, which the merge request then says.
func (c companions) compared(ctx context.Context, mr *forge.MergeRequest, target gitstore.Commit) (base, head gitstore.Commit, err error) {
	head, err = c.space.Commits.Revision(ctx, c.forge.MergeRequestRef(mr.Number))
	if err != nil {
		return base, head, fmt.Errorf("head of merge request %d: %w", mr.Number, err)
	}
	if head.Hash.String() != mr.Head {
		return base, head, c.behind(mr.Number)
	}
	base, err = c.space.Commits.MergeBase(ctx, target, head)
	if errors.Is(err, gitstore.ErrUnrelated) {
		if !c.fleetless {
			return base, gitstore.Commit{}, nil // the repository's own review says so
		}
		return base, gitstore.Commit{}, c.cannot(ctx, mr, fmt.Sprintf("it has no commit in common with %s: rebase it onto that branch", mr.TargetBranch))
	}
	if err != nil {
		return base, head, err
	}
	return base, head, nil
}

// group writes the worst verdict on a merge group of the repository to the group's commit.
func (c companions) group(ctx context.Context, branch string, r CompanionRequest) error {
	worst, _, err := c.each(ctx, branch, r, func(int, use, *report.Review) error { return nil })
	if err != nil || worst == nil {
		return err
	}
	return publish.Status(ctx, c.forge, c.place.Repo(), worst, publish.Options{Context: c.context(ctx, branch), Checks: c.settings.Checks})
}

// each reviews a change of a branch in each fleet and calls do with the review. It returns the review with the worst verdict, or nil if no fleet
// asks for one, and whether a review exceeded a limit. If a fleet refuses the review, or the review exceeds a limit, do gets a review that
// contains the error. Other errors do not stop the reviews of the remaining fleets: each joins them, and a retry may succeed.
func (c companions) each(ctx context.Context, branch string, r CompanionRequest, do func(i int, u use, review *report.Review) error) (worst *report.Review, stopped bool, err error) {
	var failed []error
	trusted := r.Trusted
	for i, u := range c.uses {
		var own bool
		names := u.names(branch)
		r.Name = names[0]
		r.With, r.Fleet, own = c.deps.in(u.fleet)
		for _, name := range names[1:] {
			r.With = append(r.With, Pin{Name: name, Base: r.Base, Head: r.Head})
		}
		r.Trusted = trusted && own
		review, err := c.of(ctx, u, r)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case errors.Is(err, ErrStopped), errors.Is(err, ErrRefused):
			stopped = stopped || errors.Is(err, ErrStopped)
			review = &report.Review{Base: r.Base.String(), Verdict: report.VerdictError, Errors: []string{fmt.Sprintf("fleet %s: %v", u.fleet.Repo().Path, err)}}
		case errors.Is(err, ErrUnknownForge):
			review = nil // the configuration no longer names the fleet
		case err != nil:
			failed = append(failed, apart("fleet "+u.fleet.Repo().Path, err))
			continue
		}
		if review == nil {
			c.Bot.uses.forget(u.fleet, c.place)
			continue
		}
		stopped = stopped || review.Stopped
		review.Head, review.Repository = r.Head.String(), c.place.Repo().Path // the compared commits exist only in the clone of the fleet
		c.deps.show(review, u.fleet)
		if err := do(i, u, review); err != nil {
			return nil, false, err
		}
		if worst == nil || rank(review.Verdict) > rank(worst.Verdict) {
			worst = review
		}
	}
	return worst, stopped, errors.Join(failed...)
}

// apart names another repository in an error and hides the error's type, so that the service does not delete this repository's clone because
// the other clone is damaged. Rate limits and Later errors keep their type, because they delay the task.
func apart(name string, err error) error {
	_, limited := errors.AsType[*forge.RateLimitError](err)
	_, later := errors.AsType[*Later](err)
	if limited || later {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.New(name + ": " + err.Error())
}

// of reviews the change in one fleet.
func (c companions) of(ctx context.Context, u use, r CompanionRequest) (*report.Review, error) {
	space, err := c.Open(ctx, u.fleet)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return space.Reviews.Companion(ctx, r)
}

// status writes the verdict.
func (c companions) status(ctx context.Context, mr *forge.MergeRequest, worst *report.Review) error {
	f, done, err := c.forVerdict(ctx, mr, c.verdictName(), verdictBasis(mr, c.deps.identity()))
	if err != nil {
		return err
	}
	defer done()
	return publish.Status(ctx, f, c.place.Repo(), worst, publish.Options{Context: f.context, URL: mr.URL, Checks: c.settings.Checks})
}

// verdictName returns the name of the verdict. A repository that is a fleet itself has one of its own beside this one.
func (c companions) verdictName() string {
	if c.fleetless {
		return verdictOwn
	}
	return verdictFleets
}

// context returns the context of the status. A repository that is a fleet itself has a status of its own beside this one.
func (c companions) context(ctx context.Context, branch string) string {
	if c.fleetless {
		return c.contextFor(ctx, branch)
	}
	return c.contextFor(ctx, branch) + "/fleets"
}

func rank(v report.Verdict) int {
	return slices.Index([]report.Verdict{report.VerdictPass, report.VerdictWarn, report.VerdictCaution, report.VerdictFail, report.VerdictError}, v)
}

// unresolved makes the status of a merge request pending if Sluice cannot read what it depends on and its Depends-On lines are not those of
// the last review. Otherwise a new line would have no effect until the other forge answers.
func (c companions) unresolved(ctx context.Context, mr *forge.MergeRequest) error {
	if d, ok := c.depended.Get(c.subject(dependsKey(mr.Number))); ok && slices.Equal(d.lines, command.DependsOn(mr.Body)) {
		return nil
	}
	const text = "cannot read what this merge request depends on; Sluice tries again"
	err := c.say(ctx, mr, forge.Pending, text)
	if c.fleetless || len(c.uses) == 0 {
		return err
	}
	return errors.Join(err, sayAs(ctx, c.job, mr, verdictFleets, forge.Status{State: forge.Pending, Description: text}, ""))
}
