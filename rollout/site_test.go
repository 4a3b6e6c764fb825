package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/rollout"
)

// air runs c1 and comes after gov, which is isolated. As of a receipt made an hour ago, gov has run c2 for four hours
// and was healthy for three.
func air(bake string) (*rollout.Situation, *rollout.Site) {
	site := &rollout.Site{Made: at().Add(-time.Hour), Sequence: 7, MaxAge: 72 * time.Hour, Healthy: at().Add(-4 * time.Hour)}
	return &rollout.Situation{
		Environment: fleet.Environment{Name: "air", After: []string{"gov"}, Promotion: fleet.Promotion{Mode: "auto", Bake: fleet.Duration(bake)}},
		Trunk:       rollout.Trunk{"c1", "c2", "c3"}, Now: at(), Record: rollout.NewRecord("air"),
		Running: rollout.Running{Source: rollout.Source{Commit: "c1"}, Tree: "t1", Commit: "x1"},
		Clusters: []rollout.ClusterState{{
			Cluster: rollout.Cluster{Name: "air-1"}, Tree: "a1", Desired: "a1",
		}},
		Before: []rollout.Upstream{{
			Name: "gov", Source: rollout.Source{Commit: "c2"}, Since: at().Add(-5 * time.Hour), Complete: true, Site: site,
			Clusters: []rollout.ClusterState{{Cluster: rollout.Cluster{Name: "gov-1"}, Tree: "g2", Desired: "g2", Apps: []string{"shop"}}},
		}},
	}, site
}

// before decides, keeps the record, and returns the gate of gov.
func before(t *testing.T, s *rollout.Situation) rollout.Gate {
	t.Helper()
	d, err := rollout.Decide(*s)
	if err != nil {
		t.Fatal(err)
	}
	s.Record = d.Record
	for _, g := range d.Gates {
		if g.Name == rollout.GateBefore+"gov" {
			return g
		}
	}
	t.Fatalf("there is no gate of gov: %+v", d.Gates)
	return rollout.Gate{}
}

func TestGatesFromReceipts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bake   string
		change func(*rollout.Situation, *rollout.Site)
		state  rollout.State
		reason string
	}{
		"healthy":             {"", func(*rollout.Situation, *rollout.Site) {}, rollout.Green, ""},
		"baked":               {"3h", func(*rollout.Situation, *rollout.Site) {}, rollout.Green, ""},
		"no time passes here": {"3h30m", func(*rollout.Situation, *rollout.Site) {}, rollout.Waiting, "which only a receipt of that time or later shows (the newest is of 2026-03-27 09:00 UTC)"},
		"just young enough":   {"", func(s *rollout.Situation, _ *rollout.Site) { s.Now = s.Now.Add(71 * time.Hour) }, rollout.Green, ""},
		"stale": {
			"", func(s *rollout.Situation, _ *rollout.Site) { s.Now = s.Now.Add(72 * time.Hour) }, rollout.Unknown,
			"gov: the newest receipt, 7, is from 2026-03-27 09:00 UTC, 73h0m ago, and at most 72h0m are allowed",
		},
		"none": {"", func(s *rollout.Situation, site *rollout.Site) {
			*site = rollout.Site{MaxAge: time.Hour, Unknown: "no receipt of gov was imported"}
		}, rollout.Unknown, "gov: no receipt of gov was imported"},
		"contradicting": {
			"", func(_ *rollout.Situation, site *rollout.Site) {
				site.Contradicts = "cluster gov-1 has a tree of its own"
			},
			rollout.Red, "gov: receipt 7 of 2026-03-27 09:00 UTC: cluster gov-1 has a tree of its own",
		},
		"contradicting and stale": {"", func(s *rollout.Situation, site *rollout.Site) {
			site.Contradicts, s.Now = "cluster gov-1 has a tree of its own", s.Now.Add(1000*time.Hour)
		}, rollout.Red, "a tree of its own"},
		"not complete on the site": {
			"", func(_ *rollout.Situation, site *rollout.Site) { site.Healthy = time.Time{} }, rollout.Waiting,
			"gov has not completed its rollout (as of receipt 7",
		},
		"clusters behind": {
			"", func(s *rollout.Situation, _ *rollout.Site) { s.Before[0].Complete = false }, rollout.Waiting,
			"gov has not completed its rollout",
		},
		"held by an operator": {"", func(_ *rollout.Situation, site *rollout.Site) {
			site.Healthy = time.Time{}
			site.Freezes = []rollout.Freeze{{By: "omar", Reason: "the audit", From: at().Add(-2 * time.Hour), Until: at().Add(48 * time.Hour)}}
		}, rollout.Waiting, "frozen until 2026-03-29 10:00 UTC by omar: the audit, as of receipt 7"},
		"halted by the site's health": {"", func(_ *rollout.Situation, site *rollout.Site) {
			site.Halt = &rollout.Halt{Reason: "c2 failed", At: at().Add(-2 * time.Hour)}
		}, rollout.Red, "c2 failed"},
		"a status is red": {"", func(s *rollout.Situation, _ *rollout.Site) {
			s.Environment.Promotion.Health.CommitStatuses = []string{"kustomization/${app}"}
			s.Before[0].Clusters[0].Statuses = []rollout.Status{{Name: "kustomization/shop", State: "failure"}}
		}, rollout.Red, "kustomization/shop is failure"},
		"statuses are not in the receipt": {"", func(s *rollout.Situation, _ *rollout.Site) {
			s.Environment.Promotion.Health.CommitStatuses = []string{"kustomization/${app}"}
			s.Before[0].Clusters[0].StatusesUnknown = "no forge is configured here"
		}, rollout.Unknown, "no forge is configured here"},
		"a status is green": {"", func(s *rollout.Situation, _ *rollout.Site) {
			s.Environment.Promotion.Health.CommitStatuses = []string{"kustomization/${app}"}
			s.Before[0].Clusters[0].Statuses = []rollout.Status{{Name: "kustomization/shop", State: "success"}}
		}, rollout.Green, ""},
	} {
		s, site := air(c.bake)
		c.change(s, site)
		if g := before(t, s); g.State != c.state || !strings.Contains(g.Reason, c.reason) {
			t.Errorf("%s: the gate is %s", name, g)
		}
	}
}

// What an earlier receipt showed opens no gate when a newer one takes it back.
func TestNewerReceipts(t *testing.T) {
	t.Parallel()
	s, site := air("3h")
	if g := before(t, s); g.State != rollout.Green {
		t.Fatalf("the gate is %s", g)
	}
	site.Contradicts = "cluster gov-1 has a tree of its own"
	if g := before(t, s); g.State != rollout.Red {
		t.Errorf("the gate is %s", g)
	}
	site.Contradicts, site.Sequence, site.Made, s.Now = "", 8, at(), at().Add(time.Minute)
	if g := before(t, s); g.State != rollout.Waiting || !strings.Contains(g.Reason, "it bakes in gov until 2026-03-27 13:00 UTC") {
		t.Errorf("after a contradiction, the gate is %s", g)
	}
	site.Sequence, site.Made, s.Now = 9, at().Add(3*time.Hour), at().Add(4*time.Hour)
	if g := before(t, s); g.State != rollout.Green {
		t.Errorf("after another bake, the gate is %s", g)
	}
	// the site is restored from a backup: it runs c1 again, as its older receipt says
	site.Sequence, site.Made, site.Healthy = 5, at().Add(5*time.Hour), at().Add(5*time.Hour)
	s.Before[0].Source, s.Before[0].Since, s.Now = rollout.Source{Commit: "c1"}, at().Add(5*time.Hour), at().Add(6*time.Hour)
	s.Record.Request = &rollout.Request{Source: rollout.Source{Commit: "c2"}, By: "ana", At: s.Now}
	if g := before(t, s); g.State == rollout.Green || !strings.Contains(g.Reason, "gov runs c1 (as of receipt 5") {
		t.Errorf("after the site went back, the gate is %s", g)
	}
	// and gets c2 again, which bakes anew
	site.Sequence, site.Made, site.Healthy = 6, at().Add(7*time.Hour), at().Add(6*time.Hour)
	s.Before[0].Source, s.Before[0].Since, s.Now = rollout.Source{Commit: "c2"}, at().Add(6*time.Hour), at().Add(8*time.Hour)
	if g := before(t, s); g.State != rollout.Waiting || !strings.Contains(g.Reason, "until 2026-03-27 19:00 UTC") {
		t.Errorf("after the site came forward, the gate is %s", g)
	}
}

// At home an isolated environment moves its environment branch, never a cluster branch, and does not wait for its site.
func TestIsolatedEnvironmentAtHome(t *testing.T) {
	t.Parallel()
	s := prod(fleet.Promotion{Mode: "auto", Health: fleet.Health{CommitStatuses: []string{"kustomization/${app}"}}}, behind("a", nil), behind("b", nil))
	site := &rollout.Site{MaxAge: time.Hour, Unknown: "no receipt of prod was imported"}
	s.Site = site
	next := func(gate rollout.State, reason string) rollout.Decision {
		t.Helper()
		moved, d := step(t, &s)
		if len(moved) > 0 {
			t.Fatalf("%v moved", moved)
		}
		if gate == "" && len(d.WaveGates) > 0 || gate != "" && (len(d.WaveGates) != 1 || d.WaveGates[0].State != gate ||
			!strings.Contains(d.WaveGates[0].Reason, reason)) {
			t.Errorf("the gates are %v, want %s: %s", d.WaveGates, gate, reason)
		}
		return d
	}
	next(rollout.Unknown, "no receipt of prod was imported")
	*site = rollout.Site{Made: at().Add(time.Minute), Sequence: 1, MaxAge: time.Hour}
	s.Now = at().Add(2 * time.Minute)
	next(rollout.Waiting, "the site moves its clusters, and had not as of receipt 1 of 2026-03-27 10:01 UTC, 1m old")
	site.Halt = &rollout.Halt{By: "omar", Reason: "no power", At: at()}
	next(rollout.Waiting, "no power")
	site.Halt, site.Contradicts = nil, "cluster a has a tree of its own"
	if d := next(rollout.Red, "cluster a has a tree of its own"); !strings.Contains(d.WaitsFor, "a tree of its own") {
		t.Errorf("it waits for %q", d.WaitsFor)
	}
	// the site has moved one, and its status is red: home halts and promotes no more to it
	site.Contradicts = ""
	s.Clusters[0].Tree, s.Clusters[0].Apps = s.Clusters[0].Desired, []string{"shop"}
	s.Clusters[0].Statuses = []rollout.Status{{Name: "kustomization/shop", State: "failure"}}
	s.Clusters[1].Apps = []string{"shop"}
	site.Made, site.Sequence = at().Add(3*time.Minute), 2
	s.Now = at().Add(62 * time.Minute)
	if d := next(rollout.Waiting, "the site moves its clusters"); d.Record.Halt == nil || !strings.Contains(d.Record.Halt.Reason, "kustomization/shop is failure") {
		t.Errorf("the halt is %v", d.Record.Halt)
	}
	// all is well and complete, as of the time of the receipt
	s.Record.Halt = nil
	site.Made, site.Sequence, site.Healthy = at().Add(90*time.Minute), 3, at().Add(80*time.Minute)
	s.Now = at().Add(2 * time.Hour)
	s.Clusters[1].Tree = s.Clusters[1].Desired
	for i := range s.Clusters {
		s.Clusters[i].Statuses = []rollout.Status{{Name: "kustomization/shop", State: "success"}}
	}
	if d := next("", ""); !d.Record.Progress.Done.Equal(at().Add(90 * time.Minute)) {
		t.Errorf("it was done at %s", d.Record.Progress.Done)
	}
}

// A receipt that contradicts home stops promotions to the environment itself; an old one, or none, does not.
func TestContradictionStopsPromotions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		site  rollout.Site
		lands bool
	}{
		"none":          {rollout.Site{Unknown: "no receipt of prod was imported"}, true},
		"old":           {rollout.Site{Made: at().Add(-100 * time.Hour), MaxAge: time.Hour, Healthy: at().Add(-101 * time.Hour)}, true},
		"contradicting": {rollout.Site{Made: at(), MaxAge: time.Hour, Contradicts: "cluster a has a tree of its own"}, false},
	} {
		s := prod(fleet.Promotion{Mode: "auto"}, behind("a", nil))
		s.Trunk = append(s.Trunk, "c3")
		s.Before[0].Source = rollout.Source{Commit: "c3"}
		s.Candidate = &rollout.Candidate{Source: rollout.Source{Commit: "c3"}, Tree: "t3", Base: "x2", Policy: rollout.Green}
		s.Site = &c.site
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		lands := false
		for _, a := range d.Actions {
			lands = lands || a.Kind == rollout.MoveEnvironment
		}
		if lands != c.lands {
			t.Errorf("%s: it lands: %t; the gates are %v", name, lands, d.Gates)
		}
	}
}

// Expressions see how long the site was healthy as of its receipt, and nothing of one that cannot be believed.
func TestExpressionsSeeReceipts(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]rollout.State{
		`upstreams.gov.soak >= duration("3h")`:    rollout.Green,
		`upstreams.gov.soak >= duration("3h30m")`: rollout.Waiting, // an hour has passed since the receipt
	} {
		for stale, state := range map[bool]rollout.State{false: want, true: rollout.Unknown} {
			s, _ := air("")
			s.Environment.Promotion.Gates = []fleet.GateExpression{{Name: "soaked", Expr: expr}}
			s.Facts = &expression.Facts{}
			if stale {
				s.Now = s.Now.Add(100 * time.Hour)
			}
			d, err := rollout.Decide(*s)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, g := range d.Gates {
				if g.Name == rollout.GateExpression+"soaked" {
					if found = true; g.State != state {
						t.Errorf("%s, stale %t: the gate is %s", expr, stale, g)
					}
				}
			}
			if !found {
				t.Errorf("%s: there is no gate", expr)
			}
		}
	}
}
