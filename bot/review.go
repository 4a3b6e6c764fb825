package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
)

// Reviews compares merge requests and manages their previews.
type Reviews interface {
	// Review compares two commits and judges the difference by the policy of the trunk. For an untrusted change it
	// fetches nothing with credentials.
	Review(ctx context.Context, r ReviewRequest) (*report.Review, *compare.PreviewResult, error)
	// Companion compares the trunk of the fleet with another repository of it at two commits. It returns no review if the trunk does not ask
	// for such reviews.
	Companion(ctx context.Context, r CompanionRequest) (*report.Review, error)
	// DropPreview deletes the branch of a preview.
	DropPreview(ctx context.Context, branch string) error
	// Previews lists the branches with a prefix.
	Previews(ctx context.Context, prefix string) ([]string, error)
}

// ReviewRequest asks for a review.
type ReviewRequest struct {
	Base, Head gitstore.Commit
	Trusted    bool
	Preview    *compare.Preview // nil: no preview
	With       []Pin            // changes of other repositories that are rendered together with this one
}

// review updates the comment, the status and the preview of a merge request.
func (j *job) review(ctx context.Context, number int) error {
	mr, err := j.listings.read(ctx, j.forge, j.place, number)
	if errors.Is(err, forge.ErrNotFound) {
		return gone(ctx, j, number)
	}
	if err != nil {
		return err
	}
	if err := announce(ctx, j, mr); err != nil {
		return err
	}
	log := j.log.With("merge_request", number, "head", mr.Head)
	if mr.State != forge.Open {
		return j.closed(ctx, mr)
	}
	if !j.settings.selects(mr) {
		log.Info("left out: a draft, or its labels say so")
		return nil
	}
	if err := j.open(ctx); err != nil {
		return err
	}
	trusted, by, err := j.trusted(ctx, mr)
	if err != nil {
		return err
	}
	var head []string // is fetched with the target; one that nobody trusts is not
	if trusted {
		head = append(head, j.forge.MergeRequestRef(mr.Number))
	}
	target, err := j.space.Commits.Revision(ctx, "refs/heads/"+mr.TargetBranch, head...)
	if errors.Is(err, gitstore.ErrNoRef) {
		return j.cannot(ctx, mr, fmt.Sprintf("the target branch %s does not exist: give the merge request another one, or restore the branch", mr.TargetBranch))
	}
	if err != nil {
		return fmt.Errorf("target branch %s: %w", mr.TargetBranch, err)
	}
	uses := j.uses.of(j.place)
	fleetless := j.absent(ctx, target) && (!trusted || j.absentHead(ctx, mr)) // neither commit has a fleet
	if err := retire(ctx, j, mr, uses, fleetless); err != nil {
		return err
	}
	switch {
	case fleetless && len(uses) == 0:
		return nil
	case !trusted:
		log.Info("waits for trust", "author", mr.Author.Login)
		j.remember(reviewKey(number), "")
		return j.waits(ctx, mr)
	}
	return reviewTrusted(ctx, companions{job: j, uses: uses, fleetless: fleetless}, mr, target, by == "")
}

// reviewTrusted reviews a merge request that may be rendered, in its own fleet and for other fleets. own means that somebody with write
// access wrote the head.
func reviewTrusted(ctx context.Context, c companions, mr *forge.MergeRequest, target gitstore.Commit, own bool) error {
	var err error
	if c.deps, err = dependenciesOf(ctx, c.job, mr, own); err != nil {
		return errors.Join(err, c.unresolved(ctx, mr))
	}
	rememberDepended(c.job, mr, c.deps)
	if !c.fleetless {
		err = ownReview(ctx, c.job, mr, target, own, c.deps)
	}
	if len(c.uses) > 0 && ctx.Err() == nil { // an error of one review does not prevent the other
		err = errors.Join(err, c.review(ctx, mr, target, own))
	}
	return err
}

// ownReview reviews a merge request of a repository with a fleet.
func ownReview(ctx context.Context, j *job, mr *forge.MergeRequest, target gitstore.Commit, own bool, deps *dependencies) error {
	if skip, err := j.reviewed(ctx, mr, target, deps.identity()); err != nil || skip {
		return err
	}
	return j.publishReview(ctx, mr, own, deps, reviewState(mr, target.Hash, deps.identity()))
}

// publishReview reviews the head of a merge request and records its state.
func (j *job) publishReview(ctx context.Context, mr *forge.MergeRequest, own bool, deps *dependencies, state string) error {
	number := mr.Number
	outcome, err := j.reviewHead(ctx, mr, own, deps)
	if errors.Is(err, ErrStopped) {
		return stoppedReview(ctx, j, mr, deps, err.Error())
	}
	if errors.Is(err, ErrRefused) {
		return j.cannot(ctx, mr, err.Error())
	}
	if err != nil {
		return err
	}
	j.log.Info("reviewed", "merge_request", number, "head", mr.Head, "comment", string(outcome))
	if outcome == publish.Superseded {
		return j.behind(number)
	}
	j.remember(behindKey(number), "")
	j.remember(reviewKey(number), state)
	j.remember(fmt.Sprintf("cannot/%d", number), "")
	return nil
}

// reviewed reports whether a review would repeat an earlier one, or one that somebody cancelled. A forced review is
// never skipped.
func (j *job) reviewed(ctx context.Context, mr *forge.MergeRequest, target gitstore.Commit, identity string) (bool, error) {
	if j.hint.Force {
		return false, nil
	}
	if !repeatsUnreached(j, mr, verdictOwn) && j.reviewedAt(ctx, mr, target, identity) || j.seen(limitKey(mr.Number), limitState(mr, identity)) {
		if same, err := stands(ctx, j, mr, verdictOwn, identity); err != nil || same {
			return same, err
		}
	}
	return j.stopped(ctx, mr, true, identity)
}

// limitState identifies a review that exceeded a limit. It would do so again as long as the merge request has this head and these
// dependencies.
func limitState(mr *forge.MergeRequest, identity string) string { return mr.Head + " " + identity }

func reviewKey(number int) string { return fmt.Sprintf("mr/%d", number) }

func limitKey(number int) string { return fmt.Sprintf("limit/%d", number) }

func behindKey(number int) string { return fmt.Sprintf("behind/%d", number) }

// behind returns an error that retries the review later, because the forge and Git report different heads. A newer
// head has its own hint, but the two can also disagree for a while. The delay doubles each time, up to a minute.
func (j *job) behind(number int) error {
	const first, most = time.Second, time.Minute
	wait, err := time.ParseDuration(j.recall(behindKey(number)))
	wait = min(2*wait, most)
	if err != nil {
		wait = first
	}
	j.remember(behindKey(number), wait.String())
	return &Later{Until: j.Clock().Add(wait), Err: fmt.Errorf("the forge and Git report different heads of merge request %d", number)}
}

// cannot reports the reason why a merge request cannot be reviewed. A change of the merge request or of one of its
// branches triggers another review.
func (j *job) cannot(ctx context.Context, mr *forge.MergeRequest, why string) error {
	return cannotReview(ctx, j, mr, why, "")
}

// cannotReview is cannot for a review that would fail again as long as its verdictBasis is the same.
func cannotReview(ctx context.Context, j *job, mr *forge.MergeRequest, why, basis string) error {
	j.remember(reviewKey(mr.Number), "") // do not skip the next review
	j.log.Info("cannot be compared", "merge_request", mr.Number, "head", mr.Head, "why", why)
	note(j, mr, why)
	key, state := fmt.Sprintf("cannot/%d", mr.Number), mr.Head+" "+why
	if j.settings.Checks {
		if failed, err := gave(ctx, j, mr, forge.Failure); err != nil || failed && j.seen(key, state) {
			return err
		}
		f, done, err := j.forVerdict(ctx, mr, verdictOwn, basis)
		if err != nil {
			return err
		}
		err = f.SetCheck(ctx, j.place.Repo(), forge.Check{Name: f.context, Commit: mr.Head, State: forge.Failure, Title: why, Summary: why})
		done()
		if err == nil {
			j.remember(key, state)
			return nil
		}
		if !errors.Is(err, forge.ErrUnsupported) && !errors.Is(err, forge.ErrForbidden) {
			return err
		}
	}
	return sayAs(ctx, j, mr, verdictOwn, forge.Status{State: forge.Failure, Description: why}, basis)
}

// absent reports whether a commit has no sluice.yaml. It parses nothing, because only worker processes read commits
// that are not on the trunk. If the commit cannot be read, it returns false, and the next step returns the error.
func (j *job) absent(ctx context.Context, c gitstore.Commit) bool {
	has, err := j.space.Fleets.HasFleet(ctx, c.Tree)
	return err == nil && !has
}

func (j *job) absentHead(ctx context.Context, mr *forge.MergeRequest) bool {
	head, err := j.space.Commits.Revision(ctx, j.forge.MergeRequestRef(mr.Number))
	return err == nil && j.absent(ctx, head)
}

// reviewHead renders, compares and publishes. own means that the author has write access. Other changes are rendered
// without credentials and get no preview.
func (j *job) reviewHead(ctx context.Context, mr *forge.MergeRequest, own bool, deps *dependencies) (publish.Outcome, error) {
	head, err := j.space.Commits.Revision(ctx, j.forge.MergeRequestRef(mr.Number))
	if err != nil {
		return "", fmt.Errorf("head of merge request %d: %w", mr.Number, err)
	}
	if head.Hash.String() != mr.Head {
		return publish.Superseded, nil
	}
	target, err := j.space.Commits.Revision(ctx, "refs/heads/"+mr.TargetBranch)
	if err != nil {
		return "", err
	}
	base, err := j.space.Commits.MergeBase(ctx, target, head)
	if errors.Is(err, gitstore.ErrUnrelated) {
		return publish.None, j.cannot(ctx, mr, fmt.Sprintf("it has no commit in common with %s: rebase it onto that branch", mr.TargetBranch))
	}
	if err != nil {
		return "", err
	}
	request, err := reviewRequest(ctx, j, mr, own, deps)
	if err != nil {
		return "", err
	}
	request.Base, request.Head = base, head
	review, preview, err := j.space.Reviews.Review(ctx, request)
	if err != nil {
		return "", err
	}
	deps.show(review, j.place)
	rememberScope(ctx, j, mr, review, scope{target: target, base: base, head: head})
	review.Repository = j.place.Repo().Path
	review.MergeRequest.Number, review.MergeRequest.URL, review.MergeRequest.Title = mr.Number, mr.URL, mr.Title
	if preview != nil && preview.Head != "" {
		review.Links.Full = j.previewLink(ctx, mr, preview)
	}
	f, done, err := j.forVerdict(ctx, mr, verdictOwn, verdictBasis(mr, deps.identity()))
	if err != nil {
		return "", err
	}
	defer done()
	if review.Links.HTML, err = j.Reports.Keep(j.place, j.place, mr, review); err != nil {
		j.log.Warn("the page of the report is not kept", "merge_request", mr.Number, "head", mr.Head, "error", err)
	}
	options := publish.Options{Context: f.context, URL: cmp.Or(review.Links.HTML, mr.URL), Checks: j.settings.Checks}
	var outcome publish.Outcome
	err = commenting(ctx, j, mr.Number, func(ctx context.Context) (err error) {
		outcome, err = publish.Review(ctx, f, j.place.Repo(), mr, review, options)
		return err
	})
	if err != nil || outcome == publish.Superseded {
		return outcome, err
	}
	noteUnreached(j, mr, verdictOwn, review.Unreached)
	limited := "" // a retry may have stayed within the limits
	if review.Stopped {
		limited = limitState(mr, deps.identity())
	}
	j.remember(limitKey(mr.Number), limited)
	return outcome, nil
}

// previewLink returns the address of the preview's diff on the forge. It returns "" if the repository of the preview
// is not on the forge or is unknown; the report is complete without the link.
func (j *job) previewLink(ctx context.Context, mr *forge.MergeRequest, p *compare.PreviewResult) string {
	output, onForge, err := j.space.Branches.Output(ctx)
	if err != nil || !onForge {
		j.log.Debug("no link to the preview: the output repository is not on the forge", "error", err)
		return ""
	}
	return j.forge.CompareURL(mr, j.place.Repo(), output, p.Base, p.Head)
}

func (j *job) context() string {
	if j.settings.Context != "" {
		return j.settings.Context
	}
	return "sluice"
}

// closed deletes the preview of a closed merge request, enqueues reviews of others with the same head and, after a
// merge, hydrates the trunk.
func (j *job) closed(ctx context.Context, mr *forge.MergeRequest) error {
	if err := j.Reports.Closed(j.place, mr); err != nil { // the next sweep repeats it
		j.log.Warn("the list of merge requests is not current", "merge_request", mr.Number, "error", err)
	}
	key := reviewKey(mr.Number)
	none, err := forgotten(ctx, j, mr.Number) // another replica may have reviewed it when it was open again
	if err != nil || none && !j.hint.Force && j.seen(key, string(mr.State)) {
		return err
	}
	j.remember(key, "") // the merge request may be reopened with the same head before the cleanup ends
	if err := j.open(ctx); err != nil {
		return err
	}
	if err := dropReview(ctx, j, mr.Number); err != nil {
		return err
	}
	others, err := j.sameHead(ctx, mr)
	if err != nil {
		return err
	}
	if err := reviewAgain(ctx, j, others); err != nil { // its verdict no longer counts for them
		return err
	}
	if mr.State == forge.Merged {
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Trunk}); err != nil {
			return err
		}
	}
	j.remember(key, string(mr.State))
	return nil
}

// dropReview deletes the preview of a merge request, and forgets its verdict.
func dropReview(ctx context.Context, j *job, number int) error {
	if err := j.space.Reviews.DropPreview(ctx, previewBranch(number)); errors.Is(err, ErrRefused) {
		j.log.Warn("the preview is not deleted", "merge_request", number, "error", err)
	} else if err != nil {
		return err
	}
	return forgetVerdict(ctx, j, number)
}

// trustContext is the context of the commit status that records who trusts a head.
const trustContext = "sluice/trust"

// waits reports in the comment and the status that the head waits for trust. The comment also records since when the
// merge request has this head.
func (j *job) waits(ctx context.Context, mr *forge.MergeRequest) error {
	key, state := reviewKey(mr.Number), "waits "+mr.Head
	if pending, err := gave(ctx, j, mr, forge.Pending); err != nil || pending && j.hint.Kind == hint.Review && j.seen(key, state) {
		return err
	}
	note(j, mr, "its head waits for trust: somebody with write access must comment /sluice trust")
	since := j.Clock()
	if mr.Updated.After(since) { // by the forge's clock, which also dates comments
		since = mr.Updated
	}
	if err := commenting(ctx, j, mr.Number, func(ctx context.Context) error {
		return publish.Waits(ctx, j.forge, j.place.Repo(), mr.Number, mr.Head, since)
	}); err != nil {
		return err
	}
	err := j.say(ctx, mr, forge.Pending, "not rendered: somebody with write access must comment `/sluice trust`")
	if err == nil {
		j.remember(key, state)
	}
	return err
}

// say writes a status of the head other than the verdict of a review.
func (j *job) say(ctx context.Context, mr *forge.MergeRequest, state forge.StatusState, text string) error {
	return sayAs(ctx, j, mr, verdictOwn, forge.Status{State: state, Description: text}, "")
}

// sayAs is say for a verdict by name. basis is the verdictBasis of a review; "" if no review ran.
func sayAs(ctx context.Context, j *job, mr *forge.MergeRequest, name string, s forge.Status, basis string) error {
	f, done, err := j.forVerdict(ctx, mr, name, basis)
	if err != nil {
		return err
	}
	defer done()
	if err := j.recordVerdict(ctx, mr, name, s.State, basis); err != nil { // Say does not repeat an equal status
		return err
	}
	return publish.Say(ctx, f, j.place.Repo(), mr.Head, s, publish.Options{Context: f.context, URL: mr.URL, Checks: j.settings.Checks})
}
