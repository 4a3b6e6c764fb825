package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
)

// A commit status belongs to a commit, not to a merge request, so several merge requests with one head share it. Two
// rules prevent one of them from turning another one's red status green:
//
// - Only merge requests into the trunk write the required context. Merge requests into other branches have a context
// with the branch in its name.
//
// - The status is the worst verdict of all open merge requests with the same head and context.

// headStatus is the status that a merge request gives its head, under the name of a verdict.
type headStatus struct {
	*task
	mr   *forge.MergeRequest
	name string // verdictOwn or verdictFleets
}

func (t *task) status(mr *forge.MergeRequest, name string) headStatus { return headStatus{t, mr, name} }

// severity orders states: the worst one has the highest number.
func severity(s forge.StatusState) int {
	switch s {
	case forge.Failure:
		return 2
	case forge.Pending, forge.Running:
		return 1
	}
	return 0
}

// say writes a status of the head other than the verdict of a review.
func (t *task) say(ctx context.Context, mr *forge.MergeRequest, state forge.StatusState, text string) error {
	return t.status(mr, verdictOwn).say(ctx, state, text, "")
}

// say writes a status of the head other than the verdict of a review. basis is that of a review which would fail again
// as long as it is the same; "" if no review ran.
func (s headStatus) say(ctx context.Context, state forge.StatusState, text, basis string) error {
	f, unlock, err := s.writer(ctx, basis)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.record(ctx, state, basis); err != nil { // Say does not repeat an equal status
		return err
	}
	status := forge.Status{State: state, Description: text}
	return publish.Say(ctx, f, s.place.Repo(), s.mr.Head, status,
		publish.Options{Context: f.context, URL: s.mr.URL, Checks: s.settings.Checks})
}

// record records the state that the review of the merge request alone gives its head. basis is the basisOf a review
// that need not be repeated; "" for other states.
func (s headStatus) record(ctx context.Context, state forge.StatusState, basis string) error {
	if err := s.Verdicts.Record(ctx, s.place, s.mr.Number, s.name,
		verdict{s.mr.Head, state, basis}.String()); err != nil {
		return fmt.Errorf("record the verdict of merge request %d: %w", s.mr.Number, err)
	}
	return nil
}

// recorded returns the verdict of the last review of the head, in whichever process; false if there is none.
func (s headStatus) recorded(ctx context.Context) (verdict, bool, error) {
	text, err := s.Verdicts.Verdict(ctx, s.place, s.mr.Number, s.name)
	if err != nil {
		return verdict{}, false, fmt.Errorf("verdict of merge request %d: %w", s.mr.Number, err)
	}
	v := parseVerdict(text)
	return v, text != "" && v.head == s.mr.Head, nil
}

// hasBasis reports whether the last recorded verdict is that of a review with the present basis.
func (s headStatus) hasBasis(ctx context.Context, deps string) (bool, error) {
	v, known, err := s.recorded(ctx)
	return known && v.basis == basisOf(s.mr, deps), err
}

// is reports whether the last recorded verdict is a state.
func (s headStatus) is(ctx context.Context, state forge.StatusState) (bool, error) {
	v, known, err := s.recorded(ctx)
	return known && v.state == state, err
}

// forgetVerdicts has a merge request that is opened again count as not reviewed.
func (t *task) forgetVerdicts(ctx context.Context, number int) error {
	for _, name := range []string{verdictOwn, verdictFleets} {
		if err := t.Verdicts.Record(ctx, t.place, number, name, ""); err != nil {
			return fmt.Errorf("forget the verdict of merge request %d: %w", number, err)
		}
	}
	return nil
}

// hasVerdict reports whether a verdict of a merge request is recorded, of any head.
func (t *task) hasVerdict(ctx context.Context, number int) (bool, error) {
	for _, name := range []string{verdictOwn, verdictFleets} {
		text, err := t.Verdicts.Verdict(ctx, t.place, number, name)
		if err != nil || text != "" {
			return true, err
		}
	}
	return false, nil
}

// sameHead lists the other open merge requests with the same head and status context.
func (s headStatus) sameHead(ctx context.Context) ([]*forge.MergeRequest, error) {
	all, err := s.withHead(ctx, s.mr.Head, s.mr.Number)
	if err != nil {
		return nil, err
	}
	own := s.contextFor(ctx, s.mr.TargetBranch)
	return slices.DeleteFunc(all, func(other *forge.MergeRequest) bool {
		return s.contextFor(ctx,
			other.TargetBranch) != own
	}), nil
}

// withHead returns the open merge requests with a head, other than the one of a number.
func (t *task) withHead(ctx context.Context, head string, number int) ([]*forge.MergeRequest, error) {
	all, err := t.listings.open(ctx, t.forge, t.place)
	if err != nil {
		return nil, fmt.Errorf("merge requests with the head %.10s: %w", head, err)
	}
	var out []*forge.MergeRequest
	for _, other := range all {
		if other.Number != number && other.Head == head && t.settings.selects(other) {
			out = append(out, other)
		}
	}
	return out, nil
}

// floor is the worst state that another merge request gives a head.
type floor struct {
	state   forge.StatusState
	number  int  // of that merge request; 0 without others
	instead bool // the state replaces that of the own merge request, which somebody without write access opened
}

// worstOther returns the worst state that another merge request gives the head of this one. A merge request that was
// not reviewed counts as pending. Without others, the state is Success. If people with write access opened some of
// them, those of others do not count: anybody can open a merge request with a head that is public, and describe it at
// will.
func (s headStatus) worstOther(ctx context.Context) (worst floor, unknown []int, err error) {
	worst.state = forge.Success
	others, err := s.sameHead(ctx)
	if err != nil {
		return worst, nil, err
	}
	mine, err := s.mayDecide(ctx, s.mr, len(others) > 0)
	if err != nil {
		return worst, nil, err
	}
	var theirs []*forge.MergeRequest
	for _, other := range others {
		may, err := s.mayDecide(ctx, other, true)
		if err != nil {
			return worst, nil, err
		}
		if may {
			theirs = append(theirs, other)
		}
	}
	switch {
	case mine:
		others = theirs
	case len(theirs) > 0:
		others, worst.instead, worst.number = theirs, true, theirs[0].Number
	}
	for _, other := range others {
		v, known, err := s.task.status(other, s.name).recorded(ctx)
		if err != nil {
			return worst, nil, err
		}
		if !known {
			v.state, unknown = forge.Pending, append(unknown, other.Number)
		}
		if severity(v.state) > severity(worst.state) {
			worst.state, worst.number = v.state, other.Number
		}
	}
	return worst, unknown, nil
}

// mayDecide reports whether the author of a merge request has write access. It asks nobody if there is nothing to
// decide.
func (t *task) mayDecide(ctx context.Context, mr *forge.MergeRequest, shared bool) (bool, error) {
	if !shared || mr.Author.Bot && !mr.Fork { // only people with write access push to branches of the repository
		return true, nil
	}
	access, err := t.permissions.access(ctx, t.forge, t.place, mr.Author.Login)
	if errors.Is(err, forge.ErrNotFound) {
		return false, nil
	}
	return access >= forge.AccessWrite, err
}

// verdictForge writes the status of one context. The status is never better than the worst verdict of another merge
// request. It records the state of the merge request itself.
type verdictForge struct {
	statusForge
	status  headStatus
	context string
	basis   string // of the verdict; "" if it is not that of a review
}

// writer returns a forge that combines the status of a merge request with those of others of the same head. Until the
// caller calls unlock, no other task of this process writes a status of the head.
func (s headStatus) writer(ctx context.Context, basis string) (f verdictForge, unlock func(), err error) {
	if unlock, err = s.statusLocks.lock(ctx, s.subject(s.mr.Head)); err != nil {
		return verdictForge{}, nil, err
	}
	return verdictForge{
		statusForge: s.forge, status: s, context: s.statusContext(ctx, s.mr.TargetBranch, s.name),
		basis: basis,
	}, unlock, nil
}

// MergeRequest implements forge.MergeRequests: an open merge request comes from the listing, without its text.
func (v verdictForge) MergeRequest(ctx context.Context, repo forge.Repository, number int) (*forge.MergeRequest,
	error,
) {
	all, err := v.status.listings.open(ctx, v.statusForge, v.place)
	if err != nil {
		return nil, err
	}
	if mr := numbered(all, number); mr != nil {
		return mr, nil
	}
	return v.statusForge.MergeRequest(ctx, repo, number)
}

// SetStatus implements forge.Statuses.
func (v verdictForge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	if s.Context != v.context {
		return v.statusForge.SetStatus(ctx, repo, commit, s)
	}
	return v.write(ctx, s.State, s.Description, func(state forge.StatusState, text string) error {
		s.State, s.Description = state, text
		return v.statusForge.SetStatus(ctx, repo, commit, s)
	})
}

// SetCheck implements forge.Checks.
func (v verdictForge) SetCheck(ctx context.Context, repo forge.Repository, c forge.Check) error {
	if c.Name != v.context {
		return v.statusForge.SetCheck(ctx, repo, c)
	}
	return v.write(ctx, c.State, c.Title, func(state forge.StatusState, text string) error {
		c.State, c.Title = state, text
		return v.statusForge.SetCheck(ctx, repo, c)
	})
}

// write records the state of the merge request, and writes the worst one of its head. Another replica may do the same
// for another merge request at the same time. Each records its own verdict before it reads those of the others, and
// reads them again after it wrote the status. So whoever writes the status last has seen every verdict.
func (v verdictForge) write(ctx context.Context, state forge.StatusState, text string,
	set func(forge.StatusState, string) error,
) error {
	s := v.status
	if err := s.record(ctx, state, v.basis); err != nil {
		return err
	}
	worst, unknown, err := s.worstOther(ctx)
	if err != nil {
		return err
	}
	if err := s.enqueueReviews(ctx, unknown); err != nil {
		return err
	}
	for {
		if s.replicas {
			v.statuses.expire(v.place, s.mr.Head)
		}
		if err := set(worst.combined(state, text)); err != nil || !s.replicas {
			return err
		}
		if _, err := s.listings.refresh(ctx, v.statusForge, v.place); err != nil { // another one may have been opened
			return err
		}
		next, unknown, err := s.worstOther(ctx)
		if err == nil && next != worst {
			err = s.enqueueReviews(ctx, unknown)
		}
		if err != nil || next == worst {
			return err
		}
		worst = next
	}
}

// combined returns the state and the text of a head to which the own merge request gives these.
func (f floor) combined(s forge.StatusState, text string) (forge.StatusState, string) {
	if !f.instead && severity(f.state) <= severity(s) {
		return s, text
	}
	if f.state == forge.Success {
		return f.state, fmt.Sprintf("merge request %d has the same head and passes", f.number)
	}
	if f.state == forge.Failure {
		return f.state, fmt.Sprintf("merge request %d has the same head and fails", f.number)
	}
	return f.state, fmt.Sprintf("waits for the review of merge request %d, which has the same head", f.number)
}

// enqueueReviews enqueues reviews of merge requests, also where they were reviewed before.
func (t *task) enqueueReviews(ctx context.Context, numbers []int) error {
	for _, number := range numbers {
		if err := t.Enqueue(ctx, hint.Hint{
			Place: t.place, Kind: hint.Review, Number: number,
			Force: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

// reviewAgain enqueues reviews of merge requests.
func (t *task) reviewAgain(ctx context.Context, list []*forge.MergeRequest) error {
	numbers := make([]int, len(list))
	for i, mr := range list {
		numbers[i] = mr.Number
	}
	return t.enqueueReviews(ctx, numbers)
}
