package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Person is who gave a command, as the forge knows them when it is executed.
type Person struct {
	User   forge.User
	Access forge.Access
	InTeam func(ctx context.Context, team string) (bool, error)
}

// Order is a command on an environment, for a Workspace to carry out.
type Order struct {
	command.Command
	ID    string // of the comment and the line, so that it may come twice
	By    Person
	Trunk gitstore.Commit // whose sluice.yaml says who may
	Said  time.Time       // when the comment was written: what came later was not meant
	MR    *forge.MergeRequest
	Own   bool // the head is of somebody who may write: only then may what it names be fetched with credentials
}

// ErrStopped classifies a review that was stopped because it exceeded a limit. The same head would exceed it again.
var ErrStopped = errors.New("the review was stopped")

// ErrRefused is a command that is not carried out; its text says why, for whoever gave it.
var ErrRefused = errors.New("refused")

// fresh is how old a command may be that no webhook told of: who gave it still expects it.
const fresh = time.Hour

// commandsAgain finds commands that no webhook told of, and has them looked at. One that was edited is refused then: others than its
// author may have.
func (j *job) commandsAgain(ctx context.Context) error {
	now := j.Clock()
	recent, err := j.forge.RecentMergeRequests(ctx, j.place.Repo(), now.Add(-fresh))
	if err != nil || len(recent) == 0 {
		return err
	}
	self, err := j.forge.Self(ctx)
	if err != nil {
		return err
	}
	for _, mr := range recent {
		key, state := fmt.Sprintf("comments/%d", mr.Number), mr.Updated.String()
		if j.seen(key, state) {
			continue
		}
		all, err := j.forge.Comments(ctx, j.place.Repo(), mr.Number)
		if err != nil {
			return err
		}
		handled := publish.Handled(self, all)
		for _, c := range all {
			if now.Sub(c.Created) > fresh || c.Author.Bot || strings.EqualFold(c.Author.Login, self.Login) || slices.Contains(handled, c.ID) {
				continue
			}
			if commands, problems := command.Parse(c.Body); len(commands)+len(problems) == 0 {
				continue
			}
			if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Comment, Number: mr.Number, Comment: c.ID}); err != nil {
				return err
			}
		}
		if now.Sub(mr.Updated) > time.Minute { // forges' times are coarse, and their clocks others
			j.remember(key, state)
		}
	}
	return nil
}

// comment carries out the commands of a comment: those that are new, by people who may.
func (j *job) comment(ctx context.Context) error {
	number := j.hint.Number
	c, err := j.forge.Comment(ctx, j.place.Repo(), number, j.hint.Comment)
	if errors.Is(err, forge.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	commands, problems := command.Parse(c.Body)
	if len(commands)+len(problems) == 0 {
		return nil
	}
	self, err := j.forge.Self(ctx)
	if err != nil {
		return err
	}
	if c.Author.Bot || strings.EqualFold(c.Author.Login, self.Login) {
		return nil
	}
	mr, err := j.forge.MergeRequest(ctx, j.place.Repo(), number)
	if err != nil {
		return err
	}
	if done, err := publish.Logged(ctx, j.forge, j.place.Repo(), number, c.ID); err != nil || done && !j.hint.Force {
		return err
	}
	if edited(c, j.hint.Text) { // by anybody who may write: these need not be the author's words
		entry := report.CommandEntry{Who: c.Author.Login, Command: "/sluice …", Outcome: "refused: the comment was edited: write a new one", At: c.Created}
		return j.answered(ctx, c, true, entry)
	}
	j.text = forge.TextDigest(c.Body)
	if err := j.forge.React(ctx, j.place.Repo(), number, c.ID, forge.Eyes); err != nil && !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	entries, refused, err := j.carryOut(ctx, mr, c, commands)
	if err != nil {
		return err // it is tried again: what was done already does no harm
	}
	for _, p := range problems {
		entries = append(entries, report.CommandEntry{Who: c.Author.Login, Command: p.Text, Outcome: "not understood: " + p.Message + suggestion(p.Hint), At: c.Created})
	}
	return j.answered(ctx, c, refused || len(problems) > 0, entries...)
}

// edited says whether a comment's text may be another one than it was created with. A webhook told the text; without one, the forge's
// times must be the same. Reactions may move a comment's time, and never its text.
func edited(c *forge.Comment, text string) bool {
	if text != "" {
		return forge.TextDigest(c.Body) != text
	}
	return !c.Updated.IsZero() && !c.Updated.Equal(c.Created)
}

// answered logs what became of a comment, and marks it.
func (j *job) answered(ctx context.Context, c *forge.Comment, refused bool, entries ...report.CommandEntry) error {
	if j.hint.Force { // it had failed, and that was logged
		if err := publish.Forget(ctx, j.forge, j.place.Repo(), j.hint.Number, c.ID); err != nil {
			return err
		}
	}
	if err := publish.Log(ctx, j.forge, j.place.Repo(), j.hint.Number, c.ID, entries...); err != nil {
		return err
	}
	reaction := forge.Rocket
	if refused {
		reaction = forge.Confused
	}
	if err := j.forge.React(ctx, j.place.Repo(), j.hint.Number, c.ID, reaction); err != nil && !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	return nil
}

func suggestion(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// carryOut does the commands in order. A refusal stops none of the others.
func (j *job) carryOut(ctx context.Context, mr *forge.MergeRequest, c *forge.Comment, commands []command.Command) (entries []report.CommandEntry, refused bool, err error) {
	by, err := j.person(ctx, c)
	if err != nil {
		return nil, false, err
	}
	for i, one := range commands {
		outcome, err := j.one(ctx, mr, Order{Command: one, ID: j.orderID(mr, c, i), By: by, MR: mr, Said: c.Created}, c.Created)
		switch {
		case errors.Is(err, ErrRefused):
			refused = true
			outcome = err.Error()
		case errors.Is(err, forge.ErrForbidden), errors.Is(err, forge.ErrUnsupported): // it will not be otherwise the next time
			j.log.Warn("a command failed for good", "verb", string(one.Verb), "merge_request", mr.Number, "error", err)
			refused = true
			outcome = "failed: " + cause(err)
		case err != nil:
			return nil, false, fmt.Errorf("%s: %w", one.Verb, err)
		}
		j.log.Info("command", "verb", string(one.Verb), "merge_request", mr.Number, "comment", c.ID, "refused", err != nil)
		entries = append(entries, report.CommandEntry{Who: c.Author.Login, Command: one.String(), Outcome: outcome, At: c.Created})
	}
	return entries, refused, nil
}

// person returns who wrote a comment, with the rights of this moment.
func (j *job) person(ctx context.Context, c *forge.Comment) (Person, error) {
	by := Person{User: c.Author, InTeam: func(ctx context.Context, team string) (bool, error) {
		return j.forge.InTeam(ctx, j.place.Repo(), team, c.Author.Login)
	}}
	var err error
	by.Access, err = j.forge.Access(ctx, j.place.Repo(), c.Author.Login)
	if errors.Is(err, forge.ErrNotFound) {
		err = nil
	}
	return by, err
}

// orderID identifies a command of a comment by its index.
func (j *job) orderID(mr *forge.MergeRequest, c *forge.Comment, index int) string {
	return fmt.Sprintf("%s/%d/%d/%d", j.place, mr.Number, c.ID, index)
}

// one carries out one command, if the person may.
func (j *job) one(ctx context.Context, mr *forge.MergeRequest, o Order, at time.Time) (string, error) {
	need := forge.AccessRead
	if o.Right() == command.RightWrite {
		need = forge.AccessWrite
	}
	if o.By.Access < need {
		return "", fmt.Errorf("%w: it needs the right to %s, and %s has %s", ErrRefused, map[forge.Access]string{forge.AccessRead: "read", forge.AccessWrite: "write"}[need], o.By.User.Login, o.By.Access)
	}
	switch o.Verb {
	case command.VerbHelp:
		return j.reply(ctx, mr, o, func() (string, error) {
			return "Commands, each at the beginning of a line:\n\n" + command.Help(), nil
		})
	case command.VerbRetry:
		return j.retry(ctx, mr)
	case command.VerbCancel:
		return j.cancel(ctx, mr, o)
	case command.VerbTrust:
		return j.trust(ctx, mr, o, at)
	case command.VerbDiff, command.VerbExplain:
		return j.askLater(ctx, mr)
	}
	if err := j.open(ctx); err != nil {
		return "", err
	}
	tip, f, err := j.trunkTip(ctx)
	if err != nil && !errors.Is(err, ErrNoFleet) {
		return "", err
	}
	if f == nil {
		return "", fmt.Errorf("%w: the trunk's fleet cannot be read", ErrRefused)
	}
	o.Trunk = tip
	if o.Verb == command.VerbStatus {
		return j.reply(ctx, mr, o, func() (string, error) { return j.space.Questions.Answer(ctx, o) })
	}
	outcome, err := j.space.Environments.Order(ctx, o)
	if err != nil {
		return "", err
	}
	return outcome, j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Trunk})
}

// retry begins a new review, and tries again what had failed too often.
func (j *job) retry(ctx context.Context, mr *forge.MergeRequest) (string, error) {
	n, err := j.Unpark(ctx, j.place, mr.Number)
	if err != nil {
		return "", err
	}
	outcome := "a new review begins"
	if n > 0 {
		outcome += fmt.Sprintf("; what had failed is tried again: %d", n)
	}
	return outcome, j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: mr.Number, Force: true})
}

const stoppedBy = "stopped by "

// cancel takes back the review that waits, or that ran until it was interrupted for this. Until somebody retries, or pushes another head,
// none begins: the head's status says so.
func (j *job) cancel(ctx context.Context, mr *forge.MergeRequest, o Order) (string, error) {
	waited, err := j.Cancel(ctx, j.place, mr.Number)
	if err != nil {
		return "", err
	}
	if !waited {
		return "nothing runs for this merge request", nil
	}
	if err := j.say(ctx, mr, forge.Failure, stoppedBy+o.By.User.Login+": `/sluice retry` begins again"); err != nil {
		return "", err
	}
	return "the review was stopped", nil
}

// stopped says whether somebody stopped the review of the head.
func (j *job) stopped(ctx context.Context, mr *forge.MergeRequest) (bool, error) {
	statuses, err := j.forge.Statuses(ctx, j.place.Repo(), mr.Head)
	if err != nil {
		return false, err
	}
	own := j.contextFor(ctx, mr.TargetBranch)
	return slices.ContainsFunc(statuses, func(s forge.Status) bool {
		return s.Context == own && s.State == forge.Failure && (strings.HasPrefix(s.Description, stoppedBy) || strings.HasPrefix(s.Description, ErrStopped.Error()))
	}), nil
}

// Cancels reports whether a comment contains a command to cancel the review of its merge request, by somebody with write access. It
// changes nothing: the hint of the comment executes the command.
func (b *Bot) Cancels(ctx context.Context, t hint.Hint) (bool, error) {
	f, ok := b.Forges(t.Place.Forge())
	if !ok {
		return false, nil
	}
	c, err := f.Comment(ctx, t.Place.Repo(), t.Number, t.Comment)
	if err != nil || edited(c, t.Text) || c.Author.Bot {
		return false, err
	}
	commands, _ := command.Parse(c.Body) // mistakes in other commands do not matter here
	if !slices.ContainsFunc(commands, func(one command.Command) bool { return one.Verb == command.VerbCancel }) {
		return false, nil
	}
	access, err := f.Access(ctx, t.Place.Repo(), c.Author.Login)
	return access >= forge.AccessWrite, err
}

// trust lets a head of somebody without the right to write be rendered: exactly this one.
func (j *job) trust(ctx context.Context, mr *forge.MergeRequest, o Order, at time.Time) (string, error) {
	if mr.State != forge.Open {
		return "", fmt.Errorf("%w: the merge request is not open", ErrRefused)
	}
	if strings.EqualFold(o.By.User.Login, mr.Author.Login) && !mr.Fork {
		return "", fmt.Errorf("%w: somebody else must trust it", ErrRefused)
	}
	again := hint.Hint{Place: j.place, Kind: hint.Review, Number: mr.Number, Force: true}
	if ok, _, err := j.trusted(ctx, mr); err != nil || ok {
		return "it is trusted already", errors.Join(err, j.Enqueue(ctx, again))
	}
	// What is trusted is what whoever commented saw: the head that Sluice had seen when they did, and no other.
	head, since, err := publish.Waiting(ctx, j.forge, j.place.Repo(), mr.Number)
	if err != nil {
		return "", err
	}
	if head != mr.Head || !since.Before(at) {
		if err := j.waits(ctx, mr); err != nil {
			return "", err
		}
		return "", fmt.Errorf("%w: the head %.10s came after the comment, or was not seen before it: look at it, and comment again", ErrRefused, mr.Head)
	}
	err = j.forge.SetStatus(ctx, j.place.Repo(), mr.Head, forge.Status{Context: trustContext, State: forge.Success, Description: "trusted by " + o.By.User.Login})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.10s is trusted", mr.Head), j.Enqueue(ctx, again)
}
