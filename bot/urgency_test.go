package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
)

// saying is a forge with one comment.
type saying struct {
	Forge
	comment forge.Comment
	access  map[string]forge.Access
}

func (s *saying) Comment(context.Context, forge.Repository, int, int64) (*forge.Comment, error) {
	c := s.comment
	return &c, nil
}

func (s *saying) Access(_ context.Context, _ forge.Repository, login string) (forge.Access, error) {
	if a, ok := s.access[login]; ok {
		return a, nil
	}
	return forge.AccessNone, forge.ErrNotFound
}

// Only the unchanged comment of a person with write access interrupts anything. Only freezes and halts alone go before
// other commands: what another command does may depend on those before it.
func TestUrgency(t *testing.T) {
	t.Parallel()
	const freeze = "/sluice freeze prod --reason fire"
	for name, c := range map[string]struct {
		text, login string
		bot, edited bool
		want        Urgency
	}{
		"freeze": {freeze, "mia", false, false, Urgency{Stops: true, First: true}},
		"freeze and halt": {
			freeze + "\n/sluice halt dev", "mia", false, false,
			Urgency{Stops: true, First: true},
		},
		"rollback":                 {"/sluice rollback prod", "mia", false, false, Urgency{Stops: true}},
		"freeze after an unfreeze": {"/sluice unfreeze dev\n" + freeze, "mia", false, false, Urgency{Stops: true}},
		"freeze and cancel": {
			freeze + "\n/sluice cancel", "mia", false, false,
			Urgency{Stops: true, Cancels: true},
		},
		"unfreeze":   {"/sluice unfreeze prod", "mia", false, false, Urgency{}},
		"a reader":   {freeze, "zoe", false, false, Urgency{}},
		"a stranger": {freeze, "eve", false, false, Urgency{}},
		"a bot":      {freeze, "mia", true, false, Urgency{}},
		"edited":     {freeze, "mia", false, true, Urgency{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &saying{access: map[string]forge.Access{"mia": forge.AccessWrite, "zoe": forge.AccessRead}}
			f.comment = forge.Comment{Body: c.text, Author: forge.User{Login: c.login, Bot: c.bot}}
			h := hint.Hint{
				Place: "hub:acme/fleet", Kind: hint.Comment, Number: 1, Comment: 2,
				Text: forge.TextDigest(c.text),
			}
			if c.edited {
				f.comment.Body += "\n/sluice halt prod"
			}
			b := New(Config{Forges: func(string) (Forge, bool) { return f, true }, Clock: time.Now})
			if got, err := b.Urgency(t.Context(), h); got != c.want || err != nil {
				t.Errorf("the result of Urgency is %+v, the error is %v, want %+v", got, err, c.want)
			}
		})
	}
}

// A freeze that was refused to somebody for lack of a right stops nothing when it is repeated. Another refusal, such as
// of a misspelt name or of a promotion, costs nothing.
func TestUrgencyWithoutTheRight(t *testing.T) {
	t.Parallel()
	const freeze, place = "/sluice freeze prod --reason fire\n/sluice cancel", hint.Place("hub:acme/fleet")
	f := &saying{access: map[string]forge.Access{"mia": forge.AccessWrite, "Kim": forge.AccessWrite}}
	f.comment = forge.Comment{Body: freeze, Author: forge.User{Login: "Kim"}}
	now := time.Unix(0, 0)
	b := New(Config{Forges: func(string) (Forge, bool) { return f, true }, Clock: func() time.Time { return now }})
	stops := func(want bool) {
		t.Helper()
		got, err := b.Urgency(t.Context(), hint.Hint{
			Place: place, Kind: hint.Comment, Number: 1, Comment: 2,
			Text: forge.TextDigest(freeze),
		})
		if err != nil || got.Stops != want || !got.Cancels {
			t.Errorf("the result of Urgency is %+v, the error is %v, want %t", got, err, want)
		}
	}
	noRight := fmt.Errorf("order: %w", &NoRightError{"no right"})
	prod := command.Command{Verb: command.VerbFreeze, Target: "prod"}
	b.noteRefused(place, "kim", prod, fmt.Errorf("%w: prd is no environment", ErrRefused))
	b.noteRefused(place, "mia", prod, noRight)
	b.noteRefused("hub:acme/other", "kim", prod, noRight)
	b.noteRefused(place, "kim", command.Command{Verb: command.VerbPromote, Env: "prod"}, noRight)
	b.noteRefused(place, "kim", command.Command{Verb: command.VerbFreeze, Target: "dev"}, noRight)
	stops(true)
	b.noteRefused(place, "kim", prod, noRight)
	stops(false)
	now = now.Add(noUrgency)
	stops(true)
}

// cutOff is a repository whose promotions are interrupted.
type cutOff struct {
	bombSpace
	Branches
	interrupt func(error)
}

var errCut = errors.New("cut off")

func (c *cutOff) Missed(context.Context, gitstore.Commit, int) ([]gitstore.Commit, error) {
	return nil, nil
}

func (c *cutOff) Refs(context.Context) (string, error) { return "refs", nil }

func (c *cutOff) Hydrate(context.Context, hydrate.Request) (*hydrate.Result, error) {
	return &hydrate.Result{}, nil
}

func (c *cutOff) Running(context.Context, gitstore.Hash) ([]promote.Running, error) {
	return nil, nil
}

func (c *cutOff) Line(context.Context, gitstore.Commit, int) ([]gitstore.Commit, error) {
	return nil, nil
}

func (c *cutOff) Output(context.Context) (forge.Repository, bool, error) {
	return forge.Repository{Path: "acme/fleet"}, true, nil
}

func (c *cutOff) Promotions(ctx context.Context, _ gitstore.Commit) ([]promote.Status, error) {
	c.interrupt(errCut)
	return nil, ctx.Err()
}

func (c *cutOff) Order(context.Context, Order) (string, error) { return "", nil }

// A task of the trunk that is interrupted during its promotions is not done, even if nothing is left to report: the
// queue would forget it, and with it the promotions.
func TestInterruptedPromotionsAreNotDone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	space := &cutOff{interrupt: cancel}
	f := &sharedHead{}
	b := New(Config{
		Clock: time.Now, Log: slog.New(slog.DiscardHandler), Enqueue: func(context.Context, hint.Hint) error {
			return nil
		},
		Forges:   func(string) (Forge, bool) { return f, true },
		Settings: func(hint.Place) Settings { return Settings{Context: "sluice"} },
		Observe:  func(string, string, time.Duration) {},
		Open: func(context.Context, hint.Place) (*Workspace, error) {
			return &Workspace{Commits: space, Fleets: space, Branches: space, Environments: space, Close: func() {}},
				nil
		},
	})
	if err := b.Do(ctx, hint.Hint{Place: "hub:acme/fleet", Kind: hint.Trunk}); !errors.Is(err, errCut) {
		t.Errorf("the task ends with %v", err)
	}
}
