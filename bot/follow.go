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

// A fleet can follow another repository (kind: Repository, follow). When the branch or the tags of that repository
// move, the bot moves the pin in sluice.lock: on a branch with a merge request, or on the trunk. All state is in Git
// and on the forge:
//
//   - The branch has one commit of Sluice on top of the trunk. Its trailers say which commit it pins, and which
//     sluice.lock it changes.
//   - Sluice replaces its own commit only. A commit of somebody else on the branch stays, and the merge request says
//     so.
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
	// what sluice.lock pins on the trunk ("" for nothing), and the newest: a tag, or a commit of a branch
	From, To string
	Commit   string // the newest
	Current  bool   // the trunk pins the newest
	Stale    bool   // the trunk has moved since: nothing else is set
	Was      string // the commit that the trunk pins
	Back     string // why the newest is not newer than what the trunk pins: "moved", "lower", "rewound"
	Undone   bool   // a commit of the trunk pinned the newest, and a later one does not

	Target, Branch string    // the trunk, and the branch that moves the pin
	Head           string    // of the branch; "" if it does not exist
	By             string    // who committed to the branch other than Sluice; "" for nobody
	Merged         bool      // the trunk contains that commit
	Same           bool      // the branch has a commit of Sluice that pins the newest
	UpToDate       bool      // and does so for the trunk's sluice.lock
	Committed      time.Time // the head

	Lock []byte // the new content of sluice.lock
}

// PinError says why the pin of a repository does not move, and what to do. The forge shows Text, so it has nothing of
// an answer of another server. Err is for the log only.
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

// follower moves the pins of the repositories that a fleet follows.
type follower struct {
	trunkTask
	tip   gitstore.Commit // of the trunk
	fleet *fleet.Fleet    // of the tip, or of the newest commit before it whose fleet can be read
}

// run moves the pins of the repositories that the fleet follows. What fails for one does not prevent the others. The
// next sweep tries again.
func (t *follower) run(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	var err error
	if t.tip, t.fleet, err = t.trunkTask.tip(ctx); err != nil || t.fleet == nil {
		return err
	}
	if _, err := t.listings.refresh(ctx, t.forge, t.place); err != nil {
		return err
	}
	t.learn()
	failed, err := t.each(ctx)
	if err != nil {
		return err
	}
	if err := t.announceEnded(ctx); err != nil {
		return err
	}
	return t.tolerate(ctx, t.report(ctx, failed))
}

// Limits of the time for repositories that do not answer, so that they do not keep a worker.
const (
	maxLook  = 2 * time.Minute // of one repository
	maxLooks = 5 * time.Minute // of all, after which no other one is asked
)

// turnKey is the subject under which a Bot remembers the first repository that a task left out.
const turnKey = "follow next"

// each moves the pins, and returns what the forge may show of the repositories that cannot be followed. If the forge
// did not answer for one, it returns that error after the others, and the queue repeats the task. A task that takes
// longer than maxLooks leaves out the remaining repositories, and the next one begins with them.
func (t *follower) each(ctx context.Context) (failed []string, unavailable error) {
	begun := t.Clock()
	list := inTurn(t.fleet.Repositories, t.recall(turnKey))
	t.remember(turnKey, "")
	for i, r := range list {
		if t.Clock().Sub(begun) >= maxLooks {
			t.remember(turnKey, r.Name)
			t.log.Warn("repositories take too long to answer", "left_out", len(list)-i)
			return append(failed, "others take too long to answer, so Sluice did not ask "+
				report.Count(len(list)-i, "repository")+"; the next look begins with "+r.Name), unavailable
		}
		switch err := t.one(ctx, r); {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, forge.ErrUnavailable):
			unavailable = errors.Join(unavailable, fmt.Errorf("follow %s: %w", r.Name, err))
		case errors.Is(err, gitstore.ErrConflict): // the next sweep tries again
			t.log.Info("another writer moved the branch", "name", r.Name, "error", err)
		default:
			t.log.Warn("a repository cannot be followed", "name", r.Name, "url", r.URL, "error", err)
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

// FollowPrefix begins the names of the branches that move pins. Rules for Sluice's own branches (sluice/*) do not match
// it, because people may add to these branches.
const FollowPrefix = "sluice-follow/"

// endedBranches returns the open merge requests whose branches moved pins of repositories that the fleet no longer
// follows.
func (t *follower) endedBranches() []*forge.MergeRequest {
	list, _ := t.listings.all(t.place) // of the last sweep
	return slices.DeleteFunc(list, func(mr *forge.MergeRequest) bool {
		name, ok := strings.CutPrefix(mr.SourceBranch, FollowPrefix)
		r, declared := t.fleet.Repository(name)
		return !ok || mr.Fork || mr.TargetBranch != t.fleet.Spec.Trunk || declared && r.Follow.On()
	})
}

// announceEnded says in these merge requests that Sluice leaves them to people. It changes only those with Sluice's
// part of a description, and closes none, because their branches can have work of people.
func (t *follower) announceEnded(ctx context.Context) error {
	for _, ended := range t.endedBranches() {
		mr, err := t.forge.MergeRequest(ctx, t.place.Repo(), ended.Number) // with its text
		if err != nil {
			return err
		}
		own := finished(mr.Body, followEnded)
		if own == "" || describes(mr.Body, own) {
			continue
		}
		if err := t.forge.EditMergeRequest(ctx, t.place.Repo(), mr.Number, mr.Title,
			description(own, mr.Body, t.forge.CommentLimit()), false); err != nil {
			return err
		}
	}
	return nil
}

// report writes on the tip of the trunk which repositories cannot be followed.
func (t *follower) report(ctx context.Context, failed []string) error {
	state, text := forge.Success, "Sluice follows each repository with follow"
	if n := len(failed); n > 0 {
		state, text = forge.Failure, safetext.Line(failed[0])
		if n > 1 {
			text = report.Count(n, "repository") + " cannot be followed: " + text
		}
	}
	t.forge.statuses.expire(t.place, t.tip.Hash.String()) // another replica may have written one
	status := forge.Status{Context: t.context() + "/follow", State: state, Description: text}
	// a success only replaces a failure
	if len(failed) == 0 && t.forge.state(ctx, t.place.Repo(), t.tip.Hash.String(), status.Context) != forge.Failure {
		return nil
	}
	return t.forge.SetStatus(ctx, t.place.Repo(), t.tip.Hash.String(), status)
}

// one moves the pin of one repository.
func (t *follower) one(ctx context.Context, r *fleet.Repository) error {
	if p, ok := t.PlaceOf(r.URL); ok && (t.followers.is(p, t.place) ||
		r.Follow.Commit && t.followers.reaches(p, t.place)) {
		return pinError(nil, "%s:%d: %s is this fleet, its output repository, or a fleet that follows this one, so commits would trigger each other forever (remove follow, or use follow: true in one of two fleets)", r.File, r.Line, r.URL)
	}
	look, cancel := context.WithTimeout(ctx, maxLook)
	f, err := t.space.Follows.Look(look, t.tip, r.Name)
	cancel()
	if err != nil || f.Stale {
		return err
	}
	open, err := t.requestOf(ctx, f)
	switch {
	case err != nil:
		return err
	case f.Current:
		return t.endRequest(ctx, f, open)
	case !r.Follow.Commit:
		return t.keepRequest(ctx, f, open)
	case f.Back != "":
		return pinError(nil, "%s (%.10s) → %s (%.10s): the new pin is %s, so Sluice does not commit it without a review (run `sluice deps update %s` to pin it)", f.From, f.Was, f.To, f.Commit, f.Back, f.Name)
	case f.Undone:
		return pinError(nil, "%s was pinned by a commit of Sluice, and a later commit of %s undoes that: Sluice waits for a newer one (`sluice deps update %s` pins it again)", f.To, f.Target, f.Name)
	}
	if err := t.space.Follows.Commit(ctx, t.tip, f); errors.Is(err, gitstore.ErrRefused) {
		return pinError(err, "the forge refuses the commit on %s: let the account of the service push there, or write follow: true for a merge request", f.Target)
	} else if err != nil {
		return err
	}
	t.log.Info("pinned", "name", f.Name, "from", f.From, "to", f.To)
	return t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Trunk})
}

// requestOf returns the open merge request of the branch; nil if there is none. The task has refreshed the listing.
func (t *follower) requestOf(ctx context.Context, f *Followed) (*forge.MergeRequest, error) {
	list, _ := t.listings.all(t.place) // refreshed by this task
	for _, mr := range list {
		if mr.SourceBranch == f.Branch && !mr.Fork && mr.TargetBranch == f.Target {
			return t.forge.MergeRequest(ctx, t.place.Repo(), mr.Number) // with its text
		}
	}
	return nil, nil //nolint:nilnil // no open merge request
}

// endRequest closes the merge request of a pin that the trunk has. One with somebody else's commits stays open. The
// title and the pin in the description stay: they say what the branch has.
func (t *follower) endRequest(ctx context.Context, f *Followed, open *forge.MergeRequest) error {
	if open == nil || f.By != "" {
		return nil
	}
	body := open.Body
	if own := cmp.Or(finished(body, followDone), followDone); !describes(body, own) {
		body = description(own, body, t.forge.CommentLimit())
	}
	return t.forge.EditMergeRequest(ctx, t.place.Repo(), open.Number, open.Title, body, true)
}

// keepRequest moves the branch to the new pin, and creates or edits its merge request. It changes nothing if somebody
// else committed to the branch, or declined the pin.
func (t *follower) keepRequest(ctx context.Context, f *Followed, open *forge.MergeRequest) error {
	var earlier forge.State // of a merge request that had this head
	if open == nil {
		var err error
		if earlier, err = t.earlierState(ctx, f); err != nil {
			return err
		}
	}
	switch {
	case f.By != "" && !f.Merged && earlier != forge.Merged: // the branch has what nothing else has
		if open == nil {
			return pinError(nil, "the branch %s has a commit by %s and no open merge request: open one, or delete the branch, so that Sluice can move the pin", f.Branch, f.By)
		}
		return t.describe(ctx, f, open)
	case f.By == "" && f.Same && earlier != "":
		// declined, or undone after the merge; the branch stays as it is, because its head says which commit that was
		return nil
	}
	if err := t.moveBranch(ctx, f); err != nil {
		return err
	}
	if open != nil {
		return t.describe(ctx, f, open)
	}
	mr, err := t.forge.CreateMergeRequest(ctx, t.place.Repo(),
		forge.NewRequest{
			Title: requestTitle(f), Body: ownPart(f, followKeeps), SourceBranch: f.Branch,
			TargetBranch: f.Target,
		})
	if err != nil {
		return fmt.Errorf("open the merge request of %s: %w", f.Branch, err)
	}
	t.listings.correct(t.place, mr)
	t.log.Info("a merge request moves a pin", "merge_request", mr.Number, "name", f.Name, "from", f.From, "to", f.To)
	return t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Review, Number: mr.Number})
}

// declinedKey is the key of the head of a branch whose merge request was closed.
func declinedKey(branch string) string { return "declined " + branch }

// foreignKey is the key of a head that a person committed, with the trunk, of which no merge request is known.
func foreignKey(branch string) string { return "foreign " + branch }

// earlierState returns the state of a merge request that had the present head of the branch and is not open; "" if
// there is none, or if it does not matter. Looking for it can cost many requests, so the answer is remembered: for a
// person's commit until the trunk moves, which a merge does.
func (t *follower) earlierState(ctx context.Context, f *Followed) (forge.State, error) {
	if f.Head == "" || f.By == "" && !f.Same || f.By != "" && f.Merged {
		return "", nil
	}
	declined, foreign := declinedKey(f.Branch), foreignKey(f.Branch)
	switch {
	case f.By == "" && t.seen(declined, f.Head):
		return forge.Closed, nil
	case f.By != "" && t.seen(foreign, f.Head+t.tip.Hash.String()):
		return "", nil
	}
	earlier, err := t.earlierRequest(ctx, f)
	switch {
	case err != nil:
		return "", err
	case earlier == nil && f.By != "":
		t.remember(foreign, f.Head+t.tip.Hash.String())
		return "", nil
	case earlier == nil:
		return "", nil
	case f.By == "":
		t.remember(declined, f.Head)
	}
	return earlier.State, nil
}

// moveBranch moves the branch to the new pin if it is not there.
func (t *follower) moveBranch(ctx context.Context, f *Followed) error {
	if f.UpToDate && f.By == "" {
		return nil
	}
	head, err := t.space.Follows.Move(ctx, t.tip, f)
	if errors.Is(err, gitstore.ErrRefused) {
		return pinError(err, "the forge refuses the push: let the account of the service push to %s", f.Branch)
	}
	if err == nil {
		f.Head, f.By = head, ""
	}
	return err
}

// earlierRequest returns the merge request of the branch with its present head that is no longer open; nil if there is
// none.
func (t *follower) earlierRequest(ctx context.Context, f *Followed) (*forge.MergeRequest, error) {
	const clockSkew = 10 * time.Minute // between the forge and this machine
	since := f.Committed.Add(-clockSkew)
	list, err := t.forge.RecentMergeRequests(ctx, t.place.Repo(), since)
	if err != nil {
		return nil, err
	}
	var out *forge.MergeRequest
	for _, mr := range list {
		if mr.SourceBranch == f.Branch && mr.TargetBranch == f.Target && !mr.Fork && mr.Head == f.Head &&
			mr.State != forge.Open && (out == nil || mr.State == forge.Merged) {
			out = mr
		}
	}
	return out, nil
}

// describe brings the title and the description of a merge request up to date. What people wrote stays, and so does the
// title that a person gave.
func (t *follower) describe(ctx context.Context, f *Followed, mr *forge.MergeRequest) error {
	own := ownPart(f, followKeeps)
	if describes(mr.Body, own) {
		return nil
	}
	self, err := t.forge.Self(ctx)
	if err != nil {
		return err
	}
	title := requestTitle(f)
	if !strings.EqualFold(mr.Author.Login, self.Login) {
		title = mr.Title
	}
	return t.forge.EditMergeRequest(ctx, t.place.Repo(), mr.Number, title,
		description(own, mr.Body, t.forge.CommentLimit()), false)
}
