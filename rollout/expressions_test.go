package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/rollout"
)

// gated is an environment that runs c1, after staging has run c2 for a day. c2 is rendered.
func gated(gates ...fleet.GateExpression) rollout.Situation {
	s := prod(fleet.Promotion{Mode: "auto", Gates: gates, Checks: []fleet.Check{{Name: "errors"}}})
	s.Running = rollout.Running{Source: rollout.Source{Commit: "c1"}, Tree: "t1", Commit: "x1"}
	s.Record.Ran = []rollout.PastState{{Source: rollout.Source{Commit: "c1"}, Tree: "t1", At: at().Add(-72 * time.Hour)}}
	s.Record.Before = map[string]*rollout.UpstreamHistory{"staging": {Ran: []rollout.PastState{
		{Source: rollout.Source{Commit: "c2"}, At: at().Add(-25 * time.Hour), Healthy: at().Add(-24 * time.Hour)},
	}}}
	s.Candidate = &rollout.Candidate{
		Source: rollout.Source{Commit: "c2"}, Tree: "t2", Base: "x1", Policy: rollout.Green,
	}
	s.Before[0].Clusters = []rollout.ClusterState{current("a"), current("b"), behind("c", nil)}
	s.Before[0].Waves = []rollout.UpstreamWave{
		{Name: "canary", Clusters: []string{"a"}, Healthy: at().Add(-25 * time.Hour)},
		{Name: "half", Clusters: []string{"b"}, Healthy: at().Add(-2 * time.Hour)},
		{Name: "rest", Clusters: []string{"c"}},
	}
	value := 0.25
	s.Checks = []rollout.CheckResult{{Name: "errors", State: rollout.Green, Value: &value, At: at()}}
	s.Facts = &expression.Facts{
		Now: at(), Commit: expression.Commit{ID: "c2", Time: at().Add(-30 * time.Hour), Age: 30 * time.Hour},
		Changes: expression.Changes{Changed: 2, Risk: "medium"}, Unknown: map[string]string{"commit.files": "too many"},
	}
	return s
}

func current(name string) rollout.ClusterState {
	return behind(name, func(c *rollout.ClusterState) { c.Tree = c.Desired })
}

// What a status says of a wave is about its clusters alone. Where nothing says when waves were healthy, nothing is known
// of them.
func TestExpressionGatesOfWaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*rollout.Situation)
		expr   string
		want   string
	}{
		"red": {func(s *rollout.Situation) {
			s.Before[0].Clusters[0].Statuses = []rollout.Status{{Name: "flux", State: "failure"}}
			s.Before[0].Clusters[1].Statuses = []rollout.Status{{Name: "flux", State: "success"}}
		}, "!upstreams.staging.waves.canary.healthy && upstreams.staging.waves.half.healthy", "gate/own: green"},
		"no status": {func(s *rollout.Situation) {
			s.Before[0].Clusters[0].StatusesUnknown = "the forge does not answer"
		}, "upstreams.staging.waves.canary.healthy", "gate/own: unknown: upstreams.staging.waves.canary.healthy is not known: 0 of 1 clusters are healthy"},
		"was red": {func(s *rollout.Situation) {
			s.Before[0].Clusters[0].Statuses = []rollout.Status{{Name: "flux", State: "success"}}
			s.Record.Before["staging"].LastRed = at().Add(-time.Hour)
		}, `upstreams.staging.waves.canary.soak == duration("1h")`, "gate/own: green"},
		"the trunk": {func(s *rollout.Situation) {
			s.Before[0].WavesUnknown = "it follows the trunk"
		}, "upstreams.staging.waves.canary.healthy", "gate/own: unknown: upstreams.staging.waves is not known: it follows the trunk"},
		"an older commit": {func(s *rollout.Situation) {
			s.Before[0].Source = rollout.Source{Commit: "c1"}
		}, "upstreams.staging.waves.canary.healthy", ""},
	} {
		s := gated(fleet.GateExpression{Name: "own", Expr: c.expr})
		if name != "the trunk" && name != "an older commit" {
			s.Environment.Promotion.Health = fleet.Health{CommitStatuses: []string{"flux"}}
		}
		c.change(&s)
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, g := range d.Gates {
			if g.Name == "gate/own" {
				got = g.String()
			}
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestExpressionGates(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`upstreams.staging.soak >= duration("24h") && upstreams.staging.healthy`: "green",
		`upstreams.staging.soak >= duration("30h")`:                              `waiting: not true: upstreams.staging.soak >= duration("30h"): false; if nothing else changes, it opens 2026-03-27 16:00 UTC`,
		`now.getHours("UTC") >= 14 && commit.age > duration("31h")`:              `opens 2026-03-27 14:00 UTC`,
		`changes.risk == "low"`:                                                  `waiting: not true: changes.risk == "low": false (changes.risk = "medium")`,
		`checks.errors.value < 0.5`:                                              "green",
		`upstreams.staging.waves.canary.healthy && upstreams.staging.waves.canary.soak >= duration("25h") && "a" in upstreams.staging.waves.canary.clusters`: "green",
		`upstreams.staging.waves.half.soak >= duration("3h")`:                                          `waiting: not true: upstreams.staging.waves.half.soak >= duration("3h"): false; if nothing else changes, it opens 2026-03-27 11:00 UTC`,
		`upstreams.staging.waves.all(w, upstreams.staging.waves[w].healthy)`:                           `waiting: not true`,
		`!upstreams.staging.waves.rest.healthy && upstreams.staging.waves.rest.soak == duration("0s")`: "green",
		`upstreams.staging.waves.other.healthy`:                                                        `unknown: no such key: other`,
		`commit.files.size() > 3`:                                                                      "unknown: commit.files is not known: too many",
		`approvals.count >= 1`:                                                                         `waiting: not true: approvals.count >= 1: false (approvals.count = 0)`,
		`environment.runs == "c1" && commit.id == "c2" && request.by == ""`:                            "green",
	} {
		d, err := rollout.Decide(gated(fleet.GateExpression{Name: "own", Expr: expr}))
		if err != nil {
			t.Fatal(err)
		}
		got, moves := "", false
		for _, g := range d.Gates {
			if g.Name == "gate/own" {
				got = strings.TrimPrefix(g.String(), "gate/own: ")
			}
		}
		for _, a := range d.Actions {
			moves = moves || a.Kind == rollout.MoveEnvironment
		}
		if got == "" || !strings.Contains(got, want) || moves != (got == "green") {
			t.Errorf("%s: %s (moves: %t), want %s", expr, got, moves, want)
		}
	}
}

// What an environment waits for is told again to merge requests when it changes, so it does not change with every second.
func TestExpressionGatesSayTheSame(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{
		`upstreams.staging.soak >= duration("30h1m7s") && now.getHours("UTC") < 30`,
		`changes.risk == "low" || now.getHours("UTC") == 3`,
		`checks.errors.value < 0.0`,
	} {
		said := ""
		for _, later := range []time.Duration{0, 11 * time.Second, 7 * time.Minute, 49*time.Minute + 3*time.Second} {
			s := gated(fleet.GateExpression{Name: "own", Expr: expr})
			s.Now = s.Now.Add(later)
			value := 0.25 + later.Seconds()
			s.Checks[0].At, s.Checks[0].Value = s.Now, &value
			d, err := rollout.Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if said == "" {
				said = d.WaitsFor
			}
			if d.WaitsFor != said || said == "" {
				t.Errorf("after %s: %s, before: %s", later, d.WaitsFor, said)
			}
		}
	}
}

// --now skips expressions, and the first state of an environment has none to wait for.
func TestExpressionGatesDoNotApply(t *testing.T) {
	t.Parallel()
	closed := fleet.GateExpression{Name: "own", Expr: "false", Message: "never"}
	s := gated(closed)
	d, err := rollout.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	if d.WaitsFor == "" || !strings.Contains(d.WaitsFor, "never") {
		t.Errorf("it waits for %q", d.WaitsFor)
	}
	if s.Record, err = rollout.Apply(s.Record, rollout.Event{
		Kind: rollout.EventPromote, By: "mia", At: at(), Now: true, Reason: "a hotfix", Source: rollout.Source{Commit: "c2"},
	}); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]rollout.Situation{"--now": s, "first": first(closed)} {
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		moves := false
		for _, a := range d.Actions {
			moves = moves || a.Kind == rollout.MoveEnvironment
		}
		if !moves {
			t.Errorf("%s: %v, %s", name, d.Gates, d.WaitsFor)
		}
	}
}

// Approvals are not known while an author may be among those who gave them.
func TestExpressionGatesWithUnknownAuthors(t *testing.T) {
	t.Parallel()
	s := gated(fleet.GateExpression{Name: "own", Expr: "approvals.count >= 1"})
	s.Record.Approvals = []rollout.Approval{{By: "mia", Tree: "t2", At: at()}}
	for unknown, want := range map[string]string{"": "gate/own: green", "the forge does not answer": "the forge does not answer"} {
		s.Candidate.AuthorsUnknown = unknown
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(d.Gates, func(g rollout.Gate) bool { return g.Name == "gate/own" }); i < 0 || !strings.Contains(d.Gates[i].String(), want) {
			t.Errorf("%s: %v", unknown, d.Gates)
		}
	}
}

// What an environment before shows is not known without its statuses, and where all its clusters are frozen it is not
// healthy.
func TestExpressionGatesOfUpstreams(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		expr, want string
		change     func(s *rollout.Situation)
	}{
		"no status": {`!upstreams.staging.healthy`, "gate/own: unknown: upstreams.staging.healthy is not known: ", func(s *rollout.Situation) {
			s.Environment.Promotion.Health.CommitStatuses = []string{"sync"}
			s.Before[0].Clusters = []rollout.ClusterState{{Cluster: rollout.Cluster{Name: "s"}, Statuses: nil}}
		}},
		"frozen": {`upstreams.staging.healthy`, "gate/own: waiting", func(s *rollout.Situation) {
			s.Before[0].Clusters = []rollout.ClusterState{{Cluster: rollout.Cluster{Name: "s", State: "frozen"}, Tree: "a", Desired: "b"}}
		}},
	} {
		s := gated(fleet.GateExpression{Name: "own", Expr: test.expr})
		test.change(&s)
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(d.Gates, func(g rollout.Gate) bool { return g.Name == "gate/own" }); i < 0 || !strings.HasPrefix(d.Gates[i].String(), test.want) {
			t.Errorf("%s: %v", name, d.Gates)
		}
	}
}

func first(gate fleet.GateExpression) rollout.Situation {
	s := gated(gate)
	s.Running, s.Record.Ran, s.Candidate.Base = rollout.Running{}, nil, ""
	return s
}

// The age of a receipt is a fact, and opens by itself nothing: it grows.
func TestExpressionOfReceipts(t *testing.T) {
	t.Parallel()
	for want, site := range map[string]*rollout.Site{
		"green": {Made: at().Add(-2 * time.Hour), MaxAge: 72 * time.Hour, Healthy: at().Add(-24 * time.Hour)},
		"(upstreams.staging.receiptAge = 5h0m0s)":     {Made: at().Add(-5 * time.Hour), MaxAge: 72 * time.Hour, Healthy: at().Add(-24 * time.Hour)},
		"receiptAge is not known: no receipt of gov":  {Unknown: "no receipt of gov was imported"},
		"receiptAge is not known: it is not isolated": nil,
	} {
		s := gated(fleet.GateExpression{Name: "own", Expr: `upstreams.staging.receiptAge < duration("3h")`})
		for i := range s.Before {
			s.Before[i].Site = site
		}
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(d.Gates, func(g rollout.Gate) bool { return g.Name == "gate/own" })
		text := d.Gates[i].String()
		for _, term := range d.Gates[i].Terms {
			text += "; " + term.String()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
}
