package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/internal/retry"
	"github.com/sluice-gitops/sluice/report"
)

// Outcomes keep what the commands of comments did, for at least as long as a sweep looks for comments whose webhook was
// lost. So each comment is executed once, whatever becomes of the log in Sluice's own comment, which people with write
// access can edit or delete: a command that was refused may be allowed later. A read returns what the last write before
// it stored, in whichever process.
type Outcomes interface {
	// Outcome returns the value that Keep stored; "" if there is none.
	Outcome(ctx context.Context, p hint.Place, number int, comment int64) (string, error)
	Keep(ctx context.Context, p hint.Place, number int, comment int64, value string) error
}

// ownOutcomes are the outcomes of a process that is the only one, until it ends.
type ownOutcomes struct{ known *lru.Cache[string] }

func newOwnOutcomes() ownOutcomes { return ownOutcomes{lru.New[string](maxRemembered)} }

// Outcome implements Outcomes.
func (o ownOutcomes) Outcome(_ context.Context, p hint.Place, number int, comment int64) (string, error) {
	// "" is what the caller expects for an unknown one
	value, _ := o.known.Get(fmt.Sprintf("%s %d %d", p, number, comment))
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
	Open    bool                  `json:"open,omitempty"`    // commands after those of Entries are not executed yet
}

// maxOutcome is the size of an outcome in bytes. A store may refuse more than 64 KiB.
const maxOutcome = 48 << 10

// once calls a function that executes the commands of a comment, unless that was done. If an earlier attempt ended in
// the middle, the function gets what that did, and goes on with the next command: a repeated one that was refused could
// be allowed by now. It stores what it did after each command. A cancelled task still stores it.
func (t *commandTask) once(ctx context.Context, c *forge.Comment,
	execute func(done outcome, store func(outcome) error) (outcome, error),
) (outcome, error) {
	done, known, err := t.executed(ctx, c.ID)
	if err != nil || known && !done.Open {
		return done, err
	}
	store := func(o outcome) error {
		value, err := json.Marshal(o)
		if err == nil && len(value) > maxOutcome {
			if o.Open {
				return nil // too large to go on with; the commands of the comment are repeated
			}
			value, err = json.Marshal(outcome{Refused: o.Refused})
		}
		if err != nil {
			return fmt.Errorf("encode what the commands of comment %d did: %w", c.ID, err)
		}
		ctx, end := retry.Grace(ctx, answerIn)
		defer end()
		if err := t.Outcomes.Keep(ctx, t.place, t.hint.Number, c.ID, string(value)); err != nil {
			return fmt.Errorf("store what the commands of comment %d did: %w", c.ID, err)
		}
		return nil
	}
	if done, err = execute(done, store); err != nil {
		return done, err
	}
	return done, store(done)
}

// execute executes the commands in order, without those that an earlier attempt executed, and stores what it did after
// each but the last. It continues after a refused command.
func (t *commandTask) execute(ctx context.Context, mr *forge.MergeRequest, c *forge.Comment, commands []command.Command,
	done outcome, store func(outcome) error,
) (outcome, error) {
	by, err := t.person(ctx, c)
	if err != nil {
		return done, err
	}
	for i := min(len(done.Entries), len(commands)); i < len(commands); i++ {
		one := commands[i]
		text, err := t.one(ctx, mr, Order{Command: one, ID: t.orderID(mr, c, i), By: by, MR: mr, Said: c.Created},
			c.Created)
		switch {
		case errors.Is(err, ErrRefused):
			done.Refused = true
			text = err.Error()
		case errors.Is(err, forge.ErrForbidden), errors.Is(err, forge.ErrUnsupported):
			// a retry would have the same result
			t.log.Warn("a command failed for good", "verb", string(one.Verb), "merge_request", mr.Number, "error", err)
			done.Refused = true
			text = "failed: " + cause(err)
		case err != nil:
			return done, fmt.Errorf("%s: %w", one.Verb, err)
		}
		t.log.Info("command", "verb", string(one.Verb), "merge_request", mr.Number, "comment", c.ID, "refused",
			err != nil)
		done.Entries = append(done.Entries, report.CommandEntry{
			Who: c.Author.Login, Command: one.String(),
			Outcome: text, At: c.Created,
		})
		if done.Open = i < len(commands)-1; done.Open {
			if err := store(done); err != nil {
				return done, err
			}
		}
	}
	done.Open = false
	return done, nil
}

// executed looks up what the commands of a comment did.
func (t *commandTask) executed(ctx context.Context, comment int64) (done outcome, known bool, err error) {
	value, err := t.Outcomes.Outcome(ctx, t.place, t.hint.Number, comment)
	if err != nil {
		return done, false, fmt.Errorf("look up what the commands of comment %d did: %w", comment, err)
	}
	if value == "" {
		return done, false, nil
	}
	if err := json.Unmarshal([]byte(value), &done); err != nil {
		t.log.Warn("another version of Sluice executed the commands of a comment; their outcomes are unknown",
			"merge_request", t.hint.Number, "comment", comment, "error", err)
	}
	return done, true, nil
}

// others are the comments of a merge request, and those of them whose commands are handled.
type others struct {
	self    forge.User
	all     []forge.Comment
	handled []int64
}

const (
	orderFor   = 15 * time.Second // how long a comment waits for an earlier one, from its first turn
	orderAgain = time.Second
	together   = time.Minute // between two comments that belong together
)

// earlier returns a *Later if a comment was written shortly before c on the same merge request and its commands are not
// executed yet: webhooks may arrive in another order, and an approval means what was requested before it. A freeze, a
// halt and a cancel wait for nothing.
func (t *commandTask) earlier(ctx context.Context, c *forge.Comment, commands []command.Command, o others) error {
	if urgentOnly(commands) {
		return nil
	}
	now, key := t.Clock(), fmt.Sprintf("%s/%d", headKey(t.place, t.hint.Number), c.ID)
	// Counted from the first turn, not from the hint's arrival: both comments may have waited for a hydration in the
	// meantime.
	since, ok := t.turns.Get(key)
	if !ok {
		since = now
		t.turns.Add(key, now)
	}
	if now.Sub(since) >= orderFor {
		return nil
	}
	for i := range o.all {
		before := &o.all[i]
		if before.ID >= c.ID || c.Created.Sub(before.Created) > together || before.Author.Bot ||
			strings.EqualFold(before.Author.Login, o.self.Login) || slices.Contains(o.handled, before.ID) {
			continue
		}
		if commands, problems := command.Parse(before.Body); len(commands)+len(problems) == 0 {
			continue
		}
		done, known, err := t.executed(ctx, before.ID)
		if err != nil {
			return err
		}
		if !known || done.Open {
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
