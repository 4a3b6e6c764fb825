package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Reviews compares merge requests and manages their previews.
type Reviews interface {
	// Review compares two commits and judges the difference by the policy of the trunk. For an untrusted change, nothing is fetched with
	// credentials.
	Review(ctx context.Context, r ReviewRequest) (*report.Review, *compare.PreviewResult, error)
	// DropPreview deletes the branch of a preview.
	DropPreview(ctx context.Context, branch string) error
	// Previews lists the branches with a prefix.
	Previews(ctx context.Context, prefix string) ([]string, error)
}

// ReviewRequest asks for a review.
type ReviewRequest struct {
	Base, Head gitstore.Commit
	Trusted    bool
	Preview    *compare.Preview // nil: none
}

// review looks at a merge request and brings comment, status and preview to what they should be.
func (j *job) review(ctx context.Context, number int) error {
	mr, err := j.forge.MergeRequest(ctx, j.place.Repo(), number)
	if errors.Is(err, forge.ErrNotFound) {
		return nil // gone, or never there: nothing to do
	}
	if err != nil {
		return err
	}
	log := j.log.With("merge_request", number, "head", mr.Head)
	if mr.State != forge.Open {
		return j.closed(ctx, mr)
	}
	if !j.selected(mr) {
		log.Info("left out: a draft, or its labels say so")
		return nil
	}
	if err := j.open(ctx); err != nil {
		return err
	}
	target, err := j.space.Commits.Revision(ctx, "refs/heads/"+mr.TargetBranch)
	if errors.Is(err, gitstore.ErrNoRef) {
		return j.cannot(ctx, mr, fmt.Sprintf("the target branch %s is not there: give the merge request another one, or restore the branch", mr.TargetBranch))
	}
	if err != nil {
		return fmt.Errorf("target branch %s: %w", mr.TargetBranch, err)
	}
	trusted, by, err := j.trusted(ctx, mr)
	if err != nil {
		return err
	}
	switch {
	case j.absent(ctx, target) && (!trusted || j.absentHead(ctx, mr)):
		return nil // neither is a fleet: nobody asked
	case !trusted:
		log.Info("waits for trust", "author", mr.Author.Login)
		j.remember(fmt.Sprintf("mr/%d", number), "")
		return j.waits(ctx, mr)
	}
	state := mr.Head + " on " + target.Hash.String() + " " + strings.Join(mr.Labels, ",")
	key := fmt.Sprintf("mr/%d", number)
	if !j.hint.Force {
		if j.seen(key, state) || j.seen(limitKey(number), mr.Head) {
			return nil
		}
		if stop, err := j.stopped(ctx, mr); err != nil || stop {
			return err
		}
	}
	outcome, err := j.reviewHead(ctx, mr, by == "")
	if errors.Is(err, ErrStopped) {
		j.remember(limitKey(number), mr.Head) // until the head changes or somebody comments /sluice retry
		return j.cannot(ctx, mr, err.Error())
	}
	if errors.Is(err, ErrRefused) {
		return j.cannot(ctx, mr, err.Error())
	}
	if err != nil {
		return err
	}
	log.Info("reviewed", "comment", string(outcome))
	if outcome == publish.Superseded {
		return j.behind(number)
	}
	j.remember(behindKey(number), "")
	j.remember(key, state)
	j.remember(fmt.Sprintf("cannot/%d", number), "")
	return nil
}

func limitKey(number int) string { return fmt.Sprintf("limit/%d", number) }

func behindKey(number int) string { return fmt.Sprintf("behind/%d", number) }

// behind asks for another look when the forge and Git do not tell of the same head: a newer one has a task of its own, but they may also
// disagree for a while. The longer they do, the longer it waits.
func (j *job) behind(number int) error {
	const first, most = time.Second, time.Minute
	wait, err := time.ParseDuration(j.recall(behindKey(number)))
	wait = min(2*wait, most)
	if err != nil {
		wait = first
	}
	j.remember(behindKey(number), wait.String())
	return &Later{Until: j.Clock().Add(wait), Err: fmt.Errorf("the forge and Git tell of different heads of merge request %d", number)}
}

// cannot says on a merge request why it cannot be compared: only somebody who changes it, or its branches, can help.
func (j *job) cannot(ctx context.Context, mr *forge.MergeRequest, why string) error {
	j.remember(fmt.Sprintf("mr/%d", mr.Number), "") // what was said before is said again when it can be
	j.log.Info("cannot be compared", "merge_request", mr.Number, "head", mr.Head, "why", why)
	key, state := fmt.Sprintf("cannot/%d", mr.Number), mr.Head+" "+why
	if j.settings.Checks {
		if j.seen(key, state) {
			return nil
		}
		j.remember(key, state)
		j.recordVerdict(mr, forge.Failure)
		err := j.forge.SetCheck(ctx, j.place.Repo(), forge.Check{Name: j.contextFor(ctx, mr.TargetBranch), Commit: mr.Head, State: forge.Failure, Title: why, Summary: why})
		if err == nil {
			return nil
		}
		j.remember(key, "")
		if !errors.Is(err, forge.ErrUnsupported) && !errors.Is(err, forge.ErrForbidden) {
			return err
		}
	}
	return j.say(ctx, mr, forge.Failure, why)
}

// absent says that a commit has no fleet, not even a broken one.
func (j *job) absent(ctx context.Context, c gitstore.Commit) bool {
	_, _, err := j.space.Fleets.Fleet(ctx, c.Tree)
	problems, ok := errors.AsType[fleet.Problems](err)
	return ok && problems.Absent()
}

func (j *job) absentHead(ctx context.Context, mr *forge.MergeRequest) bool {
	head, err := j.space.Commits.Revision(ctx, j.forge.MergeRequestRef(mr.Number))
	return err == nil && j.absent(ctx, head)
}

// reviewHead renders, compares and publishes. own is a change of somebody with write access; others' are rendered without
// credentials and get no preview.
func (j *job) reviewHead(ctx context.Context, mr *forge.MergeRequest, own bool) (publish.Outcome, error) {
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
	request := ReviewRequest{Base: base, Head: head, Trusted: own}
	if own && j.settings.Previews {
		request.Preview = &compare.Preview{Branch: previewBranch(mr.Number), Title: fmt.Sprintf("Preview of !%d", mr.Number), Limit: j.settings.PreviewCap}
	}
	review, preview, err := j.space.Reviews.Review(ctx, request)
	if err != nil {
		return "", err
	}
	review.Repository = j.place.Repo().Path
	review.MergeRequest.Number, review.MergeRequest.URL, review.MergeRequest.Title = mr.Number, mr.URL, mr.Title
	if preview != nil && preview.Head != "" {
		review.Links.Full = j.previewLink(ctx, mr, target, preview)
	}
	f, err := j.forVerdict(ctx, mr)
	if err != nil {
		return "", err
	}
	return publish.Review(ctx, f, j.place.Repo(), mr, review, publish.Options{Context: f.context, URL: mr.URL, Checks: j.settings.Checks})
}

// previewLink returns the address of the preview's diff on the forge, in the repository that has its commits. It returns ""
// if that repository is not on the forge, or cannot be told: a report without the link is still complete.
func (j *job) previewLink(ctx context.Context, mr *forge.MergeRequest, target gitstore.Commit, p *compare.PreviewResult) string {
	source := j.place.Repo().Path
	f, _, err := j.space.Fleets.Fleet(ctx, target.Tree)
	if err != nil || f == nil {
		j.log.Debug("no link to the preview: the target branch has no readable fleet", "error", err)
		return ""
	}
	if f.Spec.Output.Repository == "" {
		return compareLink(mr.URL, source, source, p)
	}
	output, err := j.space.Branches.Output(ctx)
	if err != nil || output.Path == source { // for a repository elsewhere, Output returns the source
		j.log.Debug("no link to the preview: the output repository is not on the forge", "error", err)
		return ""
	}
	return compareLink(mr.URL, source, output.Path, p)
}

// compareLink is the forge's view of what lies between the two commits of a preview. url is a merge request of source.
func compareLink(url, source, output string, p *compare.PreviewResult) string {
	for _, form := range [][2]string{{"/-/merge_requests/", "/-/compare/"}, {"/pull/", "/compare/"}} {
		base, _, ok := strings.Cut(url, form[0])
		if !ok {
			continue
		}
		if base, ok = strings.CutSuffix(base, "/"+source); ok {
			return base + "/" + output + form[1] + p.Base + "..." + p.Head
		}
	}
	return ""
}

func (j *job) context() string {
	if j.settings.Context != "" {
		return j.settings.Context
	}
	return "sluice"
}

// closed cleans up behind a merge request.
func (j *job) closed(ctx context.Context, mr *forge.MergeRequest) error {
	key := fmt.Sprintf("mr/%d", mr.Number)
	if !j.hint.Force && j.seen(key, string(mr.State)) {
		return nil
	}
	j.remember(key, "") // the merge request may be reopened, with the same head, before the cleanup ends
	if err := j.open(ctx); err != nil {
		return err
	}
	if target, err := j.space.Commits.Revision(ctx, "refs/heads/"+mr.TargetBranch); err == nil {
		if _, _, err := j.space.Fleets.Fleet(ctx, target.Tree); err != nil {
			j.log.Debug("the target branch has no fleet: previews are looked for all the same")
		}
	}
	if err := j.space.Reviews.DropPreview(ctx, previewBranch(mr.Number)); errors.Is(err, ErrRefused) {
		j.log.Warn("no preview is looked for", "merge_request", mr.Number, "error", err)
	} else if err != nil {
		return err
	}
	if err := j.recompute(ctx, mr); err != nil {
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

// trustContext is the commit status by which somebody's trust in a head is kept: on the forge, bound to the commit.
const trustContext = "sluice/trust"

// waits says that the head waits for trust: in the comment, which remembers since when the head is the merge request's, and as a status.
func (j *job) waits(ctx context.Context, mr *forge.MergeRequest) error {
	key, state := fmt.Sprintf("mr/%d", mr.Number), "waits "+mr.Head
	if j.hint.Kind == hint.Review && j.seen(key, state) {
		return nil
	}
	since := j.Clock()
	if mr.Updated.After(since) { // by the forge's clock, which is also that of comments
		since = mr.Updated
	}
	if err := publish.Waits(ctx, j.forge, j.place.Repo(), mr.Number, mr.Head, since); err != nil {
		return err
	}
	err := j.say(ctx, mr, forge.Pending, "not rendered: somebody with write access must comment `/sluice trust`")
	if err == nil {
		j.remember(key, state)
	}
	return err
}

// say writes a state of the head that is no review's.
func (j *job) say(ctx context.Context, mr *forge.MergeRequest, state forge.StatusState, text string) error {
	f, err := j.forVerdict(ctx, mr)
	if err != nil {
		return err
	}
	f.own(state)
	return publish.Say(ctx, f, j.place.Repo(), mr.Head, forge.Status{State: state, Description: text}, publish.Options{Context: f.context, URL: mr.URL, Checks: j.settings.Checks})
}

// trusted says whether a merge request may be rendered, and by whose word if its author may not write.
func (j *job) trusted(ctx context.Context, mr *forge.MergeRequest) (ok bool, by string, err error) {
	if !mr.Fork {
		access, err := j.forge.Access(ctx, j.place.Repo(), mr.Author.Login)
		if err != nil && !errors.Is(err, forge.ErrNotFound) {
			return false, "", err
		}
		// A branch in the repository itself was pushed by somebody who may write; a machine's account may have no access level.
		if access >= forge.AccessWrite || mr.Author.Bot {
			return true, "", nil
		}
	} else if access, err := j.forge.Access(ctx, j.place.Repo(), mr.Author.Login); err == nil && access >= forge.AccessWrite {
		return true, mr.Author.Login, nil // theirs, but on another repository: no credentials
	}
	self, err := j.forge.Self(ctx)
	if err != nil {
		return false, "", err
	}
	statuses, err := j.forge.Statuses(ctx, j.place.Repo(), mr.Head)
	if err != nil {
		return false, "", err
	}
	for _, s := range statuses {
		if s.Context == trustContext && s.State == forge.Success && strings.EqualFold(s.Author.Login, self.Login) {
			return true, s.Description, nil
		}
	}
	return false, "", nil
}
