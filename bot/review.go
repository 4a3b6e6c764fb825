package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// Reviews compares merge requests and manages their previews.
type Reviews interface {
	// Reviewer judges the difference of two commits by the policy of the trunk. For an untrusted change it fetches
	// nothing with credentials.
	review.Reviewer
	// Companion compares the trunk of the fleet with another repository of it at two commits. It returns no review if
	// the trunk does not ask for such reviews.
	Companion(ctx context.Context, r CompanionRequest) (*report.Review, error)
	// DropPreview deletes the branch of a preview.
	DropPreview(ctx context.Context, branch string) error
	// Previews lists the branches with a prefix.
	Previews(ctx context.Context, prefix string) ([]string, error)
}

// reviewTask reviews a merge request: it updates the comment, the status and the preview.
type reviewTask struct {
	*task
	mr     *forge.MergeRequest
	target gitstore.Commit          // the tip of the target branch
	own    bool                     // somebody with write access wrote the head
	deps   *companions.Dependencies // nil: it depends on nothing
	// identity is that of deps; see dependencies. A sweep knows it without the dependencies.
	identity string
}

// review updates the comment, the status and the preview of a merge request.
func (t *task) review(ctx context.Context, number int) error {
	mr, err := t.listings.read(ctx, t.forge, t.place, number)
	if errors.Is(err, forge.ErrNotFound) {
		return t.gone(ctx, number)
	}
	if err != nil {
		return err
	}
	if err := t.announce(ctx, mr); err != nil {
		return err
	}
	r := &reviewTask{task: t, mr: mr}
	if mr.State != forge.Open {
		return r.closed(ctx)
	}
	if !t.settings.selects(mr) {
		t.log.Info("left out: a draft, or its labels say so", "merge_request", number, "head", mr.Head)
		return nil
	}
	return r.run(ctx)
}

// run reviews an open merge request, in its own fleet and for other fleets.
func (t *reviewTask) run(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	trust, err := t.trustOf(ctx, t.mr)
	if err != nil {
		return err
	}
	trusted := trust != companions.TrustNone
	t.own = trust == companions.TrustOwn
	var head []string // is fetched with the target; one that nobody trusts is not
	if trusted {
		head = append(head, t.forge.MergeRequestRef(t.mr.Number))
	}
	t.target, err = t.space.Commits.Revision(ctx, "refs/heads/"+t.mr.TargetBranch, head...)
	if errors.Is(err, gitstore.ErrNoRef) {
		return t.cannot(ctx, fmt.Sprintf("the target branch %s does not exist: give the merge request another one, or restore the branch", t.mr.TargetBranch), "")
	}
	if err != nil {
		return fmt.Errorf("target branch %s: %w", t.mr.TargetBranch, err)
	}
	uses := t.uses.Of(t.place)
	fleetless := t.absent(ctx, t.target) && (!trusted || t.absentHead(ctx)) // neither commit has a fleet
	if err := t.retire(ctx, t.mr, uses, fleetless); err != nil {
		return err
	}
	switch {
	case fleetless && len(uses) == 0:
		return nil
	case !trusted:
		t.log.Info("waits for trust", "merge_request", t.mr.Number, "head", t.mr.Head, "author", t.mr.Author.Login)
		return t.waits(ctx)
	}
	return t.runTrusted(ctx, uses, fleetless)
}

// runTrusted reviews a merge request that may be rendered.
func (t *reviewTask) runTrusted(ctx context.Context, uses []companions.Use, fleetless bool) error {
	deps, err := t.dependenciesOf(ctx, t.mr, t.own)
	fleets := t.fleetReviews(uses, fleetless, deps)
	if err != nil {
		return errors.Join(err, fleets.unresolved(ctx, t.mr))
	}
	t.deps, t.identity = deps, deps.Identity()
	t.depended.Remember(headKey(t.place, t.mr.Number), t.mr, t.deps, t.Clock())
	if !fleetless {
		err = t.reviewOwn(ctx)
	}
	if len(uses) > 0 && ctx.Err() == nil { // an error of one review does not prevent the other
		err = errors.Join(err, t.reviewForFleets(ctx, fleets))
	}
	return err
}

// reviewOwn reviews a merge request of a repository with a fleet, and records what it reviewed.
func (t *reviewTask) reviewOwn(ctx context.Context) error {
	if skip, err := t.reviewed(ctx); err != nil || skip {
		return err
	}
	reviewed := inputOf(t.mr, t.target.Hash, t.identity)
	outcome, err := t.reviewHead(ctx)
	if errors.Is(err, ErrStopped) {
		return t.exceeded(ctx, err.Error())
	}
	if errors.Is(err, ErrRefused) {
		return t.cannot(ctx, err.Error(), "")
	}
	if err != nil {
		return err
	}
	t.log.Info("reviewed", "merge_request", t.mr.Number, "head", t.mr.Head, "comment", string(outcome))
	if outcome == publish.Superseded {
		return t.retryBehind(t.mr.Number)
	}
	t.update(t.mr.Number, func(s *headState) {
		s.behind, s.failure = 0, failure{}
		s.reviewedOwn(reviewed)
	})
	return nil
}

// retryBehind returns an error that retries the review later, because the forge and Git report different heads. A newer
// head has its own hint, but the two can also disagree for a while. The delay doubles each time, up to a minute.
func (t *task) retryBehind(number int) error {
	const first, most = time.Second, time.Minute
	wait := min(2*t.state(number).behind, most)
	if wait == 0 {
		wait = first
	}
	t.update(number, func(s *headState) { s.behind = wait })
	return &Later{
		Until: t.Clock().Add(wait),
		Err:   fmt.Errorf("%w of merge request %d", errOtherHead, number),
	}
}

// cannot reports the reason why a merge request cannot be reviewed. A change of the merge request or of one of its
// branches triggers another review. basis is that of a review that would fail again as long as it is the same; "" if
// another review may succeed.
func (t *reviewTask) cannot(ctx context.Context, why, basis string) error {
	mr := t.mr
	t.update(mr.Number, func(s *headState) { s.reviewedOwn(input{}) }) // do not skip the next review
	t.log.Info("cannot be compared", "merge_request", mr.Number, "head", mr.Head, "why", why)
	t.note(mr, why)
	status := t.status(mr, verdictOwn)
	if t.settings.Checks {
		if failed, err := status.is(ctx, forge.Failure); err != nil ||
			failed && t.state(mr.Number).failure == (failure{mr.Head, why}) {
			return err
		}
		f, unlock, err := status.writer(ctx, basis)
		if err != nil {
			return err
		}
		err = f.SetCheck(ctx, t.place.Repo(), forge.Check{
			Name: f.context, Commit: mr.Head, State: forge.Failure,
			Title: why, Summary: why,
		})
		unlock()
		if err == nil {
			t.update(mr.Number, func(s *headState) { s.failure = failure{mr.Head, why} })
			return nil
		}
		if !errors.Is(err, forge.ErrUnsupported) && !errors.Is(err, forge.ErrForbidden) {
			return err
		}
	}
	return status.say(ctx, forge.Failure, why, basis)
}

// exceeded reports that the review of a head exceeded a limit: first in the comment, which has room for the whole
// reason, then in the status. Without the comment, an earlier review would stand there as if it were that of this head.
func (t *reviewTask) exceeded(ctx context.Context, why string) error {
	mr := t.mr
	r := &report.Review{
		Repository: t.place.Repo().Path, Head: mr.Head, Verdict: report.VerdictError,
		Errors: []string{why},
	}
	r.MergeRequest.Number, r.MergeRequest.URL, r.MergeRequest.Title = mr.Number, mr.URL, mr.Title
	t.deps.Show(r, t.place)
	var outcome publish.Outcome
	err := t.commenting(ctx, mr.Number, func(ctx context.Context) (err error) {
		outcome, err = publish.Comment(ctx, t.forge, t.place.Repo(), mr, r, publish.Options{URL: mr.URL})
		return err
	})
	switch {
	case ctx.Err() != nil: // the status is missing, even if the comment was written: the queue repeats the task
		return errors.Join(ctx.Err(), err)
	case err != nil: // repeating the review for a comment is too expensive: the status has the beginning of the reason
		t.log.Warn("the comment does not say why the review was stopped", "merge_request", mr.Number, "head", mr.Head,
			"why", why, "error", err)
	case outcome == publish.Superseded:
		return t.retryBehind(mr.Number)
	}
	if err := t.cannot(ctx, why, basisOf(mr, t.identity)); err != nil {
		return err
	}
	// no further review until the head changes or somebody comments /sluice retry
	t.update(mr.Number, func(s *headState) { s.own.limit = t.limit() })
	return nil
}

// absent reports whether a commit has no sluice.yaml. It parses nothing, because only worker processes read commits
// that are not on the trunk. If the commit cannot be read, it returns false, and the next step returns the error.
func (t *task) absent(ctx context.Context, c gitstore.Commit) bool {
	has, err := t.space.Fleets.HasFleet(ctx, c.Tree)
	return err == nil && !has
}

func (t *reviewTask) absentHead(ctx context.Context) bool {
	head, err := t.space.Commits.Revision(ctx, t.forge.MergeRequestRef(t.mr.Number))
	return err == nil && t.absent(ctx, head)
}

// reviewHead renders, compares and publishes. Changes of people without write access are rendered without credentials
// and get no preview.
func (t *reviewTask) reviewHead(ctx context.Context) (publish.Outcome, error) {
	mr := t.mr
	head, err := t.head(ctx)
	if errors.Is(err, errOtherHead) {
		return publish.Superseded, nil
	}
	if err != nil {
		return "", err
	}
	target, err := t.space.Commits.Revision(ctx, "refs/heads/"+mr.TargetBranch)
	if err != nil {
		return "", err
	}
	base, err := t.space.Commits.MergeBase(ctx, target, head)
	if errors.Is(err, gitstore.ErrUnrelated) {
		return publish.None, t.unrelated(ctx)
	}
	if err != nil {
		return "", err
	}
	request, err := t.request(ctx)
	if err != nil {
		return "", err
	}
	request.Base, request.Head = base, head
	result, err := t.space.Reviews.Review(ctx, request)
	if err != nil {
		return "", err
	}
	t.describe(ctx, result)
	t.rememberScope(ctx, result.Review, scope{target: target, base: base, head: head})
	outcome, err := t.publish(ctx, result.Review)
	if err != nil || outcome == publish.Superseded {
		return outcome, err
	}
	t.update(mr.Number, func(s *headState) {
		s.own.lacks, s.own.limit = t.lacked(s.own.lacks, result.Review.Unreached), t.limitIf(result.Review.Stopped)
	})
	return outcome, nil
}

// errOtherHead means that Git has another head of a merge request than the forge had when the task began.
var errOtherHead = errors.New("the forge and Git report different heads")

// head returns the commit of the head. It returns errOtherHead if that is not the head of mr.
func (t *reviewTask) head(ctx context.Context) (gitstore.Commit, error) {
	head, err := t.space.Commits.Revision(ctx, t.forge.MergeRequestRef(t.mr.Number))
	if err != nil {
		return head, fmt.Errorf("head of merge request %d: %w", t.mr.Number, err)
	}
	if head.Hash.String() != t.mr.Head {
		return head, errOtherHead
	}
	return head, nil
}

// unrelated reports that the merge request cannot be compared with its target branch.
func (t *reviewTask) unrelated(ctx context.Context) error {
	return t.cannot(ctx, fmt.Sprintf("it has no commit in common with %s: rebase it onto that branch", t.mr.TargetBranch),
		"")
}

// describe adds to a review what only the bot knows: the merge request, what it depends on, and the link to the
// preview.
func (t *reviewTask) describe(ctx context.Context, result *review.Result) {
	out := result.Review
	t.deps.Show(out, t.place)
	out.Repository = t.place.Repo().Path
	out.MergeRequest.Number, out.MergeRequest.URL, out.MergeRequest.Title = t.mr.Number, t.mr.URL, t.mr.Title
	switch p := result.Preview; {
	case p == nil:
	case p.Head != "":
		out.Links.Full = t.previewLink(ctx, t.mr, p)
	case p.Refused != "":
		out.Findings.Notes = append(out.Findings.Notes, fmt.Sprintf("there is no preview, because the Git server refuses to move the branch %s: %s",
			previewBranch(t.mr.Number), p.Refused))
	}
}

// publish writes the labels and the requests for reviews, the report's page, the comment and the status.
func (t *reviewTask) publish(ctx context.Context, review *report.Review) (outcome publish.Outcome, err error) {
	asked, err := t.triage(ctx, review)
	if err != nil {
		return "", err
	}
	f, unlock, err := t.status(t.mr, verdictOwn).writer(ctx, basisOf(t.mr, t.identity))
	if err != nil {
		return "", err
	}
	defer unlock()
	t.store(t.place, t.mr, review)
	options := publish.Options{Context: f.context, URL: cmp.Or(review.Links.HTML, t.mr.URL), Checks: t.settings.Checks, Asked: asked}
	err = t.commenting(ctx, t.mr.Number, func(ctx context.Context) (err error) {
		outcome, err = publish.Review(ctx, f, t.place.Repo(), t.mr, review, options)
		return err
	})
	return outcome, err
}

// previewLink returns the address of the preview's diff on the forge. It returns "" if the repository of the preview
// is not on the forge or is unknown; the report is complete without the link.
func (t *task) previewLink(ctx context.Context, mr *forge.MergeRequest, p *compare.PreviewResult) string {
	output, onForge, err := t.space.Branches.Output(ctx)
	if err != nil || !onForge {
		t.log.Debug("no link to the preview: the output repository is not on the forge", "error", err)
		return ""
	}
	return t.forge.CompareURL(mr, t.place.Repo(), output, p.Base, p.Head)
}

// closed deletes the preview of a closed merge request, enqueues reviews of others with the same head and, after a
// merge, hydrates the trunk.
func (t *reviewTask) closed(ctx context.Context) error {
	mr := t.mr
	t.noteClosed(mr)
	recorded, err := t.hasVerdict(ctx, mr.Number) // another replica may have reviewed it when it was open again
	if err != nil || !recorded && !t.hint.Force && t.state(mr.Number).ended == mr.State {
		return err
	}
	// the merge request may be reopened with the same head before the cleanup ends
	t.update(mr.Number, func(s *headState) { s.reviewedOwn(input{}) })
	if err := t.open(ctx); err != nil {
		return err
	}
	if err := t.dropReview(ctx, mr.Number); err != nil {
		return err
	}
	others, err := t.status(mr, verdictOwn).sameHead(ctx)
	if err != nil {
		return err
	}
	if err := t.reviewAgain(ctx, others); err != nil { // its verdict no longer counts for them
		return err
	}
	if mr.State == forge.Merged {
		if err := t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Trunk}); err != nil {
			return err
		}
	}
	t.update(mr.Number, func(s *headState) { s.ended = mr.State })
	return nil
}

// stateGone is the state of a merge request that the forge no longer has.
const stateGone forge.State = "gone"

// gone cleans up after a merge request that the forge no longer has, as closed does after others: the reviews that show
// it start again, and so do those of merge requests with its head. If the forge has one of that number again, the bot
// reviews that one.
func (t *task) gone(ctx context.Context, number int) error {
	t.noteGone(number)
	if err := t.announce(ctx, &forge.MergeRequest{Number: number, State: forge.Closed}); err != nil {
		return err
	}
	t.listings.remove(t.place, number)
	recorded, err := t.Verdicts.Verdict(ctx, t.place, number, verdictOwn)
	if err != nil {
		return fmt.Errorf("verdict of merge request %d: %w", number, err)
	}
	if recorded == "" && !t.hint.Force && t.state(number).ended == stateGone {
		return nil
	}
	if err := t.open(ctx); err != nil {
		return err
	}
	if err := t.dropReview(ctx, number); err != nil {
		return err
	}
	if head := parseVerdict(recorded).head; head != "" {
		others, err := t.withHead(ctx, head, number)
		if err != nil {
			return err
		}
		if err := t.reviewAgain(ctx, others); err != nil {
			return err
		}
	}
	t.update(number, func(s *headState) { s.reviewedOwn(input{}); s.ended = stateGone })
	return nil
}

// dropReview deletes the preview of a merge request, and forgets its verdict.
func (t *task) dropReview(ctx context.Context, number int) error {
	if err := t.space.Reviews.DropPreview(ctx, previewBranch(number)); errors.Is(err, ErrRefused) {
		t.log.Warn("the preview is not deleted", "merge_request", number, "error", err)
	} else if err != nil {
		return err
	}
	return t.forgetVerdicts(ctx, number)
}

// trustContext is the context of the commit status that records who trusts a head.
const trustContext = "sluice/trust"

// waits reports in the comment and the status that the head waits for trust. The comment also records since when the
// merge request has this head.
func (t *reviewTask) waits(ctx context.Context) error {
	mr := t.mr
	t.update(mr.Number, func(s *headState) { s.reviewedOwn(input{}) })
	t.note(mr, "its head waits for trust: somebody with write access must comment /sluice trust")
	since := t.Clock()
	if mr.Updated.After(since) { // by the forge's clock, which also dates comments
		since = mr.Updated
	}
	if err := t.commenting(ctx, mr.Number, func(ctx context.Context) error {
		return publish.Waits(ctx, t.forge, t.place.Repo(), mr.Number, mr.Head, since)
	}); err != nil {
		return err
	}
	return t.say(ctx, mr, forge.Pending, "not rendered: somebody with write access must comment `/sluice trust`")
}
