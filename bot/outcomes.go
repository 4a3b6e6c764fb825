package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/internal/retry"
)

// Outcomes keep what the commands of comments did, for at least as long as a sweep looks for comments whose webhook was lost. So each comment
// is executed once, whatever becomes of the log in Sluice's own comment, which people with write access can edit or delete: a command that was
// refused may be allowed later. A read returns what the last write before it kept, in whichever process.
type Outcomes interface {
	// Outcome returns the value that Keep stored; "" if there is none.
	Outcome(ctx context.Context, p hint.Place, number int, comment int64) (string, error)
	Keep(ctx context.Context, p hint.Place, number int, comment int64, value string) error
}

// ownOutcomes are the outcomes of a process that is the only one, until it ends.
type ownOutcomes struct{ known *lru.Cache[string, string] }

func newOwnOutcomes() ownOutcomes {
	known, err := lru.New[string, string](maxRemembered)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return ownOutcomes{known}
}

// Outcome implements Outcomes.
func (o ownOutcomes) Outcome(_ context.Context, p hint.Place, number int, comment int64) (string, error) {
	value, _ := o.known.Get(fmt.Sprintf("%s %d %d", p, number, comment)) // "" is what the caller expects for an unknown one
	return value, nil
}

// Keep implements Outcomes.
func (o ownOutcomes) Keep(_ context.Context, p hint.Place, number int, comment int64, value string) error {
	o.known.Add(fmt.Sprintf("%s %d %d", p, number, comment), value)
	return nil
}

// outcome is what the commands of a comment did.
type outcome struct {
	Entries []report.CommandEntry `json:"entries"`
	Refused bool                  `json:"refused,omitempty"` // one of them was refused or not understood
}

// maxOutcome is the size of a kept outcome in bytes. A store may refuse more than 64 KiB.
const maxOutcome = 48 << 10

// once calls a function that executes the commands of a comment, unless that was done. A cancelled task still keeps what it did.
func once(ctx context.Context, j *job, c *forge.Comment, execute func() (outcome, error)) (outcome, error) {
	var done outcome
	kept, err := j.Outcomes.Outcome(ctx, j.place, j.hint.Number, c.ID)
	if err != nil {
		return done, fmt.Errorf("look up what the commands of comment %d did: %w", c.ID, err)
	}
	if kept != "" {
		if err := json.Unmarshal([]byte(kept), &done); err != nil {
			j.log.Warn("another version of Sluice executed the commands of a comment; their outcomes are unknown", "merge_request", j.hint.Number, "comment", c.ID, "error", err)
		}
		return done, nil
	}
	if done, err = execute(); err != nil {
		return done, err
	}
	value, err := json.Marshal(done)
	if err == nil && len(value) > maxOutcome {
		value, err = json.Marshal(outcome{Refused: done.Refused})
	}
	if err != nil {
		return done, fmt.Errorf("encode what the commands of comment %d did: %w", c.ID, err)
	}
	ctx, end := retry.Grace(ctx, answerIn)
	defer end()
	if err := j.Outcomes.Keep(ctx, j.place, j.hint.Number, c.ID, string(value)); err != nil {
		return done, fmt.Errorf("keep what the commands of comment %d did: %w", c.ID, err)
	}
	return done, nil
}

// others are the comments of a merge request, and those of them whose commands are handled.
type others struct {
	self    forge.User
	all     []forge.Comment
	handled []int64
}

const (
	orderFor   = 5 * time.Second // how long a comment waits for an earlier one, from its first turn
	orderAgain = time.Second
	together   = time.Minute // between two comments that belong together
)

// earlier returns a *Later if a comment was written shortly before c on the same merge request and its commands are not executed yet: webhooks
// may arrive in another order, and an approval means what was requested before it. A freeze, a halt and a cancel wait for nothing.
func earlier(ctx context.Context, j *job, c *forge.Comment, commands []command.Command, o others) error {
	if urgentOnly(commands) {
		return nil
	}
	now, key := j.Clock(), fmt.Sprintf("order/%d/%d", j.hint.Number, c.ID)
	// Counted from the first turn, not from the hint's arrival: both comments may have waited for a hydration in the meantime.
	since, err := time.Parse(time.RFC3339Nano, j.recall(key))
	if err != nil {
		since = now
		j.remember(key, now.Format(time.RFC3339Nano))
	}
	if now.Sub(since) >= orderFor {
		return nil
	}
	for i := range o.all {
		before := &o.all[i]
		if before.ID >= c.ID || c.Created.Sub(before.Created) > together || before.Author.Bot || strings.EqualFold(before.Author.Login, o.self.Login) || slices.Contains(o.handled, before.ID) {
			continue
		}
		if commands, problems := command.Parse(before.Body); len(commands)+len(problems) == 0 {
			continue
		}
		kept, err := j.Outcomes.Outcome(ctx, j.place, j.hint.Number, before.ID)
		if err != nil {
			return fmt.Errorf("look up what the commands of comment %d did: %w", before.ID, err)
		}
		if kept == "" {
			return &Later{Until: now.Add(orderAgain), Err: errEarlier}
		}
	}
	return nil
}

var errEarlier = errors.New("an earlier comment has commands that are not executed yet")

// urgentOnly reports whether no command waits for commands that were written before it.
func urgentOnly(commands []command.Command) bool {
	for _, c := range commands {
		if !c.Holds() && c.Verb != command.VerbCancel {
			return false
		}
	}
	return len(commands) > 0
}
