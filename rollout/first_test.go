package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// empty is prod before its first state, with a request for c2, which staging has run for a minute. Bakes, a check that
// fails and statuses that nobody posts would stop any other promotion.
func empty(t *testing.T, change func(*rollout.Situation)) rollout.Situation {
	t.Helper()
	s := prod(fleet.Promotion{
		Mode: "manual", Bake: "2h", Checks: []fleet.Check{{Name: "up"}},
		Approvers: fleet.Approvers{Count: 1},
		Waves:     []fleet.Wave{{Name: "canary", Count: 1, Bake: "24h"}, {Name: "rest"}},
	}, rollout.ClusterState{Cluster: rollout.Cluster{Name: "a"}}, rollout.ClusterState{Cluster: rollout.Cluster{Name: "b"}})
	s.Running = rollout.Running{}
	s.Candidate = &rollout.Candidate{Source: rollout.Source{Commit: "c2"}, Tree: "t2", Policy: rollout.Green}
	s.Checks = []rollout.CheckResult{{Name: "up", State: rollout.Red, Reason: "connection refused", At: s.Now}}
	for _, e := range []rollout.Event{
		{Kind: rollout.EventPromote, By: "mia", At: s.Now, Source: rollout.Source{Commit: "c2"}},
		{Kind: rollout.EventApprove, By: "bob", At: s.Now, Tree: "t2"},
	} {
		var err error
		if s.Record, err = rollout.Apply(s.Record, e); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(&s)
	}
	return s
}

// filled executes the move of the environment branch.
func filled(s *rollout.Situation) {
	s.Running = rollout.Running{Source: rollout.Source{Commit: "c2"}, Tree: "t2", Commit: "x2", First: true}
	for i := range s.Clusters {
		s.Clusters[i].Desired = s.Clusters[i].Name + "2"
	}
}

// The first state of an environment waits for no bake and no check, and for every other gate.
func TestFirstFill(t *testing.T) {
	t.Parallel()
	record := func(e rollout.Event) func(*rollout.Situation) {
		return func(s *rollout.Situation) {
			e.By, e.At, e.Reason = "mia", s.Now, "because"
			s.Record, _ = rollout.Apply(s.Record, e)
		}
	}
	for name, c := range map[string]struct {
		change func(*rollout.Situation)
		gate   string // that stops it; "" for none
	}{
		"free":                     {nil, ""},
		"halted":                   {record(rollout.Event{Kind: rollout.EventHalt}), "halt"},
		"frozen":                   {record(rollout.Event{Kind: rollout.EventFreeze}), "freeze"},
		"not approved":             {func(s *rollout.Situation) { s.Record.Approvals = nil }, "approvals"},
		"against policy":           {func(s *rollout.Situation) { s.Candidate.Policy = rollout.Red }, "policy"},
		"not rendered":             {func(s *rollout.Situation) { s.Candidate.Blocked = "a target fails" }, "rendered"},
		"staging lacks the commit": {func(s *rollout.Situation) { s.Before[0].Source.Commit = "c1" }, "before/staging"},
		"staging is incomplete":    {func(s *rollout.Situation) { s.Before[0].Complete = false }, "before/staging"},
		"outside the window": {func(s *rollout.Situation) {
			s.Environment.Promotion.Windows = []fleet.Window{{Days: []string{"Mon"}, From: "09:00", To: "10:00"}}
		}, "window"},
		"a cluster ran something": {func(s *rollout.Situation) { s.Clusters[0].Tree = "a1" }, "before/staging"},
		"it ran something once": {func(s *rollout.Situation) {
			s.Record.Ran = []rollout.PastState{{Source: rollout.Source{Commit: "c1"}, Tree: "t1", At: s.Now}}
		}, "before/staging"},
	} {
		s := empty(t, c.change)
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(d.Actions, func(a rollout.Action) bool { return a.Kind == rollout.MoveEnvironment })
		closed := slices.DeleteFunc(slices.Clone(d.Gates), func(g rollout.Gate) bool { return g.State == rollout.Green })
		if c.gate != "" {
			if i >= 0 || len(closed) == 0 || !slices.ContainsFunc(closed, func(g rollout.Gate) bool { return g.Name == c.gate }) {
				t.Errorf("%s: want gate %s closed, got %v and actions %+v", name, c.gate, closed, d.Actions)
			}
			continue
		}
		if i < 0 {
			t.Fatalf("%s: the environment does not move: %v", name, closed)
		}
		want := "bake of staging (2h0m0s), check/up before the first wave, bake of wave canary (24h0m0s)"
		if got := strings.Join(d.Actions[i].Inapplicable, ", "); got != want {
			t.Errorf("%s: gates that do not apply: got %q, want %q", name, got, want)
		}
		if !slices.ContainsFunc(d.Gates, func(g rollout.Gate) bool {
			return g.Name == "before/staging" && strings.Contains(g.Reason, "does not apply to a first fill")
		}) {
			t.Errorf("%s: no gate names the bake: %v", name, d.Gates)
		}
	}
}

// The waves of a first fill do not bake. They wait for statuses and checks, and only a red status is a failure: what a
// check asks never answered before. The next promotion bakes again.
func TestWavesOfFirstFill(t *testing.T) {
	t.Parallel()
	s := empty(t, nil)
	s.Environment.Promotion.Health = fleet.Health{CommitStatuses: []string{"sync"}}
	status := func(s *rollout.Situation, state string) {
		s.Clusters = slices.Clone(s.Clusters)
		for i := range s.Clusters {
			s.Clusters[i].Statuses = []rollout.Status{{Name: "sync", State: state}}
		}
	}
	filled(&s)
	if moved, _ := step(t, &s); !slices.Equal(moved, []string{"a"}) {
		t.Fatalf("the canary: %v moved", moved)
	}
	if moved, d := step(t, &s); len(moved) > 0 || d.Record.Halt != nil {
		t.Errorf("without a status: %v moved, halted %v", moved, d.Record.Halt)
	}
	red := s
	status(&red, "failure")
	if moved, d := step(t, &red); len(moved) > 0 || d.Record.Halt == nil {
		t.Errorf("with a red canary: %v moved, halted %v", moved, d.Record.Halt)
	}
	status(&s, "success")
	if moved, d := step(t, &s); len(moved) > 0 || d.Record.Halt != nil {
		t.Errorf("with a red check: %v moved, halted %v", moved, d.Record.Halt)
	}
	s.Checks[0].State = rollout.Green
	if moved, d := step(t, &s); !slices.Equal(moved, []string{"b"}) {
		t.Fatalf("the rest: %v moved; the gates are %v", moved, d.WaveGates)
	}
	if _, d := step(t, &s); d.Record.Progress.Done.IsZero() {
		t.Errorf("the rollout is not complete although all is green: %+v", d.Record.Progress)
	}
	s.Trunk = append(s.Trunk, "c3")
	s.Running = rollout.Running{Source: rollout.Source{Commit: "c3"}, Tree: "t3", Commit: "x3"}
	for i := range s.Clusters {
		s.Clusters[i].Desired += "next"
	}
	s.Now = s.Now.Add(time.Minute)
	s.Checks[0].At = s.Now
	step(t, &s)
	if moved, d := step(t, &s); len(moved) > 0 {
		t.Errorf("the second state: %v moved without the bake of the canary: %v", moved, d.WaveGates)
	}
}

// again asks to render what prod runs.
func again(t *testing.T, s *rollout.Situation) {
	t.Helper()
	next, err := rollout.Apply(s.Record, rollout.Event{
		Kind: rollout.EventRender, By: "mia", At: s.Now, Reason: "a new version", Source: s.Running.Source,
		Tip: s.Running.Commit,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Record = next
}

// Rendering again brings the source that runs and no other, past no gate but those of the environments before. It is
// done when the branch has moved, or when there is no difference.
func TestRenderAgain(t *testing.T) {
	t.Parallel()
	stage := func() rollout.Situation {
		s := prod(fleet.Promotion{Mode: "auto", Waves: []fleet.Wave{{Name: "canary", Count: 1, Bake: "24h"}, {Name: "rest"}}},
			behind("a", nil), behind("b", nil))
		for i := range s.Clusters {
			s.Clusters[i].Tree = s.Clusters[i].Desired
		}
		step(t, &s)
		s.Trunk = append(s.Trunk, "c3")
		s.Before[0].Source.Commit, s.Before[0].Foreign = "", "somebody pushed"
		s.Candidate = &rollout.Candidate{Source: s.Running.Source, Base: "x2", Tree: "t2b", Policy: rollout.Green}
		again(t, &s)
		return s
	}
	s := stage()
	d, err := rollout.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	a := d.Actions[0]
	if a.Kind != rollout.MoveEnvironment || !a.Renders || a.Source.Commit != "c2" || a.Tree != "t2b" || a.By != "mia" ||
		a.Reason != "a new version" {
		t.Fatalf("got the action %+v, gates %v", a, d.Gates)
	}
	s.Record = d.Record
	s.Running = rollout.Running{Source: s.Running.Source, Tree: "t2b", Commit: "x3", Renders: true}
	for i := range s.Clusters {
		s.Clusters[i].Desired += "again"
	}
	if moved, d := step(t, &s); !slices.Equal(moved, []string{"a"}) || d.Record.Request != nil {
		t.Errorf("after the move: %v moved, and the request is %+v", moved, d.Record.Request)
	}
	if moved, d := step(t, &s); len(moved) > 0 {
		t.Errorf("%v moved without the bake of the canary: %v", moved, d.WaveGates)
	}

	s = stage()
	s.Candidate.Tree = "t2"
	if _, d := step(t, &s); d.Record.Request != nil || d.Actions[0].Kind != rollout.Nothing {
		t.Errorf("without a difference: request %+v, actions %+v", d.Record.Request, d.Actions)
	}
	s = stage()
	s.Candidate.Tree, s.Running.Overwrites = "t2", true
	if d, _ := rollout.Decide(s); d.Actions[0].Kind != rollout.MoveEnvironment {
		t.Errorf("on top of a foreign commit with the same tree: %+v", d.Actions)
	}
	for name, change := range map[string]func(*rollout.Situation){
		"halt":   func(s *rollout.Situation) { s.Record.Halt = &rollout.Halt{By: "bob", At: s.Now} },
		"freeze": func(s *rollout.Situation) { s.Record.Freezes = []rollout.Freeze{{From: s.Now, By: "bob"}} },
		"policy": func(s *rollout.Situation) { s.Candidate.Policy = rollout.Red },
		"branch": func(s *rollout.Situation) { s.Trunk = rollout.Trunk{"c1", "c3"} },
		"window": func(s *rollout.Situation) {
			s.Environment.Promotion.Windows = []fleet.Window{{Days: []string{"Mon"}, From: "09:00", To: "10:00"}}
		},
		"approvals": func(s *rollout.Situation) { s.Environment.Promotion.Approvers = fleet.Approvers{Count: 1} },
	} {
		s := stage()
		change(&s)
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		closed := slices.ContainsFunc(d.Gates, func(g rollout.Gate) bool { return g.Name == name && g.State != rollout.Green })
		moves := slices.ContainsFunc(d.Actions, func(a rollout.Action) bool { return a.Kind == rollout.MoveEnvironment })
		if !closed || moves {
			t.Errorf("gate %s: closed %t, moves %t, gates %v", name, closed, moves, d.Gates)
		}
	}
}
