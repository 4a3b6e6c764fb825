package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// ledger is a forge that keeps every status, as GitHub does; the newest counts.
type ledger struct {
	Forge
	writes, reads int
	list          map[string]forge.Status
	fail          error
}

func (l *ledger) SetStatus(_ context.Context, _ forge.Repository, _ string, s forge.Status) error {
	l.writes++
	if l.fail != nil {
		return l.fail
	}
	if r := []rune(s.Description); len(r) > 20 {
		s.Description = string(r[:19]) + "…"
	}
	l.list[s.Context] = s
	return nil
}

func (l *ledger) CommitStatuses(context.Context, forge.Repository, string) ([]forge.Status, error) {
	l.reads++
	var out []forge.Status
	for _, s := range l.list {
		out = append(out, s)
	}
	return out, nil
}

// An equal status is not written again, neither by the same process nor by another. A different one is.
func TestEqualStatusesAreNotWrittenAgain(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := &ledger{list: map[string]forge.Status{}}
	replica := func() statusForge {
		return statusForge{l, hint.Place(""), newStatuses(func() time.Time { return now })}
	}
	a, b := replica(), replica()
	say := func(q statusForge, state forge.StatusState, words string) int {
		t.Helper()
		before := l.writes
		if err := q.SetStatus(t.Context(), forge.Repository{}, "c",
			forge.Status{Context: "sluice", State: state, Description: words}); err != nil {
			t.Fatal(err)
		}
		return l.writes - before
	}
	const long = "more words than the forge takes at once"
	for i, step := range []struct {
		q     statusForge
		state forge.StatusState
		words string
		later time.Duration
		want  int
	}{
		{a, forge.Success, long, 0, 1},
		{a, forge.Success, long, time.Minute, 0},
		{b, forge.Success, long, time.Minute, 0}, // another process starts now
		{a, forge.Running, "on its way", 0, 1},
		{a, forge.Pending, "on its way", 0, 0},
		{b, forge.Failure, "x", 0, 1},
		{a, forge.Success, long, statusesFresh, 1},
		{b, forge.Failure, "x", 2 * statusesFresh, 1}, // it reads what a wrote
		{b, forge.Failure, "x", statusesLong, 0},
	} {
		now = now.Add(step.later)
		if got := say(step.q, step.state, step.words); got != step.want {
			t.Errorf("step %d: written %d times, not %d", i, got, step.want)
		}
	}
	reads, writes := l.reads, l.writes
	for i := range 24 * 60 { // a day of descriptions that change by themselves
		now = now.Add(time.Minute)
		say(a, forge.Pending, fmt.Sprint("in ", i))
	}
	if n := l.writes - writes; n < 20 || n > 60 {
		t.Errorf("%d writes of changed descriptions", n)
	}
	if n := l.reads - reads; n > 24*12 {
		t.Errorf("%d reads", n)
	}
	l.fail = errors.New("no")
	if err := a.SetStatus(t.Context(), forge.Repository{}, "c",
		forge.Status{Context: "sluice", State: forge.Failure}); err == nil {
		t.Error("a failure was not written")
	}
	l.fail = nil
	if say(a, forge.Failure, "") != 1 {
		t.Error("a status whose write failed is cached as written")
	}
}

// A commit that failed has a red status with the cause. A green status needs the health of the last wave.
func TestPromotedStatuses(t *testing.T) {
	t.Parallel()
	running := func(change func(*promote.Status)) *promote.Status {
		e := &promote.Status{Environment: "prod", Source: rollout.Source{Commit: "good"}, Tip: "rendered"}
		e.Decision.Waves = []rollout.WaveProgress{
			{Name: "canary", State: rollout.WaveDone},
			{Name: "rest", State: rollout.WaveDone},
		}
		if change != nil {
			change(e)
		}
		return e
	}
	hold := func(cause rollout.HoldCause, commit, by string) rollout.Hold {
		return rollout.Hold{
			Cause: cause, Source: rollout.Source{Commit: commit}, By: by, Reason: "red health",
			Since: time.Now(),
		}
	}
	for name, c := range map[string]struct {
		e    *promote.Status
		want []string
	}{
		"done": {running(nil), []string{"success good,rendered: prod runs it"}},
		"last wave": {
			running(func(e *promote.Status) {
				e.Decision.Waves[1] = rollout.WaveProgress{
					Name: "rest", State: rollout.WaveBaking,
					Reason: "health: eu-1",
				}
			}),
			[]string{"pending good,rendered: prod wave rest, 2 of 2: baking (health: eu-1)"},
		},
		"halted": {
			running(func(e *promote.Status) { e.Decision.Record.Halt = &rollout.Halt{Reason: "red health"} }),
			[]string{"failure good,rendered: prod: halted by Sluice: red health"},
		},
		"failed": {
			running(func(e *promote.Status) {
				e.Decision.Record.Holds = []rollout.Hold{hold(rollout.CauseFailed, "bad", "")}
			}),
			[]string{
				"failure bad: prod: failed and was rolled back by Sluice: red health",
				"success good,rendered: prod runs it",
			},
		},
		"a part went back": {
			running(func(e *promote.Status) {
				e.Decision.Record.Holds = []rollout.Hold{
					hold(rollout.CauseRolledBack, "good", "mia"),
					hold(rollout.CauseStopped, "good", "mia"),
				}
			}),
			[]string{"failure good: prod: was rolled back by mia: red health"},
		},
		"going back": {
			running(func(e *promote.Status) {
				e.Source.Commit = "bad"
				e.Decision.Record.Rollback = &rollout.Rollback{
					From:   rollout.Source{Commit: "bad"},
					Reason: "red health",
				}
			}),
			[]string{"failure bad: prod: is being rolled back: red health"},
		},
		"somebody else's commit": {
			running(func(e *promote.Status) {
				e.Foreign, e.Decision.WaitsFor = "its commit 1a2b3c4d5e by mia was not made by Sluice", "prod waits"
			}),
			[]string{"failure good: `sluice status prod` says what to do: its commit 1a2b3c4d5e by mia was not made by Sluice"},
		},
		"nothing": {&promote.Status{Environment: "prod"}, nil},
	} {
		var got []string
		for _, one := range promotedStatuses("sluice", c.e) {
			if one.status.Context != "sluice/prod" {
				t.Errorf("%s: context %s", name, one.status.Context)
			}
			got = append(got, fmt.Sprintf("%s %s: %s", one.status.State, strings.Join(one.commits, ","),
				one.status.Description))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the result is %q, want %q", name, got, c.want)
		}
	}
}

// A commit of which a workspace was left out is not called complete.
func TestLeftOutInTheRollout(t *testing.T) {
	hash := func(digit string) gitstore.Hash {
		h, err := gitstore.ParseHash(strings.Repeat(digit, 40))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	newest, middle, oldest := hash("c"), hash("b"), hash("a")
	place := map[gitstore.Hash]int{newest: 0, middle: 1, oldest: 2}
	status := promote.Status{Environment: "prod", Tip: "d", Source: rollout.Source{
		Commit: newest.String(),
		Apps:   map[string]string{"team-a/cart": oldest.String(), "team-b/till": oldest.String()},
	}}
	status.Decision.LeftOut = []string{"team-a"}
	running := []promote.Running{{Environment: "prod", Source: newest}}
	for commit, want := range map[gitstore.Hash]string{
		newest: "runs it without team-a",
		middle: "runs it without team-a", oldest: "runs it",
	} {
		rows, everywhere := rolloutRows(commit, place, running, &fleet.Fleet{}, nil, []promote.Status{status})
		if rows[0].State != want || everywhere != (want == "runs it") {
			t.Errorf("%s: %q, everywhere %v", commit.Short(), rows[0].State, everywhere)
		}
	}
	list := promotedStatuses("sluice", &status)
	if len(list) != 1 || list[0].status.Description != "prod runs it without team-a, red in an environment before" {
		t.Errorf("the list is %+v", list)
	}
}

// The comment of a merge request says to what an environment was rolled back, by whom and why.
func TestRolledBackInTheRollout(t *testing.T) {
	const bad, good = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for want, h := range map[string]rollout.Hold{
		"rolled back to aaaaaaaa by mia: red health (all of prod)": {
			Cause: rollout.CauseRolledBack, By: "mia",
			Reason: "red health",
		},
		"failed and was rolled back to aaaaaaaa by Sluice (wave canary)": {
			Cause: rollout.CauseFailed, Wave: "canary",
			Clusters: []string{"c"},
		},
		"rolled back to aaaaaaaa by mia: slow (shop on all of prod)": {
			Cause: rollout.CauseRolledBack, By: "mia",
			Reason: "slow", Apps: []string{"shop"},
		},
		"": {Cause: rollout.CauseStopped, By: "mia"},
	} {
		h.Source = rollout.Source{Commit: bad}
		status := &promote.Status{Environment: "prod", Source: rollout.Source{Commit: good}}
		status.Decision.Record.Holds = []rollout.Hold{h}
		if got := rolledBack(status, bad); got != want {
			t.Errorf("the result of rolledBack is %q, want %q", got, want)
		}
		if got := rolledBack(status, good); got != "" {
			t.Errorf("the commit that runs: %q", got)
		}
	}
}
