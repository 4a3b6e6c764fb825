package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// Person is the author of a command, with the rights that the forge reports when the command is executed.
type Person struct {
	User   forge.User
	Access forge.Access
	InTeam func(ctx context.Context, team string) (bool, error)
}

// Order is a command on an environment for a Workspace to execute.
type Order struct {
	command.Command
	ID    string // ID of the comment and index of the command, so that a repeated order is recognised
	By    Person
	Trunk gitstore.Commit // its sluice.yaml defines the rights
	Said  time.Time       // when the comment was written; the command does not apply to later changes
	MR    *forge.MergeRequest
	Own   bool // somebody with write access wrote the head: only then is what it refers to fetched with credentials
}

// ErrStopped classifies a review that exceeded a limit. The same head would exceed it again.
var ErrStopped = review.ErrStopped

// ErrRefused classifies a command that is not executed. Its text tells the author the reason.
var ErrRefused = errors.New("refused")

// commandTask executes the commands of a comment.
type commandTask struct {
	*task
	text string // digest of the text of the comment
}

// comment executes the new commands of a comment, if its author has the rights.
func (t *commandTask) comment(ctx context.Context) error {
	number := t.hint.Number
	c, err := t.forge.Comment(ctx, t.place.Repo(), number, t.hint.Comment)
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
	self, err := t.forge.Self(ctx)
	if err != nil {
		return err
	}
	if c.Author.Bot || strings.EqualFold(c.Author.Login, self.Login) {
		return nil
	}
	mr, err := t.forge.MergeRequest(ctx, t.place.Repo(), number)
	if err != nil {
		return err
	}
	all, err := t.forge.Comments(ctx, t.place.Repo(), number)
	if err != nil {
		return err
	}
	handled := publish.Handled(self, all)
	if slices.Contains(handled, c.ID) && !t.hint.Force {
		return nil
	}
	if err := t.earlier(ctx, c, commands, others{self, all, handled}); err != nil {
		return err
	}
	done, err := t.once(ctx, c, func(done outcome, store func(outcome) error) (outcome, error) {
		// anybody with write access can edit a comment, so this may not be the author's text
		if edited(c, t.hint.Text) {
			entry := report.CommandEntry{
				Who: c.Author.Login, Command: "/sluice …",
				Outcome: "refused: the comment was edited: write a new one", At: c.Created,
			}
			return outcome{Entries: append(done.Entries, entry), Refused: true}, nil
		}
		t.text = forge.TextDigest(c.Body)
		if err := t.forge.React(ctx, t.place.Repo(), number, c.ID, forge.Eyes); err != nil &&
			!errors.Is(err, forge.ErrNotFound) {
			return done, err
		}
		done, err := t.execute(ctx, mr, c, commands, done, store)
		for _, p := range problems {
			done.Entries = append(done.Entries, report.CommandEntry{
				Who: c.Author.Login, Command: p.Text,
				Outcome: "not understood: " + p.Message + suggestion(p.Hint), At: c.Created,
			})
		}
		done.Refused = done.Refused || len(problems) > 0
		return done, err
	})
	if err != nil {
		return err // the queue retries; repeating finished commands does no harm
	}
	return t.answered(ctx, c, done.Refused, done.Entries...)
}

// edited reports whether a comment may have changed since it was created. It compares with the digest from the
// webhook. Without a digest, it compares the forge's times of creation and change. The digest is more precise,
// because a reaction can change the time but not the text.
func edited(c *forge.Comment, text string) bool {
	if text != "" {
		return forge.TextDigest(c.Body) != text
	}
	return !c.Updated.IsZero() && !c.Updated.Equal(c.Created)
}

// answered adds the outcomes of a comment's commands to the log, and sets its reaction.
func (t *commandTask) answered(ctx context.Context, c *forge.Comment, refused bool,
	entries ...report.CommandEntry,
) error {
	if t.hint.Force { // an earlier attempt failed, and the log has it
		if err := t.commenting(ctx, t.hint.Number, func(ctx context.Context) error {
			return publish.Forget(ctx, t.forge, t.place.Repo(), t.hint.Number, c.ID)
		}); err != nil {
			return err
		}
	}
	if err := t.commenting(ctx, t.hint.Number, func(ctx context.Context) error {
		return publish.Log(ctx, t.forge, t.place.Repo(), t.hint.Number, c.ID, entries...)
	}); err != nil {
		return err
	}
	reaction := forge.Rocket
	if refused {
		reaction = forge.Confused
	}
	if err := t.forge.React(ctx, t.place.Repo(), t.hint.Number, c.ID, reaction); err != nil &&
		!errors.Is(err, forge.ErrNotFound) {
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

// person returns the author of a comment with their current rights.
func (t *commandTask) person(ctx context.Context, c *forge.Comment) (Person, error) {
	by := Person{User: c.Author, InTeam: func(ctx context.Context, team string) (bool, error) {
		return t.forge.InTeam(ctx, t.place.Repo(), team, c.Author.Login)
	}}
	var err error
	by.Access, err = t.forge.Access(ctx, t.place.Repo(), c.Author.Login)
	if errors.Is(err, forge.ErrNotFound) {
		err = nil
	}
	return by, err
}

// orderID identifies a command of a comment by its index.
func (t *commandTask) orderID(mr *forge.MergeRequest, c *forge.Comment, index int) string {
	return fmt.Sprintf("%s/%d/%d/%d", t.place, mr.Number, c.ID, index)
}

// one executes one command, if the person has the right.
func (t *commandTask) one(ctx context.Context, mr *forge.MergeRequest, o Order, at time.Time) (string, error) {
	need := forge.AccessRead
	if o.Right() == command.RightWrite {
		need = forge.AccessWrite
	}
	if o.By.Access < need {
		return "", fmt.Errorf("%w: it needs the right to %s, and %s has %s", ErrRefused,
			map[forge.Access]string{forge.AccessRead: "read", forge.AccessWrite: "write"}[need], o.By.User.Login,
			o.By.Access)
	}
	switch o.Verb {
	case command.VerbHelp:
		return t.reply(ctx, mr, o, func() (string, error) {
			return "Commands, each at the beginning of a line:\n\n" + command.Help(), nil
		})
	case command.VerbRetry:
		return t.retry(ctx, mr)
	case command.VerbCancel:
		return t.cancel(ctx, mr, o)
	case command.VerbTrust:
		return t.trust(ctx, mr, o, at)
	case command.VerbDepends:
		return t.answerDepends(ctx, mr, o)
	case command.VerbDiff, command.VerbExplain:
		if len(t.uses.Of(t.place)) > 0 && t.open(ctx) == nil && t.ownTrunk(ctx) == "" {
			return "", fmt.Errorf("%w: this repository has no fleet: ask in a merge request of the fleet", ErrRefused)
		}
		return t.askLater(ctx, mr)
	}
	if err := t.open(ctx); err != nil {
		return "", err
	}
	tip, f, err := (&trunkTask{task: t.task}).tip(ctx)
	if err != nil && !errors.Is(err, ErrNoFleet) {
		return "", err
	}
	if f == nil {
		return "", fmt.Errorf("%w: the trunk's fleet cannot be read", ErrRefused)
	}
	o.Trunk = tip
	if o.Verb == command.VerbStatus {
		return t.reply(ctx, mr, o, func() (string, error) { return t.space.Questions.Answer(ctx, o) })
	}
	outcome, err := t.space.Environments.Order(ctx, o)
	if err != nil {
		t.noteRefused(t.place, o.By.User.Login, o.Command, err)
		return "", err
	}
	return outcome, t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Trunk})
}

// retry starts a new review, and retries parked tasks.
func (t *commandTask) retry(ctx context.Context, mr *forge.MergeRequest) (string, error) {
	n, err := t.Unpark(ctx, t.place, mr.Number)
	if err != nil {
		return "", err
	}
	outcome := "a new review starts"
	if n > 0 {
		outcome += fmt.Sprintf("; parked tasks to retry: %d", n)
	}
	return outcome, t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Review, Number: mr.Number, Force: true})
}

// cancel removes the waiting review. A running review was interrupted before. The status of the head says that it is
// cancelled, and no review starts until `/sluice retry` or a new head.
func (t *commandTask) cancel(ctx context.Context, mr *forge.MergeRequest, o Order) (string, error) {
	waited, err := t.Cancel(ctx, t.place, mr.Number)
	if err != nil {
		return "", err
	}
	if !waited {
		return "no review of this merge request is running or waiting", nil
	}
	if err := t.say(ctx, mr, forge.Failure, stoppedBy+o.By.User.Login+": `/sluice retry` starts it again"); err != nil {
		return "", err
	}
	return "the review was stopped", nil
}

// trust allows Sluice to render this head of an author without write access, and no later head.
func (t *commandTask) trust(ctx context.Context, mr *forge.MergeRequest, o Order, at time.Time) (string, error) {
	if mr.State != forge.Open {
		return "", fmt.Errorf("%w: the merge request is not open", ErrRefused)
	}
	if strings.EqualFold(o.By.User.Login, mr.Author.Login) && !mr.Fork {
		return "", fmt.Errorf("%w: somebody else must trust it", ErrRefused)
	}
	again := hint.Hint{Place: t.place, Kind: hint.Review, Number: mr.Number, Force: true}
	if trust, err := t.trustOf(ctx, mr); err != nil || trust != companions.TrustNone {
		return "it is trusted already", errors.Join(err, t.Enqueue(ctx, again))
	}
	// Trust applies only to the head that Sluice had seen when the comment was written, because that is what its
	// author saw.
	head, since, err := publish.Waiting(ctx, t.forge, t.place.Repo(), mr.Number)
	if err != nil {
		return "", err
	}
	if head != mr.Head || !since.Before(at) {
		if err := (&reviewTask{task: t.task, mr: mr}).waits(ctx); err != nil {
			return "", err
		}
		return "", fmt.Errorf("%w: the head %.10s came after the comment, or was not seen before it: look at it, and comment again", ErrRefused, mr.Head)
	}
	err = t.forge.SetStatus(ctx, t.place.Repo(), mr.Head, forge.Status{
		Context: trustContext, State: forge.Success,
		Description: "trusted by " + o.By.User.Login,
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.10s is trusted", mr.Head), t.Enqueue(ctx, again)
}
