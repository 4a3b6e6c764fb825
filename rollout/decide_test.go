package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// at is a Friday.
func at() time.Time { return time.Date(2026, 3, 27, 10, 0, 0, 0, time.UTC) }

// prod has just received c2, which clusters a and b do not run yet.
func prod(p fleet.Promotion, clusters ...rollout.ClusterState) rollout.Situation {
	return rollout.Situation{
		Environment: fleet.Environment{Name: "prod", After: []string{"staging"}, Promotion: p},
		Trunk:       rollout.Trunk{"c1", "c2"}, Now: at(), Record: rollout.NewRecord("prod"), Clusters: clusters,
		Running: rollout.Running{Source: rollout.Source{Commit: "c2"}, Tree: "t2", Commit: "x2"},
		Before:  []rollout.Upstream{{Name: "staging", Source: rollout.Source{Commit: "c2"}, Complete: true}},
	}
}

func behind(name string, change func(*rollout.ClusterState)) rollout.ClusterState {
	c := rollout.ClusterState{Cluster: rollout.Cluster{Name: name, Labels: map[string]string{"pair": "1"}}, Tree: name +
		"1", Desired: name + "2"}
	if change != nil {
		change(&c)
	}
	return c
}

// step decides, and executes the moves of cluster branches. It returns the clusters that moved.
func step(t *testing.T, s *rollout.Situation) (moved []string, d rollout.Decision) {
	t.Helper()
	d, err := rollout.Decide(*s)
	if err != nil {
		t.Fatal(err)
	}
	s.Record = d.Record
	for _, a := range d.Actions {
		if a.Kind != rollout.MoveWave {
			continue
		}
		moved = append(moved, a.Clusters...)
		for i := range s.Clusters {
			for _, name := range a.Clusters {
				if s.Clusters[i].Name == name {
					s.Clusters[i].Tree = s.Clusters[i].Desired
				}
			}
		}
	}
	return moved, d
}

// --now on a current rollout ends its bakes only after a second person agrees, if sluice.yaml requires one.
func TestExpediteNeedsTheSecondPerson(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{true, false} {
		s := prod(fleet.Promotion{
			Mode: "manual", Waves: []fleet.Wave{{Name: "canary", Count: 1, Bake: "24h"}, {Name: "rest"}},
			Rights: []fleet.Rights{
				{Verbs: []string{"promote"}, Roles: []string{"write"}},
				{Verbs: []string{"now"}, Users: []string{"mia"}, SecondPerson: second},
			},
		}, behind("a", nil), behind("b", nil))
		if moved, _ := step(t, &s); len(moved) != 1 {
			t.Fatalf("the canary: %v", moved)
		}
		s.Now = s.Now.Add(time.Minute)
		if moved, _ := step(t, &s); len(moved) != 0 {
			t.Fatalf("without a bake: %v", moved)
		}
		apply := func(e rollout.Event) {
			t.Helper()
			next, err := rollout.Apply(s.Record, e)
			if err != nil {
				t.Fatal(err)
			}
			s.Record = next
		}
		apply(rollout.Event{
			Kind: rollout.EventPromote, By: "mia", At: s.Now, Now: true, Reason: "a hotfix",
			Source: rollout.Source{Commit: "c2"},
		})
		if second {
			apply(rollout.Event{Kind: rollout.EventApprove, By: "mia", At: s.Now, Tree: "t2"})
			moved, d := step(t, &s)
			if len(moved) != 0 || d.WaitsFor != "--now waits for approvals: somebody other than mia must agree: /sluice approve prod" {
				t.Errorf("by her own word alone: %v, %s", moved, d.WaitsFor)
			}
			if x, err := rollout.Expedited(s); err != nil || x == nil || x.Tree != "t2" || x.By != "mia" {
				t.Errorf("to be approved: %+v, %v", x, err)
			}
			apply(rollout.Event{Kind: rollout.EventApprove, By: "bob", At: s.Now, Tree: "t2"})
		}
		if moved, d := step(t, &s); len(moved) != 1 || !d.Actions[0].Overtakes || d.Actions[0].By != "mia" ||
			d.Record.Request != nil {
			t.Errorf("second %t: %v, %+v", second, moved, d.Actions)
		}
	}
}

// A person's --now with another commit is not stopped by the failure that it repairs. The same commit is.
func TestHotfixOfFailure(t *testing.T) {
	t.Parallel()
	for commit, lands := range map[string]bool{"c3": true, "c2": false} {
		s := prod(fleet.Promotion{
			Mode: "auto", Health: fleet.Health{CommitStatuses: []string{"flux"}},
			Waves: []fleet.Wave{{Name: "canary", Count: 1}, {Name: "rest"}},
		}, behind("a", nil), behind("b", nil))
		if moved, _ := step(t, &s); len(moved) != 1 {
			t.Fatalf("the canary: %v", moved)
		}
		s.Clusters[0].Statuses = []rollout.Status{{Name: "flux", State: "failure"}}
		s.Now = s.Now.Add(time.Minute)
		if _, d := step(t, &s); d.Record.Halt == nil {
			t.Fatal("the red canary halts nothing")
		}
		s.Trunk = append(s.Trunk, "c3")
		s.Before[0].Source = rollout.Source{Commit: "c3"}
		next, err := rollout.Apply(s.Record, rollout.Event{
			Kind: rollout.EventPromote, By: "mia", At: s.Now, Now: true, Reason: "a hotfix", Source: rollout.Source{Commit: commit},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Record = next
		s.Candidate = &rollout.Candidate{Source: rollout.Source{Commit: commit}, Tree: "t3", Base: "x2", Policy: rollout.Green}
		moved, d := step(t, &s)
		if got := len(d.Actions) == 1 && d.Actions[0].Kind == rollout.MoveEnvironment; got != lands || len(moved) > 0 || (d.Record.Halt == nil) != lands {
			t.Errorf("%s: lands is %t, and %v moved; %+v", commit, got, moved, d.Record.Halt)
		}
	}
}

// While a person's --now with another commit waits, what it replaces goes to no other cluster, also if the failure passes:
// the failure halts nothing then.
func TestHotfixHoldsTheFailed(t *testing.T) {
	t.Parallel()
	s := prod(fleet.Promotion{
		Mode: "auto", Health: fleet.Health{CommitStatuses: []string{"flux"}},
		Waves: []fleet.Wave{{Name: "canary", Count: 1}, {Name: "rest"}},
		Rights: []fleet.Rights{
			{Verbs: []string{"promote"}, Roles: []string{"write"}}, {Verbs: []string{"now"}, Users: []string{"mia"}, SecondPerson: true},
		},
	}, behind("a", nil), behind("b", nil))
	if moved, _ := step(t, &s); len(moved) != 1 {
		t.Fatalf("the canary: %v", moved)
	}
	s.Clusters[0].Statuses = []rollout.Status{{Name: "flux", State: "failure"}}
	s.Now = s.Now.Add(time.Minute)
	if _, d := step(t, &s); d.Record.Halt == nil {
		t.Fatal("the red canary halts nothing")
	}
	s.Trunk = append(s.Trunk, "c3")
	s.Before[0].Source = rollout.Source{Commit: "c3"}
	next, err := rollout.Apply(s.Record, rollout.Event{
		Kind: rollout.EventPromote, By: "mia", At: s.Now, Now: true, Reason: "a hotfix", Source: rollout.Source{Commit: "c3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Record = next
	s.Candidate = &rollout.Candidate{Source: rollout.Source{Commit: "c3"}, Tree: "t3", Base: "x2", Policy: rollout.Green}
	for _, state := range []string{"failure", "success"} {
		s.Clusters[0].Statuses[0].State = state
		s.Now = s.Now.Add(time.Minute)
		if moved, d := step(t, &s); len(moved) != 0 || len(d.Actions) > 0 && d.Actions[0].Kind != rollout.Nothing {
			t.Errorf("%s: %v moved, %+v", state, moved, d.Actions)
		}
	}
}

// Without statuses and checks, a pause separates the steps of a wave.
func TestStepsSettle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    fleet.Promotion
		wait time.Duration
	}{
		"maxParallel":   {fleet.Promotion{Waves: []fleet.Wave{{Name: "all", MaxParallel: 1}}}, 5 * time.Minute},
		"avoidTogether": {fleet.Promotion{AvoidTogether: []string{"pair"}}, 5 * time.Minute},
		"settle":        {fleet.Promotion{AvoidTogether: []string{"pair"}, Settle: "20m"}, 20 * time.Minute},
	} {
		s := prod(c.p, behind("a", nil), behind("b", nil))
		for range 3 {
			if moved, _ := step(t, &s); len(moved) > 1 {
				t.Fatalf("%s: %v at once", name, moved)
			}
		}
		s.Now = at().Add(c.wait - time.Second)
		if moved, d := step(t, &s); len(moved) != 0 || d.Next != at().Add(c.wait) {
			t.Errorf("%s: %v a second too early; next look %s", name, moved, d.Next)
		}
		s.Now = at().Add(c.wait)
		if moved, _ := step(t, &s); len(moved) != 1 {
			t.Errorf("%s: nothing after %s", name, c.wait)
		}
	}
}

// If all clusters of a wave are frozen, later waves wait, except with --now.
func TestFrozenCanary(t *testing.T) {
	t.Parallel()
	frozen := func(c *rollout.ClusterState) { c.State = "frozen" }
	s := prod(fleet.Promotion{Waves: []fleet.Wave{{Name: "canary", Count: 1}, {Name: "rest"}}}, behind("a", frozen),
		behind("b", nil))
	if moved, d := step(t, &s); len(moved) != 0 || d.WaveGates[len(d.WaveGates)-1].State == rollout.Red {
		t.Errorf("the moved is %v, the wave gates are %v", moved, d.WaveGates)
	}
	s.Record.Progress.Now = true
	if moved, _ := step(t, &s); len(moved) != 1 {
		t.Errorf("with --now: %v", moved)
	}
}

// A cluster branch with a foreign commit stays. Other clusters of its wave move, and the next wave waits.
func TestForeignCluster(t *testing.T) {
	t.Parallel()
	s := prod(fleet.Promotion{Waves: []fleet.Wave{{Name: "first", Count: 2}, {Name: "rest"}}},
		behind("a", func(c *rollout.ClusterState) { c.Foreign = "a human was here" }), behind("b", nil),
		behind("c", nil))
	if moved, _ := step(t, &s); len(moved) != 1 || moved[0] != "b" {
		t.Errorf("first: %v", moved)
	}
	moved, d := step(t, &s)
	if len(moved) != 0 || d.WaitsFor != "the clusters of prod wait: a human was here" {
		t.Errorf("then: %v, %s", moved, d.WaitsFor)
	}
}

// While branches are unprotected, nothing is promoted and the gate names the reason. A rollback continues.
func TestUnprotected(t *testing.T) {
	t.Parallel()
	s := prod(fleet.Promotion{}, behind("a", nil), behind("b", nil))
	s.Unprotected = "env/prod is not protected"
	d, err := rollout.Decide(s)
	if err != nil || len(d.Actions) != 1 || d.Actions[0].Kind != rollout.Nothing || len(d.Gates) != 1 ||
		d.Gates[0].Name != rollout.GateProtection || !strings.Contains(d.WaitsFor, "env/prod is not protected") {
		t.Errorf("the result of Decide is %+v, the error is %v", d, err)
	}
	s.Unprotected = ""
	if moved, _ := step(t, &s); len(moved) == 0 {
		t.Error("nothing moves on protected branches")
	}
}

// Windows at hours that the change to or from summer time skips or repeats.
func TestWindowsOfSummerTime(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	night := []fleet.Window{{Days: []string{"Sat"}, From: "22:00", To: "04:00", TimeZone: "Europe/Berlin"}}
	for _, c := range []struct {
		at   time.Time
		open bool
	}{
		{time.Date(2026, 3, 28, 21, 59, 0, 0, berlin), false},
		{time.Date(2026, 3, 29, 1, 59, 0, 0, berlin), true},
		{time.Date(2026, 3, 29, 3, 30, 0, 0, berlin), true}, // an hour after 1:30
		{time.Date(2026, 3, 29, 4, 0, 0, 0, berlin), false},
		{time.Date(2026, 10, 25, 3, 59, 0, 0, berlin), true},
		{time.Date(2026, 10, 25, 4, 0, 0, 0, berlin), false},
	} {
		if open, reason, _ := rollout.Open(night, nil, c.at); open != c.open {
			t.Errorf("%s: the open is %t, the reason is %s", c.at, open, reason)
		}
	}
}

// If all clusters of an upstream environment are frozen on an older commit, they show nothing about the new one, so
// the promotion waits.
func TestFrozenUpstream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clusters []rollout.ClusterState
		green    bool
	}{
		"all frozen and behind": {[]rollout.ClusterState{behind("s",
			func(c *rollout.ClusterState) { c.State = "frozen" })}, false},
		"frozen, but current": {[]rollout.ClusterState{behind("s",
			func(c *rollout.ClusterState) { c.State, c.Tree = "frozen", c.Desired })}, true},
		"one of two is frozen": {[]rollout.ClusterState{
			behind("s", func(c *rollout.ClusterState) { c.State = "frozen" }),
			behind("r", func(c *rollout.ClusterState) { c.Tree = c.Desired }),
		}, true},
	} {
		s := prod(fleet.Promotion{Mode: "auto"}, behind("a", nil))
		s.Running.Source, s.Running.Tree = rollout.Source{Commit: "c1"}, "t1"
		s.Before[0].Clusters = c.clusters
		_, d := step(t, &s)
		state := rollout.State("")
		for _, g := range d.Gates {
			if g.Name == rollout.GateBefore+"staging" {
				state = g.State
			}
		}
		if (state == rollout.Green) != c.green {
			t.Errorf("%s: the gate is %q: %+v", name, state, d.Gates)
		}
	}
}

// What an environment waits for names a freeze once.
func TestWaitsForOneState(t *testing.T) {
	t.Parallel()
	until := at().Add(time.Hour)
	s := prod(fleet.Promotion{Mode: "manual"}, behind("a", nil))
	s.Record.Freezes = []rollout.Freeze{{Until: until, By: "ada"}}
	want := "the clusters of prod wait: frozen until " + rollout.Stamp(until) + " by ada"
	if _, d := step(t, &s); d.WaitsFor != want {
		t.Errorf("the waits for is %q, want %q", d.WaitsFor, want)
	}
}

// A rollout whose commits are no longer on the trunk stops, with --now as well. A rollback goes on.
func TestRewrittenTrunkStopsWaves(t *testing.T) {
	t.Parallel()
	waves := fleet.Promotion{Mode: "manual", Waves: []fleet.Wave{{Name: "canary", Count: 1}, {Name: "rest"}}}
	for name, change := range map[string]func(*rollout.Situation){
		"plain":   func(*rollout.Situation) {},
		"--now":   func(s *rollout.Situation) { s.Record.Progress.Now, s.Running.Overtakes = true, true },
		"shallow": func(s *rollout.Situation) { s.Shallow = true },
		"rollback": func(s *rollout.Situation) {
			s.Record.Progress.Rollback = true
			s.Record.Progress.Changed = []string{"a", "b"}
		},
	} {
		s := prod(waves, behind("a", nil), behind("b", nil))
		if moved, _ := step(t, &s); len(moved) != 1 {
			t.Fatalf("%s: the canary: moved %v", name, moved)
		}
		s.Now, s.Trunk = s.Now.Add(time.Hour), rollout.Trunk{"c1", "d2"}
		change(&s)
		moved, d := step(t, &s)
		if name == "rollback" {
			if len(moved) != 1 {
				t.Errorf("a rollback waits for %q", d.WaitsFor)
			}
			continue
		}
		if len(moved) != 0 || !strings.Contains(d.WaitsFor, "c2 is not on the trunk") {
			t.Errorf("%s: moved %v, waits for %q", name, moved, d.WaitsFor)
		}
		if strings.Contains(d.WaitsFor, "--unshallow") != (name == "shallow") {
			t.Errorf("%s: the advice is %q", name, d.WaitsFor)
		}
		if len(d.Behind) != 1 || d.Behind[0] != "b" {
			t.Errorf("%s: clusters that do not run it yet: %v, want b", name, d.Behind)
		}
		s.Trunk = rollout.Trunk{"c1", "c2", "d2"} // it is pushed again
		if moved, d := step(t, &s); len(moved) != 1 {
			t.Errorf("%s: afterwards it waits for %q", name, d.WaitsFor)
		}
	}
}

// A wave that went back is not done.
func TestRolledBackWave(t *testing.T) {
	t.Parallel()
	s := prod(fleet.Promotion{Waves: []fleet.Wave{{Name: "canary", Count: 1}, {Name: "rest"}}}, behind("a", nil), behind("b", nil))
	for range 2 {
		step(t, &s)
	}
	s.Record.Progress.Rollback, s.Record.Progress.Changed = true, []string{"a"}
	_, d := step(t, &s)
	var states []string
	for _, w := range d.Waves {
		states = append(states, w.State.String())
	}
	if got := strings.Join(states, ", "); got != "rolled back, done" {
		t.Errorf("the waves are %s", got)
	}
}

// A rollback that finds nothing to go back to does not say that there is no history.
func TestNothingToGoBackTo(t *testing.T) {
	t.Parallel()
	s := prod(fleet.Promotion{}, behind("a", nil))
	read := func(tree, cluster string) (map[string]string, error) {
		if cluster != "a" {
			return map[string]string{"shop": tree}, nil
		}
		return map[string]string{"shop": "same"}, nil
	}
	now := rollout.PastState{Source: s.Running.Source, Tree: "t2"}
	old := rollout.PastState{Source: rollout.Source{Commit: "c1"}, Tree: "t1"}
	for want, history := range map[string][]rollout.PastState{
		"prod has no earlier state": {now},
		"the earlier states of prod (`sluice history prod` lists 1) equal what runs": {now, old},
	} {
		_, err := rollout.RollbackTarget(s, history, nil, nil, read)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d states: %v, want %s", len(history), err, want)
		}
	}
}

// --again brings what was held when it was said, and nothing that went back later.
func TestAgainCoversNoLaterHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		again string
		since time.Duration // of the hold, after the request
		held  bool
	}{
		"without":       {"", -time.Hour, true},
		"with":          {"it was the node", -time.Hour, false},
		"held later":    {"it was the node", time.Hour, true},
		"without later": {"", time.Hour, true},
	} {
		s := prod(fleet.Promotion{Mode: "manual"}, behind("a", nil))
		s.Trunk = rollout.Trunk{"c1", "c2", "c3"}
		s.Clusters[0].Tree = s.Clusters[0].Desired
		s.Running.Source = rollout.Source{Commit: "c1"}
		s.Record.Request = &rollout.Request{Source: rollout.Source{Commit: "c3"}, Again: c.again, By: "ann", At: at()}
		s.Record.Holds = []rollout.Hold{{
			Cause: rollout.CauseRolledBack, Source: rollout.Source{Commit: "c2"}, Tree: "t2", Apps: []string{"web"},
			By: "mia", Since: at().Add(c.since),
		}}
		s.Now = at().Add(2 * time.Hour)
		next, err := rollout.Next(s)
		if err != nil || next == nil || (len(next.Returns) > 0) != c.held {
			t.Errorf("%s: %+v, %v, want held: %t", name, next, err, c.held)
			continue
		}
		if text := s.ReturnsText(*next); c.held && !strings.Contains(text, "`/sluice promote prod --commit c3 --again REASON`") {
			t.Errorf("%s: the advice is %q", name, text)
		}
	}
}

// A rollout that leaves an app at a commit that a rewritten trunk lost brings nothing that the trunk lacks.
func TestRewrittenTrunkStopsOnlyWhatItBrings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before rollout.Source // what ran before the rollout
		moves  int
	}{
		"the app stays":         {rollout.Source{Commit: "c1", Apps: map[string]string{"web": "lost"}}, 1},
		"the rollout brings it": {rollout.Source{Commit: "c1"}, 0},
	} {
		s := prod(fleet.Promotion{Mode: "manual"}, behind("a", nil))
		s.Running.Source = rollout.Source{Commit: "c2", Apps: map[string]string{"web": "lost"}}
		s.Record.Ran = []rollout.PastState{{Source: c.before, Tree: "t1", At: at().Add(-time.Hour)}}
		s.Record.Progress = &rollout.Progress{
			Source: s.Running.Source, Tree: "t2", From: "t1", Started: at(), LastMove: at(), Changed: []string{"a"},
		}
		if moved, d := step(t, &s); len(moved) != c.moves {
			t.Errorf("%s: moved %v, want %d clusters; waits for %q", name, moved, c.moves, d.WaitsFor)
		}
	}
}

// A promotion that names no hold ends none, also after the trunk lost the commit that is held: newer commits can have
// the same content.
func TestHoldOfALostCommitStays(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"", "it was the node"} { // that may mean another hold
		s := prod(fleet.Promotion{Mode: "manual"}, behind("a", nil))
		s.Record.Holds = []rollout.Hold{{
			Cause: rollout.CauseRolledBack, Source: rollout.Source{Commit: "lost"}, Tree: "t1", Apps: []string{"web"},
			By: "mia", Since: at().Add(-time.Hour),
		}}
		s.Record.Request = &rollout.Request{Source: s.Running.Source, Again: again, By: "ann", At: at()}
		_, d := step(t, &s)
		if d.Record.Request != nil || len(d.Record.Holds) != 1 {
			t.Errorf("--again %q: the request is %+v and %d holds are left, want none and one", again,
				d.Record.Request, len(d.Record.Holds))
		}
	}
}

// --again covers the holds that the record has when it is said, although the clock was set back since they began.
func TestAgainAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	s := prod(fleet.Promotion{Mode: "manual"}, behind("a", nil))
	s.Trunk = rollout.Trunk{"c1", "c2", "c3"}
	s.Running.Source = rollout.Source{Commit: "c1"}
	s.Record.Holds = []rollout.Hold{{
		Cause: rollout.CauseRolledBack, Source: rollout.Source{Commit: "c2"}, Tree: "t2", Apps: []string{"web"},
		By: "mia", Since: at().Add(time.Hour),
	}}
	var err error
	if s.Record, err = rollout.Apply(s.Record, rollout.Event{
		Kind: rollout.EventPromote, By: "ann", At: at(), Source: rollout.Source{Commit: "c3"}, Again: "it was the node",
	}); err != nil {
		t.Fatal(err)
	}
	if next, err := rollout.Next(s); err != nil || next == nil || len(next.Returns) > 0 {
		t.Errorf("the proposal is %+v, %v, want one that returns without further words", next, err)
	}
}

// A rollback whose run was interrupted after it moved the environment branch holds what it took back, although its
// clusters were frozen before the next run.
func TestInterruptedRollbackOfFrozenClusters(t *testing.T) {
	t.Parallel()
	for interrupted, holds := range map[bool]int{true: 1, false: 0} {
		s := prod(fleet.Promotion{Mode: "manual"}, behind("a", nil), behind("b", nil))
		s.Record.Progress = &rollout.Progress{Source: s.Running.Source, Tree: "t2", Started: at(), LastMove: at()}
		s.Record.Rollback = &rollout.Rollback{
			To: rollout.Source{Commit: "c1"}, Tree: "t1", From: s.Running.Source, FromTree: "t2", Clusters: []string{"a"},
			By: "mia", At: at(),
		}
		s.Record.Freezes = []rollout.Freeze{{Target: "a", From: at(), Reason: "the fair", By: "noa"}}
		if interrupted {
			s.Running = rollout.Running{
				Source: rollout.Source{Commit: "c2", Clusters: map[string]rollout.ClusterSource{"a": {Commit: "c1"}}},
				Tree:   "t3", Commit: "x3", Restores: true, Restored: []string{"a"},
			}
		}
		_, d := step(t, &s)
		if d.Record.Rollback != nil || len(d.Record.Holds) != holds || (d.Record.Halt == nil) != interrupted {
			t.Errorf("interrupted: %t: the rollback is %+v, the holds are %v, the halt is %v", interrupted,
				d.Record.Rollback, d.Record.Holds, d.Record.Halt)
		}
	}
}
