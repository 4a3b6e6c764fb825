package bot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/report"
)

// room is a forge with a merge request and its comments. Only mia may write.
type room struct {
	notebook
	block chan struct{} // edits wait for it, and are written then; nil: they do not wait
	begun chan struct{} // an edit has arrived
}

func (r *room) Comment(_ context.Context, _ forge.Repository, _ int, id int64) (*forge.Comment, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(c forge.Comment) bool { return c.ID == id })
	if i < 0 {
		return nil, forge.ErrNotFound
	}
	c := r.all[i]
	return &c, nil
}

func (r *room) Access(_ context.Context, _ forge.Repository, login string) (forge.Access, error) {
	if login == "mia" {
		return forge.AccessWrite, nil
	}
	return forge.AccessNone, forge.ErrNotFound
}

func (r *room) EditComment(ctx context.Context, repo forge.Repository, number int, id int64, body string) error {
	if r.block == nil {
		return r.notebook.EditComment(ctx, repo, number, id, body)
	}
	r.begun <- struct{}{}
	select {
	case <-r.block:
		return r.notebook.EditComment(ctx, repo, number, id, body)
	case <-ctx.Done():
		go func() { // the forge has the request, and writes it although nobody waits
			<-r.block
			_ = r.notebook.EditComment(context.WithoutCancel(ctx), repo, number, id, body) // it is the test's own
		}()
		return ctx.Err()
	}
}

// say adds a comment of a person, and returns the task of its webhook.
func (r *room) say(login, text string, at time.Time) hint.Hint {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := forge.Comment{
		ID: int64(len(r.all) + 1), Author: forge.User{Login: login}, Body: text, Created: at,
		Updated: at,
	}
	r.all = append(r.all, c)
	return hint.Hint{
		Place: "hub:acme/fleet", Kind: hint.Comment, Number: 7, Comment: c.ID,
		Text: forge.TextDigest(text), At: at,
	}
}

// log returns Sluice's own comment.
func (r *room) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		if c.Author.Login == "sluice" {
			return c.Body
		}
	}
	return ""
}

// roomed returns a task, and the number of reviews that its commands started.
func roomed(r Forge, o Outcomes, h hint.Hint) (j *task, reviews *int) {
	j, reviews = following(r, nil), new(int)
	j.hint, j.Outcomes = h, o
	j.Enqueue = func(context.Context, hint.Hint) error { *reviews++; return nil }
	return j, reviews
}

// The commands of a comment are executed once, also if somebody deletes or replaces Sluice's comment with the log of
// commands, and if the log could not be written at first.
func TestCommandsAreExecutedOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, spoil := range map[string]func(r *room){
		"the log is deleted": func(r *room) {
			r.all = slices.DeleteFunc(r.all, func(c forge.Comment) bool { return c.Author.Login == "sluice" })
		},
		"the log is replaced": func(r *room) { r.all[len(r.all)-1].Body = "gone" },
		"nothing happens":     func(*room) {},
	} {
		r, kept := &room{}, newOwnOutcomes()
		h := r.say("mia", "/sluice retry\n/sluice promote", now)
		for range 3 {
			j, _ := roomed(r, kept, h)
			if err := (&commandTask{task: j}).comment(t.Context()); err != nil {
				t.Fatalf("%s: the error is %v", name, err)
			}
			spoil(r)
		}
		r.all = append(r.all[:1:1], slices.DeleteFunc(r.all[1:],
			func(c forge.Comment) bool { return !strings.Contains(c.Body, "sluice-log") })...)
		j, reviews := roomed(r, kept, h)
		if err := (&commandTask{task: j}).comment(t.Context()); err != nil || *reviews != 0 {
			t.Errorf("%s: executed %d times more, %v", name, *reviews, err)
		}
		if log := r.log(); !strings.Contains(log, "a new review starts") || !strings.Contains(log, "not understood") {
			t.Errorf("%s: the log is\n%s", name, log)
		}
	}
}

// The log of a comment that was executed is written again as it was, although the comment was edited since, or its
// reactions changed its time as on GitLab. Without the webhook's digest, that looks like an edit. A comment that was
// refused as edited stays refused when it is edited back.
func TestEditedAfterItsCommands(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r, kept := &room{}, newOwnOutcomes()
	h := r.say("mia", "/sluice retry", now)
	j, _ := roomed(r, kept, h)
	if err := (&commandTask{task: j}).comment(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.all = r.all[:1] // the log is deleted, and a sweep finds the comment
	r.all[0].Updated = now.Add(time.Second)
	h.Text = ""
	j, reviews := roomed(r, kept, h)
	if err := (&commandTask{task: j}).comment(t.Context()); err != nil || *reviews != 0 ||
		!strings.Contains(r.log(), "a new review starts") || strings.Contains(r.log(), "edited") {
		t.Errorf("%v, %d reviews, the log is\n%s", err, *reviews, r.log())
	}

	r = &room{}
	h = r.say("mia", "/sluice retry", now)
	r.all[0].Body = "/sluice cancel"
	for range 2 {
		j, reviews := roomed(r, kept, hint.Hint{
			Place: h.Place, Kind: h.Kind, Number: 8, Comment: h.Comment,
			Text: h.Text, At: now,
		})
		if err := (&commandTask{task: j}).comment(t.Context()); err != nil || *reviews != 0 ||
			!strings.Contains(r.log(), "edited") {
			t.Errorf("%v, %d reviews, the log is\n%s", err, *reviews, r.log())
		}
		r.all = r.all[:1]
		r.all[0].Body = "/sluice retry"
	}
}

// stubbornOutcomes cannot keep anything, or not be read.
type stubbornOutcomes struct{ read, write error }

func (s stubbornOutcomes) Outcome(context.Context, hint.Place, int, int64) (string, error) {
	return "", s.read
}

func (s stubbornOutcomes) Keep(context.Context, hint.Place, int, int64, string) error { return s.write }

// A comment whose outcome cannot be looked up is not executed. One whose outcome cannot be kept is repeated.
func TestOutcomesThatFail(t *testing.T) {
	t.Parallel()
	for executed, o := range map[int]Outcomes{
		0: stubbornOutcomes{read: errNoAnswer},
		1: stubbornOutcomes{write: errNoAnswer},
	} {
		r := &room{}
		j, reviews := roomed(r, o, r.say("mia", "/sluice retry", time.Now()))
		if err := (&commandTask{task: j}).comment(t.Context()); !errors.Is(err, errNoAnswer) || *reviews != executed ||
			r.log() != "" {
			t.Errorf("%d reviews, %v, log %q", *reviews, err, r.log())
		}
	}
	large := newOwnOutcomes()
	j, _ := roomed(&room{}, large, hint.Hint{Number: 7})
	for range 2 {
		out, err := (&commandTask{task: j}).once(t.Context(), &forge.Comment{ID: 1},
			func(outcome, func(outcome) error) (outcome, error) {
				return outcome{Entries: []report.CommandEntry{{Outcome: strings.Repeat("x", maxOutcome)}}, Refused: true},
					nil
			})
		if err != nil || !out.Refused {
			t.Errorf("the refused is %v, the error is %v", out.Refused, err)
		}
	}
	if value, _ := large.Outcome(t.Context(), j.place, 7, 1); len(value) == 0 || len(value) > maxOutcome {
		t.Errorf("a large outcome has %d bytes", len(value))
	}
}

// A command waits a few seconds for one that was written before it, because its webhook may arrive later; a freeze does
// not.
func TestCommandsInTheOrderOfTheirComments(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		login, first, second string
		between, waited      time.Duration
		queued               time.Duration
		handled              bool
		want                 bool
	}{
		"an approval after a promotion": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice approve prod", want: true,
		},
		"a mistake before it": {
			login: "mia", first: "/sluice promot prod",
			second: "/sluice approve prod", want: true,
		},
		"after another person's": {
			login: "ada", first: "/sluice promote prod",
			second: "/sluice approve prod", want: true,
		},
		"after a remark": {login: "mia", first: "looks good", second: "/sluice approve prod"},
		"after an executed one": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice approve prod", handled: true,
		},
		"after Sluice's own": {
			login: "sluice", first: "/sluice promote prod",
			second: "/sluice approve prod",
		},
		"long after": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice approve prod", between: time.Hour,
		},
		"it has waited": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice approve prod", waited: orderFor,
		},
		"both have waited for a hydration": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice approve prod", queued: time.Hour, want: true,
		},
		"from a replica whose clock is late": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice approve prod", queued: -time.Hour, waited: orderFor,
		},
		"a freeze does not wait": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice freeze prod --reason x",
		},
		"a freeze and an approval do": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice freeze prod --reason x\n/sluice approve prod", want: true,
		},
		"a cancel and a halt do not either": {
			login: "mia", first: "/sluice promote prod",
			second: "/sluice cancel\n/sluice halt prod --reason x",
		},
	} {
		r, kept := &room{}, newOwnOutcomes()
		r.say(c.login, c.first, now.Add(-c.between))
		h := r.say("mia", c.second, now)
		h.At = now.Add(-c.queued)
		if c.handled {
			if err := kept.Keep(t.Context(), h.Place, 7, 1, "{}"); err != nil {
				t.Fatal(err)
			}
		}
		j, _ := roomed(r, kept, h)
		commands, _ := command.Parse(c.second)
		said, err := r.Comment(t.Context(), forge.Repository{}, 7, h.Comment)
		if err != nil {
			t.Fatal(err)
		}
		if c.waited > 0 {
			j.Clock = func() time.Time { return now.Add(-c.waited) }
			if err := (&commandTask{task: j}).earlier(t.Context(), said, commands,
				others{self: forge.User{Login: "sluice"}, all: r.all}); err == nil {
				t.Errorf("%s: not at first", name)
			}
		}
		j.Clock = func() time.Time { return now }
		err = (&commandTask{task: j}).earlier(t.Context(), said, commands,
			others{self: forge.User{Login: "sluice"}, all: r.all})
		later, waits := errors.AsType[*Later](err)
		if waits != c.want || !waits && err != nil || waits && !later.Until.Equal(now.Add(orderAgain)) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	r := &room{}
	r.say("mia", "/sluice retry", now)
	h := r.say("mia", "/sluice retry", now)
	j, _ := roomed(r, stubbornOutcomes{read: errNoAnswer}, h)
	if err := (&commandTask{task: j}).comment(t.Context()); !errors.Is(err, errNoAnswer) {
		t.Errorf("a store that does not answer: %v", err)
	}
}

// A cancelled task keeps the comment until the forge has answered what it sent: the forge may write it at any time,
// over what the next task writes.
func TestCancelledWritesAreAwaited(t *testing.T) {
	t.Parallel()
	r := &room{}
	first := r.say("mia", "/sluice retry", time.Now())
	j, _ := roomed(r, newOwnOutcomes(), first)
	if err := (&commandTask{task: j}).answered(t.Context(), &forge.Comment{ID: 50}, false,
		report.CommandEntry{Who: "mia", Command: "/sluice help", Outcome: "answered"}); err != nil {
		t.Fatal(err)
	}
	r.block, r.begun = make(chan struct{}), make(chan struct{}, 2)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	write := func(ctx context.Context, id int64) {
		ended <- (&commandTask{task: j}).answered(ctx, &forge.Comment{ID: id}, false,
			report.CommandEntry{Who: "mia", Command: "/sluice retry", Outcome: "done"})
	}
	go write(ctx, 51)
	<-r.begun
	cancel()
	go write(t.Context(), 52)
	select {
	case <-r.begun:
		t.Error("the next task writes before the first one has its answer")
	case <-time.After(50 * time.Millisecond):
	}
	close(r.block)
	for range 2 {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if log := r.log(); !strings.Contains(log, "50 51 52") {
		t.Errorf("the log has lost a command:\n%s", log)
	}
}

// A comment whose second command fails for now goes on with that command: the first one is not repeated, because what
// was refused could be allowed by then.
func TestOnlyTheRestIsRepeated(t *testing.T) {
	t.Parallel()
	r, own := &room{}, newOwnOutcomes()
	h := r.say("mia", "/sluice retry\n/sluice retry\n/sluice promot", time.Now())
	started, failing := 0, true
	for range 2 {
		j, _ := roomed(r, own, h)
		j.Enqueue = func(context.Context, hint.Hint) error {
			if started == 1 && failing {
				failing = false
				return errNoAnswer
			}
			started++
			return nil
		}
		err := (&commandTask{task: j}).comment(t.Context())
		if wrong := started == 1 && !errors.Is(err, errNoAnswer) || started == 2 && err != nil; wrong {
			t.Errorf("after %d: %v", started, err)
		}
	}
	if started != 2 || strings.Count(r.log(), "a new review starts") != 2 ||
		strings.Count(r.log(), "not understood") != 1 {
		t.Errorf("%d reviews started, and the log is\n%s", started, r.log())
	}
	if done, known, err := (&commandTask{task: &task{
		Bot: &Bot{Config: Config{Outcomes: own}}, hint: h,
		place: h.Place,
	}}).executed(t.Context(), h.Comment); done.Open || !known || err != nil {
		t.Errorf("open is %t, known %t, %v", done.Open, known, err)
	}
}
