package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// tenancy is an environment with a canary and another cluster, on which a rollout of c2 is under way. It has the apps
// of two workspaces, and the fleet's.
type tenancy struct {
	t *testing.T
	s rollout.Situation
}

const (
	cart, till, dns = "team-a/cart", "team-b/till", "dns"
	without         = "t3" // the tree without team-a's changes
)

// newTenancy begins the rollout of c2, which has reached the canary. before changes the situation before it begins.
func newTenancy(t *testing.T, before func(*rollout.Situation)) *tenancy {
	t.Helper()
	p := fleet.Promotion{
		Mode: "auto", OnWorkspaceFailure: "rollback",
		Health: fleet.Health{CommitStatuses: []string{"kustomization/${app}/*"}},
		Waves:  []fleet.Wave{{Name: "canary", Count: 1, Bake: "24h"}, {Name: "rest"}},
	}
	w := &tenancy{t, rollout.Situation{
		Environment: fleet.Environment{Name: "prod", After: []string{"staging"}, Promotion: p}, Now: at(),
		Record: rollout.NewRecord("prod"),
		Trunk:  rollout.Trunk{"c1", "c2", "c3"},
	}}
	for _, name := range []string{"a", "b"} {
		w.s.Clusters = append(w.s.Clusters, rollout.ClusterState{
			Cluster: rollout.Cluster{Name: name},
			Apps:    []string{cart, till, dns},
		})
	}
	w.branch("t1", rollout.Source{Commit: "c1"})
	for i := range w.s.Clusters {
		w.s.Clusters[i].Tree = w.s.Clusters[i].Desired
	}
	w.post("success", cart, till, dns)
	w.decide() // the first state
	w.later(25 * time.Hour)
	w.decide() // is complete
	if w.s.Record.Progress.Done.IsZero() {
		t.Fatalf("the first rollout is not complete: %+v", w.s.Record.Progress)
	}
	if before != nil {
		before(&w.s)
	}
	w.branch("t2", rollout.Source{Commit: "c2"})
	w.decide()
	w.later(time.Minute)
	return w
}

// branch moves the environment branch.
func (w *tenancy) branch(tree string, source rollout.Source) {
	w.s.Running = rollout.Running{Source: source, Tree: tree, Commit: "x" + tree, Overtakes: w.s.Running.Overtakes}
	for i := range w.s.Clusters {
		w.s.Clusters[i].Desired = w.s.Clusters[i].Name + tree
	}
	w.s.Before = []rollout.Upstream{{Name: "staging", Source: rollout.Source{Commit: source.Commit}, Complete: true}}
}

func (w *tenancy) later(d time.Duration) { w.s.Now = w.s.Now.Add(d) }

// post posts the status of apps on the clusters that run what the branch has.
func (w *tenancy) post(state string, apps ...string) {
	for i := range w.s.Clusters {
		c := &w.s.Clusters[i]
		for _, app := range apps {
			name := "kustomization/" + rollout.ObjectName(app) + "/x"
			c.Statuses = slices.DeleteFunc(slices.Clone(c.Statuses),
				func(s rollout.Status) bool { return s.Name == name })
			if state != "" && c.Tree == c.Desired {
				c.Statuses = append(c.Statuses, rollout.Status{Name: name, State: state})
			}
		}
	}
}

// decide decides until nothing moves, and carries out moves of clusters.
func (w *tenancy) decide() rollout.Decision {
	w.t.Helper()
	for {
		moved, d := step(w.t, &w.s)
		if len(moved) == 0 {
			return d
		}
		for i := range w.s.Clusters {
			if slices.Contains(moved, w.s.Clusters[i].Name) {
				w.s.Clusters[i].Statuses = nil // nobody has posted one for the new commit
			}
		}
	}
}

// look finds out whether team-a may go back alone, as a caller does, and decides.
func (w *tenancy) look() rollout.Decision {
	w.t.Helper()
	red, err := rollout.RedAlone(w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Without = nil
	if red != nil {
		w.s.Without = &rollout.Without{
			Workspaces: red.Names, Apps: []string{cart}, From: w.s.Running.Tree,
			Tree: without,
		}
	}
	return w.decide()
}

// takes carries out the return of team-a. interrupted ends before the record says so.
func (w *tenancy) takes(a rollout.Action, interrupted bool) {
	w.t.Helper()
	now := w.s.Running.Source
	to := rollout.Source{Commit: "c1"}
	w.branch(without, rollout.RestoredSource(now, a, to, nil, []string{"a", "b"}))
	for i := range w.s.Clusters {
		if c := &w.s.Clusters[i]; !slices.Contains(a.Later, c.Name) {
			c.Tree, c.Statuses = c.Desired, nil
		}
	}
	if interrupted {
		return
	}
	w.apply(rollout.Event{
		Kind: rollout.EventRolledBack, Source: w.s.Running.Source, Tree: without,
		Clusters: []string{"a"},
	})
}

func (w *tenancy) apply(e rollout.Event) {
	w.t.Helper()
	e.At = w.s.Now
	next, err := rollout.Apply(w.s.Record, e)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Record = next
}

// rest is the tree of the cluster that is not the canary.
func (w *tenancy) rest() string { return w.s.Clusters[1].Tree }

func goesBack(d rollout.Decision) bool {
	return d.Actions[0].Kind == rollout.DoRollback && d.Actions[0].Continues == without
}

// A workspace that alone is red goes back on the clusters that the rollout has reached, and does not come to the
// others. Everything else does, when the reached clusters are healthy again and have baked.
func TestWorkspaceGoesBackAlone(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		w := newTenancy(t, nil)
		w.post("success", till, dns)
		w.post("failure", cart)
		d := w.look()
		if !goesBack(d) || !slices.Equal(d.Actions[0].Later, []string{"b"}) || w.s.Record.Halt != nil {
			t.Fatalf("the result of look is %+v", d)
		}
		w.takes(d.Actions[0], interrupted)
		if interrupted {
			if d = w.look(); !goesBack(d) || len(d.Events) > 0 {
				t.Fatalf("an interrupted run is not continued: %+v", d)
			}
			w.apply(rollout.Event{Kind: rollout.EventRolledBack, Source: w.s.Running.Source, Tree: without})
		}
		w.later(25 * time.Hour)
		if d = w.look(); w.rest() != "bt1" {
			t.Fatalf("b moves before the canary is healthy: %+v", d)
		}
		w.post("success", cart, till, dns)
		if d = w.look(); w.rest() != "bt1" || !strings.Contains(d.WaitsFor, "bakes until") {
			t.Fatalf("the canary did not bake: %s", d.WaitsFor)
		}
		w.later(25 * time.Hour)
		if d = w.look(); w.rest() != "b"+without {
			t.Fatalf("the rest does not go on: %s", d.WaitsFor)
		}
		hold := w.s.Record.Holds[0]
		if hold.Tree != "t2" || hold.Source.Commit != "c2" || !slices.Equal(hold.Apps, []string{cart}) ||
			!slices.Equal(hold.Workspaces, []string{"team-a"}) {
			t.Errorf("the hold is %+v", hold)
		}
		if got := w.s.Running.Source.Of(cart) + w.s.Running.Source.Of(till); got != "c1c2" {
			t.Errorf("prod runs %s", w.s.Running.Source)
		}
	}
}

// An app of a workspace can have a name that makes its red status one of another workspace, by a pattern that begins
// with a wildcard. Nobody else goes back for it: the environment fails as a whole.
func TestStatusOfTwoWorkspaces(t *testing.T) {
	t.Parallel()
	const trap, other = "team-a/team-b.till", "team-c/desk"
	w := newTenancy(t, nil)
	w.s.Environment.Promotion.Health.CommitStatuses = []string{"*${app}/x"}
	for i := range w.s.Clusters {
		w.s.Clusters[i].Apps = []string{trap, till, other, dns}
	}
	w.post("success", till, other, dns)
	w.post("failure", trap)
	d := w.look()
	if w.s.Without != nil {
		t.Fatalf("%v would go back", w.s.Without.Workspaces)
	}
	if w.s.Record.Halt == nil || strings.Contains(d.WaitsFor, "red so far") {
		t.Fatalf("the result of look is %+v, the record is %+v", d, w.s.Record)
	}
}

// Whoever posts a status chooses its name. Whatever it is, the record that keeps it as a reason can be read again, and
// stays small.
func TestNamesOfStatusesInTheRecord(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"\x00", "\x7f", "\ufffe", "\u2028", "\u0085", "\ufeff", "a\r\nb", "\U0010ffff", "\xff\xfe", "\n\n---\nx: y",
		" &a *a !!x", "\t", " # x", "%YAML", strings.Repeat("[{", 50), strings.Repeat("x", 1<<20),
	} {
		w := newTenancy(t, nil)
		w.post("success", till, dns)
		w.s.Clusters[0].Statuses = append(w.s.Clusters[0].Statuses,
			rollout.Status{Name: "kustomization/team-a.cart/" + name, State: "failure"})
		d := w.look()
		if !goesBack(d) {
			t.Fatalf("%.20q: the result of look is %+v", name, d)
		}
		w.takes(d.Actions[0], false)
		data, err := w.s.Record.Encode()
		if err != nil || len(data) > 4<<10 {
			t.Fatalf("%.20q: %v, %d bytes", name, err, len(data))
		}
		r, err := rollout.DecodeRecord("prod", data)
		if err != nil || r.Holds[0].Reason != w.s.Record.Holds[0].Reason {
			t.Errorf("%.20q: the error is %v, the holds are %+v", name, err, r.Holds)
		}
	}
}

// A state that nobody asked about, or that a check refuses, is one of the whole environment: it halts, and nothing
// moves.
func TestNoWorkspaceGoesBackAlone(t *testing.T) {
	t.Parallel()
	set := func(change func(*rollout.Situation)) func(*tenancy) {
		return func(w *tenancy) { change(&w.s) }
	}
	for name, c := range map[string]struct {
		before func(*rollout.Situation)
		change func(*tenancy)
		says   string
	}{
		"not asked for":   {change: set(func(s *rollout.Situation) { s.Environment.Promotion.OnWorkspaceFailure = "" })},
		"approvals":       {change: set(func(s *rollout.Situation) { s.Environment.Promotion.Approvers.Users = []string{"mia"} })},
		"a second person": {change: set(func(s *rollout.Situation) { s.Environment.Promotion.Rights = []fleet.Rights{{SecondPerson: true}} })},
		"every workspace is red": {
			says:   "no other workspace is on the same cluster",
			change: func(w *tenancy) { w.post("failure", till) },
		},
		"the fleet is red": {says: "something else is red", change: func(w *tenancy) { w.post("failure", dns) }},
		"another pattern is red": {change: set(func(s *rollout.Situation) {
			s.Environment.Promotion.Health.CommitStatuses = []string{"kustomization/${app}/*", "kust*"}
		})},
		"a check is red": {change: set(func(s *rollout.Situation) {
			s.Environment.Promotion.Checks = []fleet.Check{{Name: "web"}}
			s.Checks = []rollout.CheckResult{{Name: "web", State: rollout.Red, At: s.Now}}
		})},
		"a cluster is frozen": {
			says:   "cluster b is frozen",
			change: set(func(s *rollout.Situation) { s.Clusters[1].State = "frozen" }),
		},
		"a foreign commit": {
			says:   "Sluice may not move cluster b",
			change: set(func(s *rollout.Situation) { s.Clusters[1].Foreign = "somebody else's" }),
		},
		"a new cluster": {
			says:   "cluster b is new",
			change: set(func(s *rollout.Situation) { s.Clusters[1].Tree = "" }),
		},
		"somebody asked for more": {says: "somebody has asked for another promotion", change: func(w *tenancy) {
			w.apply(rollout.Event{Kind: rollout.EventPromote, By: "mia", Source: rollout.Source{Commit: "c3"}})
		}},
		"no place for another hold": {change: set(func(s *rollout.Situation) {
			s.Record.Holds = slices.Repeat([]rollout.Hold{{
				Cause:  rollout.CauseFailed,
				Source: rollout.Source{Commit: "c3"}, Tree: "t0", Apps: []string{"x"}, Since: s.Now,
			}}, 499)
		})},
		"the state is refused": {
			change: func(w *tenancy) { w.refuse("policy says no") },
			says:   "no workspace goes back alone: policy says no",
		},
		"another tip was judged": {change: func(w *tenancy) {
			w.s.Without = &rollout.Without{
				Workspaces: []string{"team-a"}, Apps: []string{cart}, From: "t9",
				Tree: without,
			}
		}},
		"another workspace was judged": {change: func(w *tenancy) {
			w.s.Without = &rollout.Without{
				Workspaces: []string{"team-b"}, Apps: []string{till}, From: "t2",
				Tree: without,
			}
		}},
		"another state was judged":  {change: func(w *tenancy) { w.s.Record.Progress.From = "t0" }},
		"the earlier state is lost": {change: func(w *tenancy) { w.s.Record.Ran = w.s.Record.Ran[1:] }},
		"the record was lost":       {before: func(s *rollout.Situation) { s.Record = rollout.NewRecord("prod") }},
		"before it was not complete": {
			says:   "it is not known that every cluster ran the same state",
			before: func(s *rollout.Situation) { s.Record.Progress.Done = time.Time{} },
		},
		"a cluster had to catch up": {before: func(s *rollout.Situation) { s.Record.Progress.CatchUp = []string{"b"} }},
		"somebody expedited it": {
			says:   "the rollout skips gates",
			change: func(w *tenancy) { w.s.Record.Progress.Now = true },
		},
		"it overtook gates": {before: func(s *rollout.Situation) { s.Running.Overtakes = true }},
		"no other workspace": {change: set(func(s *rollout.Situation) {
			for i := range s.Clusters {
				s.Clusters[i].Apps = []string{cart, dns}
			}
		})},
		"nothing but the workspace": {change: set(func(s *rollout.Situation) {
			for i := range s.Clusters {
				s.Clusters[i].Apps = []string{cart}
			}
		})},
		"no pattern of apps": {change: set(func(s *rollout.Situation) {
			s.Environment.Promotion.Health.CommitStatuses = []string{"kustomization/*"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenancy(t, c.before)
			w.post("success", till, dns)
			w.post("failure", cart)
			if c.change != nil {
				c.change(w)
			}
			var d rollout.Decision
			if w.s.Without != nil {
				d = w.decide()
			} else {
				d = w.look()
			}
			if w.s.Record.Halt == nil || w.s.Record.Rollback != nil || w.rest() == "bt2" || w.rest() == "b"+without {
				t.Fatalf("it is not halted: %+v %+v", d.Actions, w.s.Record.Rollback)
			}
			if !strings.Contains(w.s.Record.Halt.Reason, c.says) {
				t.Errorf("%s lacks %q", w.s.Record.Halt.Reason, c.says)
			}
		})
	}
}

// refuse is the answer that the state without team-a must not be.
func (w *tenancy) refuse(why string) {
	w.s.Without = &rollout.Without{Workspaces: []string{"team-a"}, Apps: []string{cart}, From: "t2", Refused: why}
}

// As long as everything else is not known to be healthy, nothing moves; after a while, the environment halts.
func TestWorkspaceWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*tenancy){
		"a status of both": func(w *tenancy) { // the pattern of dns matches the green status of an app of team-a
			w.s.Environment.Promotion.Health.CommitStatuses = []string{"*${app}/x"}
			for i := range w.s.Clusters {
				w.s.Clusters[i].Apps = []string{cart, "team-a/dns", till, dns}
			}
			w.post("", dns)
			w.post("success", "team-a/dns")
		},
		"pending":      func(w *tenancy) { w.post("pending", till) },
		"no status":    func(w *tenancy) { w.post("", till) },
		"fleet waits":  func(w *tenancy) { w.post("pending", dns) },
		"unreadable":   func(w *tenancy) { w.s.Clusters[0].StatusesUnknown = "the forge is away" },
		"unknown apps": func(w *tenancy) { w.s.Clusters[0].Apps = nil },
		"a check that did not run": func(w *tenancy) {
			w.s.Environment.Promotion.Checks = []fleet.Check{{Name: "web"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenancy(t, nil)
			w.post("success", till, dns)
			w.post("failure", cart)
			spoil(w)
			d := w.look()
			if w.s.Record.Rollback != nil || w.rest() != "bt1" {
				t.Fatalf("it does not wait: %+v", d.Actions)
			}
			if state := name == "unreadable" || name == "unknown apps"; !state &&
				(w.s.Record.Halt != nil || !strings.Contains(d.WaitsFor, "only workspace team-a is red so far") ||
					d.Next.IsZero()) {
				t.Fatalf("%s, halted: %+v, next %s", d.WaitsFor, w.s.Record.Halt, d.Next)
			}
			w.later(15 * time.Minute)
			if d = w.look(); w.s.Record.Rollback != nil || len(w.s.Clusters[0].Apps) > 0 && name != "unreadable" &&
				w.s.Record.Halt == nil {
				t.Fatalf("it waits for ever: %+v", d)
			}
		})
	}
}

// If taking a workspace back does not help, the workspace was not the cause: the environment halts, and nothing has
// come to other clusters.
func TestWorkspaceThatStaysRed(t *testing.T) {
	t.Parallel()
	w := newTenancy(t, nil)
	w.post("success", till, dns)
	w.post("failure", cart)
	d := w.look()
	w.takes(d.Actions[0], false)
	w.later(time.Minute)
	w.post("success", till, dns)
	w.post("failure", cart)
	red, err := rollout.RedAlone(w.s)
	if err != nil || red == nil {
		t.Fatal(red, err)
	}
	read := func(tree, cluster string) (map[string]string, error) {
		return map[string]string{
			cart: map[string]string{"t1": "1", "t2": "2", without: "1"}[tree], till: tree,
			dns: tree,
		}, nil
	}
	if apps, refused, err := red.Changed("t1", "t2", []string{"a", "b"}, read); err != nil || refused != "" ||
		!slices.Equal(apps, []string{cart}) {
		t.Errorf("the apps are %v, the refused is %q, the error is %v", apps, refused, err)
	}
	_, refused, err := red.Changed("t1", without, []string{"a", "b"}, read)
	if err != nil || !strings.Contains(refused, "does not change workspace team-a on a") {
		t.Fatal(refused, err)
	}
	w.refuse(refused)
	w.s.Without.From = without
	if w.decide(); w.s.Record.Halt == nil || !strings.Contains(w.s.Record.Halt.Reason, refused) || w.rest() != "bt1" {
		t.Errorf("the halt is %+v", w.s.Record.Halt)
	}
}

// A second workspace can go back later in the same rollout, to what it had before it.
func TestSecondWorkspaceGoesBack(t *testing.T) {
	t.Parallel()
	w := newTenancy(t, nil)
	w.post("success", till, dns)
	w.post("failure", cart)
	w.takes(w.look().Actions[0], false)
	w.post("success", cart, dns)
	w.post("failure", till)
	red, err := rollout.RedAlone(w.s)
	if err != nil || red == nil || !slices.Equal(red.Names, []string{"team-b"}) || red.Before.Tree != "t1" {
		t.Fatalf("the red is %+v, the error is %v", red, err)
	}
}

// What somebody else moves while a workspace goes back is not the rollout without it: the environment halts.
func TestBranchMovesWhileAWorkspaceGoesBack(t *testing.T) {
	t.Parallel()
	w := newTenancy(t, nil)
	w.post("success", till, dns)
	w.post("failure", cart)
	w.look()
	w.branch("t4", rollout.Source{Commit: "c3"})
	w.look()
	if h := w.s.Record.Halt; h == nil || !strings.Contains(h.Reason, "the environment branch moved meanwhile") ||
		w.s.Record.Rollback != nil {
		t.Fatalf("the record is %+v", w.s.Record)
	}
	if w.s.Record.Progress.Tree != "t4" || w.s.Record.Progress.From != "" {
		t.Errorf("the progress is %+v", w.s.Record.Progress)
	}
}

// The record stays small, however many workspaces are red at once.
func TestRecordOfManyRedWorkspaces(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	var red, all []string
	for i := range 400 {
		for j := range 5 {
			red = append(red, fmt.Sprintf("team-%03d/app-%d", i, j))
		}
	}
	all = append(append(all, red...), till, dns)
	w := newTenancy(t, func(s *rollout.Situation) {
		for i := range s.Clusters {
			s.Clusters[i].Apps = all
		}
	})
	w.post("success", till, dns)
	w.post("failure", red...)
	names, err := rollout.RedAlone(w.s)
	if err != nil || names == nil || len(names.Names) != 400 {
		t.Fatal(names, err)
	}
	w.s.Without = &rollout.Without{Workspaces: names.Names, Apps: red, From: "t2", Tree: without}
	w.takes(w.decide().Actions[0], false)
	data, err := w.s.Record.Encode()
	if err != nil || len(data) > 1<<20 || len(w.s.Record.Holds) != 1 || len(w.s.Record.Holds[0].Reason) > 500 {
		t.Errorf("%d bytes, %d holds, %v", len(data), len(w.s.Record.Holds), err)
	}
	if back, err := rollout.DecodeRecord("prod", data); err != nil || back.Progress.From != "t1" {
		t.Error(back.Progress, err)
	}
}

// A rollout that continues without a workspace goes back to what the clusters ran before it, never to what the
// workspace failed in: not even after somebody ended the hold.
func TestRolloutWithoutAWorkspaceGoesBack(t *testing.T) {
	t.Parallel()
	w := newTenancy(t, nil)
	w.s.Environment.Promotion.OnFailure = "rollback"
	w.post("success", till, dns)
	w.post("failure", cart)
	w.takes(w.look().Actions[0], true)
	history := []rollout.PastState{
		{Source: w.s.Running.Source, Tree: without},
		{Source: rollout.Source{Commit: "c2"}, Tree: "t2"},
		{Source: rollout.Source{Commit: "c1"}, Tree: "t1"},
	}
	read := func(tree, cluster string) (map[string]string, error) {
		return map[string]string{
			cart: map[string]string{"t1": "1", "t2": "2", without: "1"}[tree], till: tree,
			dns: tree,
		}, nil
	}
	target := func(when string) {
		t.Helper()
		if to, err := rollout.RollbackTarget(w.s, history, nil, nil, read); err != nil || to.Tree != "t1" {
			t.Errorf("%s, a command goes back to %s: %v", when, to.Tree, err)
		}
	}
	target("before the record says that the workspace is back")
	w.apply(rollout.Event{Kind: rollout.EventRolledBack, Source: w.s.Running.Source, Tree: without})
	w.apply(rollout.Event{Kind: rollout.EventResume, By: "mia", Named: []string{"all"}})
	target("without the hold")
	w.post("success", cart, till)
	w.post("failure", dns)
	if d := w.decide(); d.Actions[0].Kind != rollout.DoRollback || d.Actions[0].Tree != "t1" {
		t.Errorf("it goes back to %s", d.Actions[0].Tree)
	}
}

// A cluster that the rollout does not change is no part of it when a workspace goes back, either.
func TestClusterOutsideOfTheRollout(t *testing.T) {
	t.Parallel()
	w := newTenancy(t, func(s *rollout.Situation) {
		s.Clusters = append(s.Clusters, rollout.ClusterState{
			Cluster: rollout.Cluster{Name: "c"}, Tree: "same",
			Desired: "same", Apps: []string{dns},
		})
	})
	same := func() { w.s.Clusters[2].Tree, w.s.Clusters[2].Desired = "same", "same" }
	same()
	w.post("success", till, dns)
	w.post("failure", cart)
	same()
	w.s.Record.Progress.Changed = []string{"a", "b"}
	d := w.look()
	if !goesBack(d) {
		t.Fatalf("the result of look is %+v", d)
	}
	w.takes(d.Actions[0], true)
	same()
	w.apply(rollout.Event{
		Kind: rollout.EventRolledBack, Source: w.s.Running.Source, Tree: without,
		Clusters: []string{"a", "c"},
	})
	if got := w.s.Record.Progress.Changed; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the rollout changes %v", got)
	}
}
