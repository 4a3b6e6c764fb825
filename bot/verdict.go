package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/internal/lru"
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
	if j.trunkIs != "" {
		return j.trunkIs
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
	j.trunkIs = f.Spec.Trunk
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

// Verdicts record the states that the reviews of single merge requests give their heads, and what these reviews depended on. A read returns
// what the last write before it recorded, in whichever process.
type Verdicts interface {
	// Verdict returns the value that Record stored last; "" if there is none. A merge request has a value for each name.
	Verdict(ctx context.Context, p hint.Place, number int, name string) (string, error)
	Record(ctx context.Context, p hint.Place, number int, name, value string) error
}

// The names of verdicts.
const (
	verdictOwn    = ""       // of the status that the branch protection requires
	verdictFleets = "fleets" // of the status of other fleets in a repository that is a fleet itself
)

// ownVerdicts are the verdicts of a service with one process.
type ownVerdicts struct{ known *lru.Cache[string] }

func newOwnVerdicts() ownVerdicts {
	known := lru.New[string](maxRemembered)
	return ownVerdicts{known}
}

// Verdict implements Verdicts.
func (o ownVerdicts) Verdict(_ context.Context, p hint.Place, number int, name string) (string, error) {
	value, _ := o.known.Get(fmt.Sprintf("%s %d %s", p, number, name)) // "" is what the caller expects for an unknown one
	return value, nil
}

// Record implements Verdicts.
func (o ownVerdicts) Record(_ context.Context, p hint.Place, number int, name, value string) error {
	o.known.Add(fmt.Sprintf("%s %d %s", p, number, name), value)
	return nil
}

// recordVerdict records the state that the review of a merge request alone gives its head. basis is the verdictBasis of a review that need
// not be repeated; "" for other states.
func (j *job) recordVerdict(ctx context.Context, mr *forge.MergeRequest, name string, state forge.StatusState, basis string) error {
	if err := j.Verdicts.Record(ctx, j.place, mr.Number, name, mr.Head+" "+string(state)+" "+basis); err != nil {
		return fmt.Errorf("record the verdict of merge request %d: %w", mr.Number, err)
	}
	return nil
}

// forgetVerdict has a merge request that is opened again count as not reviewed.
func forgetVerdict(ctx context.Context, j *job, number int) error {
	for _, name := range []string{verdictOwn, verdictFleets} {
		if err := j.Verdicts.Record(ctx, j.place, number, name, ""); err != nil {
			return fmt.Errorf("forget the verdict of merge request %d: %w", number, err)
		}
	}
	return nil
}

// forgotten reports whether no verdict of a merge request is recorded.
func forgotten(ctx context.Context, j *job, number int) (bool, error) {
	for _, name := range []string{verdictOwn, verdictFleets} {
		if value, err := j.Verdicts.Verdict(ctx, j.place, number, name); err != nil || value != "" {
			return false, err
		}
	}
	return true, nil
}

// verdict returns the state that the last review of a merge request gave its head, and the basis of that review; known is false if there is
// none.
func (j *job) verdict(ctx context.Context, mr *forge.MergeRequest, name string) (state forge.StatusState, basis string, known bool, err error) {
	value, err := j.Verdicts.Verdict(ctx, j.place, mr.Number, name)
	if err != nil {
		return "", "", false, fmt.Errorf("verdict of merge request %d: %w", mr.Number, err)
	}
	if parts := strings.SplitN(value, " ", 3); len(parts) > 1 && parts[0] == mr.Head {
		if len(parts) > 2 {
			basis = parts[2]
		}
		return forge.StatusState(parts[1]), basis, true, nil
	}
	return "", "", false, nil
}

// verdictBasis identifies what the verdict on a merge request depends on, apart from branches. identity is that of its dependencies.
func verdictBasis(mr *forge.MergeRequest, identity string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", mr.Head, mr.TargetBranch, mr.Labels, identity))
	return hex.EncodeToString(sum[:16])
}

// stands reports whether the last recorded verdict on a merge request has this basis. What this process remembers of its own reviews does
// not suffice: another replica may have reviewed the merge request since, when it depended on something else.
func stands(ctx context.Context, j *job, mr *forge.MergeRequest, name, identity string) (bool, error) {
	_, basis, known, err := j.verdict(ctx, mr, name)
	return known && basis == verdictBasis(mr, identity), err
}

// gave reports whether the last recorded verdict on a merge request is this state.
func gave(ctx context.Context, j *job, mr *forge.MergeRequest, want forge.StatusState) (bool, error) {
	state, _, known, err := j.verdict(ctx, mr, verdictOwn)
	return known && state == want, err
}

// sameHead lists the other open merge requests with the same head and status context.
func (j *job) sameHead(ctx context.Context, mr *forge.MergeRequest) ([]*forge.MergeRequest, error) {
	all, err := j.withHead(ctx, mr.Head, mr.Number)
	if err != nil {
		return nil, err
	}
	own := j.contextFor(ctx, mr.TargetBranch)
	return slices.DeleteFunc(all, func(other *forge.MergeRequest) bool { return j.contextFor(ctx, other.TargetBranch) != own }), nil
}

// withHead returns the open merge requests with a head, other than the one of a number.
func (j *job) withHead(ctx context.Context, head string, number int) ([]*forge.MergeRequest, error) {
	all, err := j.listings.open(ctx, j.forge, j.place)
	if err != nil {
		return nil, fmt.Errorf("merge requests with the head %.10s: %w", head, err)
	}
	var out []*forge.MergeRequest
	for _, other := range all {
		if other.Number != number && other.Head == head && j.settings.selects(other) {
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

// worstOther returns the worst state that another merge request gives the head of this one. A merge request that was not reviewed counts
// as pending. Without others, the state is Success. If people with write access opened some of them, those of others do not count: anybody
// can open a merge request with a head that is public, and describe it at will.
func (j *job) worstOther(ctx context.Context, mr *forge.MergeRequest, name string) (worst floor, unknown []int, err error) {
	worst.state = forge.Success
	others, err := j.sameHead(ctx, mr)
	if err != nil {
		return worst, nil, err
	}
	mine, err := mayDecide(ctx, j, mr, len(others) > 0)
	if err != nil {
		return worst, nil, err
	}
	var theirs []*forge.MergeRequest
	for _, other := range others {
		may, err := mayDecide(ctx, j, other, true)
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
		state, _, known, err := j.verdict(ctx, other, name)
		if err != nil {
			return worst, nil, err
		}
		if !known {
			state, unknown = forge.Pending, append(unknown, other.Number)
		}
		if severity(state) > severity(worst.state) {
			worst.state, worst.number = state, other.Number
		}
	}
	return worst, unknown, nil
}

// mayDecide reports whether the author of a merge request has write access. It asks nobody if there is nothing to decide.
func mayDecide(ctx context.Context, j *job, mr *forge.MergeRequest, shared bool) (bool, error) {
	if !shared || mr.Author.Bot && !mr.Fork { // only people with write access push to branches of the repository
		return true, nil
	}
	access, err := j.permissions.access(ctx, j.forge, j.place, mr.Author.Login)
	if errors.Is(err, forge.ErrNotFound) {
		return false, nil
	}
	return access >= forge.AccessWrite, err
}

// enqueueReviews enqueues reviews of merge requests, also where they were reviewed before.
func enqueueReviews(ctx context.Context, j *job, numbers []int) error {
	for _, number := range numbers {
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: number, Force: true}); err != nil {
			return err
		}
	}
	return nil
}

// verdictForge writes the status of one context. The status is never better than the worst verdict of another merge request. It records
// the state of the merge request itself.
type verdictForge struct {
	statusForge
	job     *job
	mr      *forge.MergeRequest
	context string
	name    string // of the verdict
	basis   string // of the verdict; "" if it is not that of a review
}

// MergeRequest implements forge.MergeRequests: an open merge request comes from the listing, without its text.
func (v verdictForge) MergeRequest(ctx context.Context, repo forge.Repository, number int) (*forge.MergeRequest, error) {
	all, err := v.job.listings.open(ctx, v.statusForge, v.place)
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

// write records the state of the merge request, and writes the worst one of its head. Another replica may do the same for another merge
// request at the same time. Each records its own verdict before it reads those of the others, and reads them again after it wrote the
// status. So whoever writes the status last has seen every verdict.
func (v verdictForge) write(ctx context.Context, state forge.StatusState, text string, set func(forge.StatusState, string) error) error {
	if err := v.job.recordVerdict(ctx, v.mr, v.name, state, v.basis); err != nil {
		return err
	}
	f, unknown, err := v.job.worstOther(ctx, v.mr, v.name)
	if err != nil {
		return err
	}
	if err := enqueueReviews(ctx, v.job, unknown); err != nil {
		return err
	}
	for {
		if v.job.replicas {
			v.statuses.expire(v.place, v.mr.Head)
		}
		if err := set(f.worst(state, text)); err != nil || !v.job.replicas {
			return err
		}
		if _, err := v.job.listings.refresh(ctx, v.statusForge, v.place); err != nil { // another one may have been opened
			return err
		}
		next, unknown, err := v.job.worstOther(ctx, v.mr, v.name)
		if err == nil && next != f {
			err = enqueueReviews(ctx, v.job, unknown)
		}
		if err != nil || next == f {
			return err
		}
		f = next
	}
}

func (f floor) worst(s forge.StatusState, text string) (forge.StatusState, string) {
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

// forVerdict returns a forge that combines the status of a merge request with those of others of the same head. Until the caller calls
// done, no other task of this process writes a status of the head.
func (j *job) forVerdict(ctx context.Context, mr *forge.MergeRequest, name, basis string) (f verdictForge, done func(), err error) {
	if done, err = j.heads.lock(ctx, j.subject(mr.Head)); err != nil {
		return verdictForge{}, nil, err
	}
	status := j.contextFor(ctx, mr.TargetBranch)
	if name != verdictOwn {
		status += "/" + name
	}
	return verdictForge{statusForge: j.forge, job: j, mr: mr, context: status, name: name, basis: basis}, done, nil
}

// reviewAgain enqueues reviews of merge requests.
func reviewAgain(ctx context.Context, j *job, list []*forge.MergeRequest) error {
	numbers := make([]int, len(list))
	for i, mr := range list {
		numbers[i] = mr.Number
	}
	return enqueueReviews(ctx, j, numbers)
}
