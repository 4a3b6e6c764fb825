package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

// A fleet can follow another repository (kind: Repository, follow). When the branch or the tags of that repository move, the bot moves the
// pin in sluice.lock: on a branch with a merge request, or on the trunk. All state is in Git and on the forge:
//
//   - The branch has one commit of Sluice on top of the trunk. Its trailers say which commit it pins, and which sluice.lock it changes.
//   - Sluice replaces its own commit only. A commit of somebody else on the branch stays, and the merge request says so.
//   - A merge request of this head that is closed was declined: the bot opens none until there is a newer commit.

// Follows moves the commits at which the trunk pins other repositories. A server-checked swap moves each branch.
type Follows interface {
	// Look asks a repository of the trunk's fleet for its newest commit. It changes nothing.
	Look(ctx context.Context, trunk gitstore.Commit, name string) (*Followed, error)
	// Move makes the branch consist of the trunk and the new pin, and returns its commit.
	Move(ctx context.Context, trunk gitstore.Commit, f *Followed) (head string, err error)
	// Commit adds the new pin to the trunk.
	Commit(ctx context.Context, trunk gitstore.Commit, f *Followed) error
}

// Followed is the state of a repository that a fleet follows.
type Followed struct {
	Name, URL string
	From, To  string // what sluice.lock pins on the trunk ("" for nothing), and the newest: a tag, or a commit of a branch
	Commit    string // the newest
	Current   bool   // the trunk pins the newest
	Stale     bool   // the trunk has moved since: nothing else is set
	Was       string // the commit that the trunk pins
	Back      string // why the newest is not newer than what the trunk pins: "moved", "lower", "rewound"
	Undone    bool   // a commit of the trunk pinned the newest, and a later one does not

	Target, Branch string // the trunk, and the branch that moves the pin
	Head           string // of the branch; "" if it does not exist
	By             string // who committed to the branch other than Sluice; "" for nobody
	Merged         bool   // the trunk contains that commit
	Same           bool   // the branch has a commit of Sluice that pins the newest
	UpToDate       bool   // and does so for the trunk's sluice.lock
	Made           time.Time

	Lock []byte // the new content of sluice.lock
}

// PinError says why the pin of a repository does not move, and what to do. The forge shows Text, so it has nothing of an answer of another
// server. Err is for the log only.
type PinError struct {
	Text string
	Err  error
}

func (e *PinError) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *PinError) Unwrap() error { return e.Err }

func pinError(err error, format string, args ...any) error {
	return &PinError{Text: fmt.Sprintf(format, args...), Err: err}
}

// follow moves the pins of the repositories that the fleet follows. What fails for one does not prevent the others. The next sweep tries
// again.
func follow(ctx context.Context, j *job) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	tip, f, err := j.trunkTip(ctx)
	if err != nil || f == nil {
		return err
	}
	if _, err := j.listings.refresh(ctx, j.forge, j.place); err != nil {
		return err
	}
	learn(j, f)
	failed, err := followEach(ctx, j, tip, f)
	if err != nil {
		return err
	}
	if err := announceEnded(ctx, j, f); err != nil {
		return err
	}
	return j.tolerate(ctx, reportFollowed(ctx, j, tip, failed))
}

// Limits of the time for repositories that do not answer, so that they do not keep a worker.
const (
	maxLook  = 2 * time.Minute // of one repository
	maxLooks = 5 * time.Minute // of all, after which no other one is asked
)

// turnKey is the subject under which a Bot remembers the first repository that a task left out.
const turnKey = "follow next"

// followEach moves the pins, and returns what the forge may show of the repositories that cannot be followed. If the forge did not answer for
// one, it returns that error after the others, and the queue repeats the task. A task that takes longer than maxLooks leaves out the
// remaining repositories, and the next one begins with them.
func followEach(ctx context.Context, j *job, tip gitstore.Commit, f *fleet.Fleet) (failed []string, unavailable error) {
	begun := j.Clock()
	list := inTurn(f.Repositories, j.recall(turnKey))
	j.remember(turnKey, "")
	for i, r := range list {
		if j.Clock().Sub(begun) >= maxLooks {
			j.remember(turnKey, r.Name)
			j.log.Warn("repositories take too long to answer", "left_out", len(list)-i)
			return append(failed, "others take too long to answer, so Sluice did not ask "+report.Count(len(list)-i, "repository")+"; the next look begins with "+r.Name), unavailable
		}
		switch err := followOne(ctx, j, tip, r); {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, forge.ErrUnavailable):
			unavailable = errors.Join(unavailable, fmt.Errorf("follow %s: %w", r.Name, err))
		case errors.Is(err, gitstore.ErrConflict): // the next sweep tries again
			j.log.Info("another writer moved the branch", "name", r.Name, "error", err)
		default:
			j.log.Warn("a repository cannot be followed", "name", r.Name, "url", r.URL, "error", err)
			failed = append(failed, r.Name+": "+shownCause(err))
		}
	}
	return failed, unavailable
}

// inTurn returns the followed repositories, beginning with the one that has the name.
func inTurn(all []*fleet.Repository, first string) []*fleet.Repository {
	var out []*fleet.Repository
	for _, r := range all {
		if r.Follow.On() {
			out = append(out, r)
		}
	}
	i := max(slices.IndexFunc(out, func(r *fleet.Repository) bool { return r.Name == first }), 0)
	return slices.Concat(out[i:], out[:i])
}

// shownCause returns what the forge may show of an error.
func shownCause(err error) string {
	if known, ok := errors.AsType[*PinError](err); ok {
		return known.Text
	}
	return "it cannot be followed: " + cause(err) + " (the service's log has the error)"
}

// FollowPrefix begins the names of the branches that move pins. Rules for Sluice's own branches (sluice/*) do not match it, because people
// may add to these branches.
const FollowPrefix = "sluice-follow/"

// endedBranches returns the open merge requests whose branches moved pins of repositories that the fleet no longer follows.
func endedBranches(j *job, f *fleet.Fleet) []*forge.MergeRequest {
	list, _ := j.listings.all(j.place) // of the last sweep
	return slices.DeleteFunc(list, func(mr *forge.MergeRequest) bool {
		name, ok := strings.CutPrefix(mr.SourceBranch, FollowPrefix)
		r, declared := f.Repository(name)
		return !ok || mr.Fork || mr.TargetBranch != f.Spec.Trunk || declared && r.Follow.On()
	})
}

// announceEnded says in these merge requests that Sluice leaves them to people. It changes only those with Sluice's part of a description,
// and closes none, because their branches can have work of people.
func announceEnded(ctx context.Context, j *job, f *fleet.Fleet) error {
	for _, ended := range endedBranches(j, f) {
		mr, err := j.forge.MergeRequest(ctx, j.place.Repo(), ended.Number) // with its text
		if err != nil {
			return err
		}
		own := finished(mr.Body, followEnded)
		if own == "" || describes(mr.Body, own) {
			continue
		}
		if err := j.forge.EditMergeRequest(ctx, j.place.Repo(), mr.Number, mr.Title, description(own, mr.Body, j.forge.CommentLimit()), false); err != nil {
			return err
		}
	}
	return nil
}

// reportFollowed writes on the tip of the trunk which repositories cannot be followed.
func reportFollowed(ctx context.Context, j *job, tip gitstore.Commit, failed []string) error {
	state, text := forge.Success, "Sluice follows each repository with follow"
	if n := len(failed); n > 0 {
		state, text = forge.Failure, safetext.Line(failed[0])
		if n > 1 {
			text = report.Count(n, "repository") + " cannot be followed: " + text
		}
	}
	j.forge.statuses.expire(j.place, tip.Hash.String()) // another replica may have written one
	status := forge.Status{Context: j.context() + "/follow", State: state, Description: text}
	if len(failed) == 0 && j.forge.state(ctx, j.place.Repo(), tip.Hash.String(), status.Context) != forge.Failure { // a success only replaces a failure
		return nil
	}
	return j.forge.SetStatus(ctx, j.place.Repo(), tip.Hash.String(), status)
}

// followOne moves the pin of one repository.
func followOne(ctx context.Context, j *job, tip gitstore.Commit, r *fleet.Repository) error {
	if p, ok := j.PlaceOf(r.URL); ok && (j.followers.is(p, j.place) || r.Follow.Commit && j.followers.reaches(p, j.place)) {
		return pinError(nil, "%s:%d: %s is this fleet, its output repository, or a fleet that follows this one, so commits would trigger each other forever (remove follow, or use follow: true in one of two fleets)", r.File, r.Line, r.URL)
	}
	look, cancel := context.WithTimeout(ctx, maxLook)
	f, err := j.space.Follows.Look(look, tip, r.Name)
	cancel()
	if err != nil || f.Stale {
		return err
	}
	open, err := requestOf(ctx, j, f)
	switch {
	case err != nil:
		return err
	case f.Current:
		return endRequest(ctx, j, f, open)
	case !r.Follow.Commit:
		return keepRequest(ctx, j, tip, f, open)
	case f.Back != "":
		return pinError(nil, "%s (%.10s) → %s (%.10s): the new pin is %s, so Sluice does not commit it without a review (run `sluice deps update %s` to pin it)", f.From, f.Was, f.To, f.Commit, f.Back, f.Name)
	case f.Undone:
		return pinError(nil, "%s was pinned by a commit of Sluice, and a later commit of %s undoes that: Sluice waits for a newer one (`sluice deps update %s` pins it again)", f.To, f.Target, f.Name)
	}
	if err := j.space.Follows.Commit(ctx, tip, f); errors.Is(err, gitstore.ErrRefused) {
		return pinError(err, "the forge refuses the commit on %s: let the account of the service push there, or write follow: true for a merge request", f.Target)
	} else if err != nil {
		return err
	}
	j.log.Info("pinned", "name", f.Name, "from", f.From, "to", f.To)
	return j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Trunk})
}

// requestOf returns the open merge request of the branch; nil if there is none. The task has refreshed the listing.
func requestOf(ctx context.Context, j *job, f *Followed) (*forge.MergeRequest, error) {
	list, _ := j.listings.all(j.place) // refreshed by this task
	for _, mr := range list {
		if mr.SourceBranch == f.Branch && !mr.Fork && mr.TargetBranch == f.Target {
			return j.forge.MergeRequest(ctx, j.place.Repo(), mr.Number) // with its text
		}
	}
	return nil, nil //nolint:nilnil // no open merge request
}

// endRequest closes the merge request of a pin that the trunk has. One with somebody else's commits stays open. The title and the pin in the
// description stay: they say what the branch has.
func endRequest(ctx context.Context, j *job, f *Followed, open *forge.MergeRequest) error {
	if open == nil || f.By != "" {
		return nil
	}
	body := open.Body
	if own := cmp.Or(finished(body, followDone), followDone); !describes(body, own) {
		body = description(own, body, j.forge.CommentLimit())
	}
	return j.forge.EditMergeRequest(ctx, j.place.Repo(), open.Number, open.Title, body, true)
}

// keepRequest moves the branch to the new pin, and creates or edits its merge request. It changes nothing if somebody else committed to the
// branch, or declined the pin.
func keepRequest(ctx context.Context, j *job, tip gitstore.Commit, f *Followed, open *forge.MergeRequest) error {
	var earlier forge.State // of a merge request that had this head
	if open == nil {
		var err error
		if earlier, err = earlierState(ctx, j, tip, f); err != nil {
			return err
		}
	}
	switch {
	case f.By != "" && !f.Merged && earlier != forge.Merged: // the branch has what nothing else has
		if open == nil {
			return pinError(nil, "the branch %s has a commit by %s and no open merge request: open one, or delete the branch, so that Sluice can move the pin", f.Branch, f.By)
		}
		return describe(ctx, j, f, open)
	case f.By == "" && f.Same && earlier != "":
		return nil // declined, or undone after the merge; the branch stays as it is, because its head says which commit that was
	}
	if err := moveBranch(ctx, j, tip, f); err != nil {
		return err
	}
	if open != nil {
		return describe(ctx, j, f, open)
	}
	mr, err := j.forge.CreateMergeRequest(ctx, j.place.Repo(), forge.NewRequest{Title: requestTitle(f), Body: ownPart(f, followKeeps), SourceBranch: f.Branch, TargetBranch: f.Target})
	if err != nil {
		return fmt.Errorf("open the merge request of %s: %w", f.Branch, err)
	}
	j.listings.correct(j.place, mr)
	j.log.Info("a merge request moves a pin", "merge_request", mr.Number, "name", f.Name, "from", f.From, "to", f.To)
	return j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: mr.Number})
}

// declinedKey is the key of the head of a branch whose merge request was closed.
func declinedKey(branch string) string { return "declined " + branch }

// foreignKey is the key of a head that a person committed, with the trunk, of which no merge request is known.
func foreignKey(branch string) string { return "foreign " + branch }

// earlierState returns the state of a merge request that had the present head of the branch and is not open; "" if there is none, or if it
// does not matter. Looking for it can cost many requests, so the answer is remembered: for a person's commit until the trunk moves, which a
// merge does.
func earlierState(ctx context.Context, j *job, tip gitstore.Commit, f *Followed) (forge.State, error) {
	if f.Head == "" || f.By == "" && !f.Same || f.By != "" && f.Merged {
		return "", nil
	}
	declined, foreign := declinedKey(f.Branch), foreignKey(f.Branch)
	switch {
	case f.By == "" && j.seen(declined, f.Head):
		return forge.Closed, nil
	case f.By != "" && j.seen(foreign, f.Head+tip.Hash.String()):
		return "", nil
	}
	earlier, err := earlierRequest(ctx, j, f)
	switch {
	case err != nil:
		return "", err
	case earlier == nil && f.By != "":
		j.remember(foreign, f.Head+tip.Hash.String())
		return "", nil
	case earlier == nil:
		return "", nil
	case f.By == "":
		j.remember(declined, f.Head)
	}
	return earlier.State, nil
}

// moveBranch moves the branch to the new pin if it is not there.
func moveBranch(ctx context.Context, j *job, tip gitstore.Commit, f *Followed) error {
	if f.UpToDate && f.By == "" {
		return nil
	}
	head, err := j.space.Follows.Move(ctx, tip, f)
	if errors.Is(err, gitstore.ErrRefused) {
		return pinError(err, "the forge refuses the push: let the account of the service push to %s", f.Branch)
	}
	if err == nil {
		f.Head, f.By = head, ""
	}
	return err
}

// earlierRequest returns the merge request of the branch with its present head that is no longer open; nil if there is none.
func earlierRequest(ctx context.Context, j *job, f *Followed) (*forge.MergeRequest, error) {
	const clockSkew = 10 * time.Minute // between the forge and this machine
	since := f.Made.Add(-clockSkew)
	list, err := j.forge.RecentMergeRequests(ctx, j.place.Repo(), since)
	if err != nil {
		return nil, err
	}
	var out *forge.MergeRequest
	for _, mr := range list {
		if mr.SourceBranch == f.Branch && mr.TargetBranch == f.Target && !mr.Fork && mr.Head == f.Head && mr.State != forge.Open && (out == nil || mr.State == forge.Merged) {
			out = mr
		}
	}
	return out, nil
}

// describe brings the title and the description of a merge request up to date. What people wrote stays, and so does the title that a
// person gave.
func describe(ctx context.Context, j *job, f *Followed, mr *forge.MergeRequest) error {
	own := ownPart(f, followKeeps)
	if describes(mr.Body, own) {
		return nil
	}
	self, err := j.forge.Self(ctx)
	if err != nil {
		return err
	}
	title := requestTitle(f)
	if !strings.EqualFold(mr.Author.Login, self.Login) {
		title = mr.Title
	}
	return j.forge.EditMergeRequest(ctx, j.place.Repo(), mr.Number, title, description(own, mr.Body, j.forge.CommentLimit()), false)
}
