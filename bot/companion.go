package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
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

// use is a fleet that takes content from a repository and shows reviews there.
type use struct {
	fleet  hint.Place
	place  hint.Place    // the repository, as the fleet's trunk or the configuration spells it
	name   string        // of the repository in the fleet
	branch string        // that the fleet takes; "" if it takes tags
	trunk  gitstore.Hash // tree of the fleet's trunk
}

// maxUses bounds the fleets that review one merge request.
const maxUses = 8

// uses maps each fleet to the repositories that it takes content from. The tasks of the fleets' trunks update it. It is safe for
// concurrent use.
type uses struct {
	mu      sync.Mutex
	byFleet map[hint.Place]map[hint.Place]use // fleet → repository → use; the keys are folded
	ended   map[hint.Place]map[hint.Place]use // repository → fleet → use that the fleet no longer asks for; the keys are folded
}

func newUses() *uses {
	return &uses{byFleet: map[hint.Place]map[hint.Place]use{}, ended: map[hint.Place]map[hint.Place]use{}}
}

// fold returns a place that is equal for all spellings of a repository: forges ignore the case of paths.
func fold(p hint.Place) hint.Place { return hint.NewPlace(p.Forge(), strings.ToLower(p.Repo().Path)) }

// of returns the fleets that take content from a repository, by name, at most maxUses.
func (u *uses) of(p hint.Place) []use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []use
	for _, all := range u.byFleet {
		if one, ok := all[fold(p)]; ok {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b use) int { return cmp.Compare(a.fleet, b.fleet) })
	return out[:min(len(out), maxUses)]
}

// sweptWith returns the repositories to sweep with a fleet that takes content from them. It omits
// repositories that are fleets with such content themselves. They have their own sweeps, and two fleets that take content from each
// other would trigger each other's sweeps forever.
func (u *uses) sweptWith(fleetPlace hint.Place) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	for p, one := range u.byFleet[fold(fleetPlace)] {
		if len(u.byFleet[p]) == 0 {
			out = append(out, one.place)
		}
	}
	slices.Sort(out)
	return out
}

// set replaces the repositories of a fleet. It returns those that are new, that ended or whose entry changed; a new trunk changes all
// entries.
func (u *uses) set(fleetPlace hint.Place, next map[hint.Place]use) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	folded := make(map[hint.Place]use, len(next))
	for p, one := range next {
		one.place = p
		if u.byFleet[fold(fleetPlace)][fold(p)] != one {
			out = append(out, p)
		}
		folded[fold(p)] = one
		delete(u.ended[fold(p)], fold(fleetPlace))
	}
	for p, one := range u.byFleet[fold(fleetPlace)] {
		if _, still := folded[p]; !still {
			u.end(fleetPlace, p, one)
			out = append(out, one.place)
		}
	}
	slices.Sort(out)
	u.byFleet[fold(fleetPlace)] = folded
	return out
}

// forget removes a repository from those of a fleet that no longer asks for reviews.
func (u *uses) forget(fleetPlace, p hint.Place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one, ok := u.byFleet[fold(fleetPlace)][fold(p)]; ok {
		u.end(fleetPlace, p, one)
	}
	delete(u.byFleet[fold(fleetPlace)], fold(p))
}

// end records that a fleet no longer asks for reviews. The caller holds mu.
func (u *uses) end(fleetPlace, p hint.Place, one use) {
	if u.ended[fold(p)] == nil {
		u.ended[fold(p)] = map[hint.Place]use{}
	}
	u.ended[fold(p)][fold(fleetPlace)] = one
}

// over returns the fleets that asked for reviews in a repository since the start of the process, and no longer do, by name.
func (u *uses) over(p hint.Place) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	for _, one := range u.ended[fold(p)] {
		out = append(out, one.fleet)
	}
	slices.Sort(out)
	return out
}

// Uses reports whether a fleet takes content from a repository and shows reviews there.
func (b *Bot) Uses(p hint.Place) bool { return len(b.uses.of(p)) > 0 }

// learnUses records the repositories whose merge requests the fleet's trunk asks to review. It enqueues sweeps of the repositories that
// are new, and of all of them if the trunk moved.
func learnUses(ctx context.Context, j *job, f *fleet.Fleet, trunk gitstore.Hash) error {
	next := map[hint.Place]use{}
	for _, r := range f.Repositories {
		if !r.Reviews {
			continue
		}
		p, ok := j.PlaceOf(r.URL)
		if !ok || fold(p) == fold(j.place) || !sameOwner(p, j.place) {
			j.log.Warn("merge requests of a repository are not reviewed: it must have the owner of the fleet, and be among the repositories of the same forge in the configuration",
				"name", r.Name, "url", r.URL)
			continue
		}
		one := use{fleet: j.place, name: r.Name, trunk: trunk}
		if branch, ok := strings.CutPrefix(r.Wanted, "refs/heads/"); ok {
			one.branch = branch
		}
		next[p] = one
	}
	return enqueueSweeps(ctx, j, j.uses.set(j.place, next))
}

// sameOwner reports whether two repositories have one owner on one forge. A fleet of another owner must neither read a repository with the
// service's credential nor have the service write there.
func sameOwner(a, b hint.Place) bool {
	return a.Forge() == b.Forge() && ownerOf(a) == ownerOf(b)
}

func enqueueSweeps(ctx context.Context, j *job, places []hint.Place) error {
	for _, p := range places {
		if err := j.Enqueue(ctx, hint.Hint{Place: p, Kind: hint.Sweep}); err != nil {
			return err
		}
	}
	return nil
}

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
	newer := false
	worst, stopped, err := c.each(ctx, CompanionRequest{Base: base.Hash, Head: head.Hash, Trusted: own, From: c.place}, func(i int, u use, review *report.Review) error {
		review.MergeRequest.Number, review.MergeRequest.URL, review.MergeRequest.Title = mr.Number, mr.URL, mr.Title
		options := publish.Options{ID: commentID(u.fleet), Earlier: earlierCommentID(u.fleet, c.uses), URL: mr.URL}
		if c.fleetless && i == 0 {
			options.ID, options.Earlier = "", "" // with the commands, and with what waits for trust
		}
		keepFor(c.job, u.fleet, mr, review)
		rememberCompanionScope(c.job, mr.Number, u, review, c.deps)
		outcome, err := publish.Comment(ctx, c.forge, c.place.Repo(), mr, review, options)
		newer = newer || outcome == publish.Superseded
		return err
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
	worst, _, err := c.each(ctx, r, func(int, use, *report.Review) error { return nil })
	if err != nil || worst == nil {
		return err
	}
	return publish.Status(ctx, c.forge, c.place.Repo(), worst, publish.Options{Context: c.context(ctx, branch), Checks: c.settings.Checks})
}

// each reviews the change in each fleet and calls do with the review. It returns the review with the worst verdict, or nil if no fleet
// asks for one, and whether a review exceeded a limit. If a fleet refuses the review, or the review exceeds a limit, do gets a review that
// contains the error. Other errors do not stop the reviews of the remaining fleets: each joins them, and a retry may succeed.
func (c companions) each(ctx context.Context, r CompanionRequest, do func(i int, u use, review *report.Review) error) (worst *report.Review, stopped bool, err error) {
	var failed []error
	trusted := r.Trusted
	for i, u := range c.uses {
		var own bool
		r.Name = u.name
		r.With, r.Fleet, own = c.deps.in(u.fleet)
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
