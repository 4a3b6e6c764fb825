package bot

import (
	"context"
	"fmt"
	"strings"

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

// trunkKey is the subject under which a Bot caches the name of a repository's trunk.
const trunkKey = "trunk branch"

// trunkBranch returns the name of the trunk; "" if it is unknown. In a repository without a fleet, it is the branch that fleets take content
// from.
func (j *job) trunkBranch(ctx context.Context) string {
	name := ownTrunk(ctx, j)
	if uses := j.uses.of(j.place); name == "" && len(uses) > 0 {
		return uses[0].branch
	}
	return name
}

func ownTrunk(ctx context.Context, j *job) string {
	if j.space == nil {
		return j.recall(trunkKey)
	}
	tip, err := j.space.Commits.Revision(ctx, "HEAD")
	if err != nil {
		return j.recall(trunkKey)
	}
	f, _, err := j.space.Fleets.Fleet(ctx, tip.Tree)
	if err != nil {
		if _, f, err = j.space.Fleets.Readable(ctx, tip); err != nil {
			return j.recall(trunkKey)
		}
	}
	j.remember(trunkKey, f.Spec.Trunk)
	return f.Spec.Trunk
}

// contextFor returns the context of the status for merge requests into a branch.
func (j *job) contextFor(ctx context.Context, target string) string {
	return publish.ContextFor(j.context(), j.trunkBranch(ctx), target)
}

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

func verdictKey(number int) string { return fmt.Sprintf("verdict/%d", number) }

// recordVerdict caches the state that the review of a merge request alone gives its head.
func (j *job) recordVerdict(mr *forge.MergeRequest, state forge.StatusState) {
	j.remember(verdictKey(mr.Number), mr.Head+" "+string(state))
}

// verdict returns the state that the last review of a merge request gave its head; false if it is unknown.
func (j *job) verdict(mr *forge.MergeRequest) (forge.StatusState, bool) {
	head, state, ok := strings.Cut(j.recall(verdictKey(mr.Number)), " ")
	return forge.StatusState(state), ok && head == mr.Head
}

// sameHead lists the other open merge requests with the same head and status context.
func (j *job) sameHead(ctx context.Context, mr *forge.MergeRequest) ([]*forge.MergeRequest, error) {
	all, err := j.listings.open(ctx, j.forge, j.place)
	if err != nil {
		return nil, fmt.Errorf("merge requests with the head %.10s: %w", mr.Head, err)
	}
	own := j.contextFor(ctx, mr.TargetBranch)
	var out []*forge.MergeRequest
	for _, other := range all {
		if other.Number != mr.Number && other.Head == mr.Head && j.settings.selects(other) && j.contextFor(ctx, other.TargetBranch) == own {
			out = append(out, other)
		}
	}
	return out, nil
}

// worstOther returns the worst state that another merge request gives the head of this one. A merge request that was
// not reviewed counts as pending, and worstOther enqueues its review. Without others, the state is Success and the
// number 0.
func (j *job) worstOther(ctx context.Context, mr *forge.MergeRequest) (worst forge.StatusState, number int, err error) {
	worst = forge.Success
	others, err := j.sameHead(ctx, mr)
	if err != nil {
		return worst, 0, err
	}
	for _, other := range others {
		state, known := j.verdict(other)
		if !known {
			state = forge.Pending
			if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: other.Number, Force: true}); err != nil {
				return worst, 0, err
			}
		}
		if severity(state) > severity(worst) {
			worst, number = state, other.Number
		}
	}
	return worst, number, nil
}

// verdictForge writes the status of one context. The status is never better than the worst verdict of another merge request. It records
// the state of the merge request itself.
type verdictForge struct {
	statusForge
	context  string
	floor    forge.StatusState
	number   int // merge request that sets the floor
	own      func(forge.StatusState)
	listings *listings
}

// MergeRequest implements forge.MergeRequests: an open merge request comes from the listing, without its text.
func (v verdictForge) MergeRequest(ctx context.Context, repo forge.Repository, number int) (*forge.MergeRequest, error) {
	all, err := v.listings.open(ctx, v.statusForge, v.place)
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
	if s.Context == v.context {
		v.own(s.State)
		s.State, s.Description = v.worst(s.State, s.Description)
	}
	return v.statusForge.SetStatus(ctx, repo, commit, s)
}

// SetCheck implements forge.Checks.
func (v verdictForge) SetCheck(ctx context.Context, repo forge.Repository, c forge.Check) error {
	if c.Name == v.context {
		v.own(c.State)
		c.State, c.Title = v.worst(c.State, c.Title)
	}
	return v.statusForge.SetCheck(ctx, repo, c)
}

func (v verdictForge) worst(s forge.StatusState, text string) (forge.StatusState, string) {
	if severity(v.floor) <= severity(s) {
		return s, text
	}
	if v.floor == forge.Failure {
		return v.floor, fmt.Sprintf("merge request %d has the same head and fails", v.number)
	}
	return v.floor, fmt.Sprintf("waits for the review of merge request %d, which has the same head", v.number)
}

// forVerdict returns a forge that combines the status of a merge request with those of others of the same head. Until the caller calls
// done, no other task writes a status of the head.
func (j *job) forVerdict(ctx context.Context, mr *forge.MergeRequest) (f verdictForge, done func(), err error) {
	if done, err = j.heads.lock(ctx, j.subject(mr.Head)); err != nil {
		return verdictForge{}, nil, err
	}
	floor, number, err := j.worstOther(ctx, mr)
	if err != nil {
		done()
		return verdictForge{}, nil, err
	}
	return verdictForge{j.forge, j.contextFor(ctx, mr.TargetBranch), floor, number, func(s forge.StatusState) { j.recordVerdict(mr, s) }, j.listings}, done, nil
}

// recompute enqueues reviews of the merge requests that shared the head of a closed one, because its verdict no
// longer counts.
func (j *job) recompute(ctx context.Context, closed *forge.MergeRequest) error {
	others, err := j.sameHead(ctx, closed)
	if err != nil {
		return err
	}
	for _, other := range others {
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: other.Number, Force: true}); err != nil {
			return err
		}
	}
	return nil
}
