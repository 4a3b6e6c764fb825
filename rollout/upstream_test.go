package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// upstream is an environment that runs c1, after staging, which runs c2 and is healthy.
type upstream struct{ *tenancy }

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	w := &upstream{newTenancy(t, nil)}
	w.s.Environment.Promotion.Bake = "30m"
	w.s.Environment.Promotion.Waves = nil
	w.s.Record = rollout.NewRecord("prod")
	w.branch("t1", rollout.Source{Commit: "c1"})
	for i := range w.s.Clusters {
		w.s.Clusters[i].Tree = w.s.Clusters[i].Desired
	}
	w.post("success", cart, till, dns)
	w.runs("c2")
	w.says("success", "success", "success")
	return w
}

// runs is what staging runs, on the clusters s and p.
func (w *upstream) runs(commit string) {
	up := rollout.Upstream{Name: "staging", Source: rollout.Source{Commit: commit}, Complete: true}
	for _, name := range []string{"s", "p"} {
		up.Clusters = append(up.Clusters, rollout.ClusterState{
			Cluster: rollout.Cluster{Name: name}, Tree: "x",
			Desired: "x", Apps: []string{cart, till, dns},
		})
	}
	w.s.Before = []rollout.Upstream{up}
}

// says posts the statuses of cart, till and dns on staging's cluster s; "" posts none. Those of p are green.
func (w *upstream) says(states ...string) {
	post := func(c *rollout.ClusterState, states ...string) {
		c.Statuses = nil
		for i, app := range []string{cart, till, dns} {
			if states[i] != "" {
				c.Statuses = append(c.Statuses, rollout.Status{
					Name:  "kustomization/" + rollout.ObjectName(app) + "/x",
					State: states[i],
				})
			}
		}
	}
	post(&w.s.Before[0].Clusters[0], states...)
	post(&w.s.Before[0].Clusters[1], "success", "success", "success")
}

// proposes decides as a caller does, and gives the proposal and staging's gate.
func (w *upstream) proposes(refused string) (*rollout.Proposal, rollout.Gate) {
	w.t.Helper()
	w.s.LeftOut = nil
	next, err := rollout.Next(w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	if next != nil && next.Refused != "" {
		w.s.LeftOut = &rollout.LeftOut{
			Whole: next.Whole, From: w.s.Running.Tree, Workspaces: next.Without,
			Apps: []string{cart, "team-a/new"}, Refused: refused,
		}
	}
	d, err := rollout.Decide(w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Record = d.Record
	if i := slices.IndexFunc(d.Gates, func(g rollout.Gate) bool {
		return g.Name == rollout.GateBefore+
			"staging"
	}); i >= 0 {
		return d.Proposal, d.Gates[i]
	}
	return d.Proposal, rollout.Gate{}
}

// What staging's statuses mean for what prod gets.
func TestRedWorkspaceUpstream(t *testing.T) {
	t.Parallel()
	const good, red, late = "success", "failure", "pending"
	for name, c := range map[string]struct {
		states  []string
		change  func(*upstream)
		refused string
		state   rollout.State
		without bool
		says    string
	}{
		"all green": {states: []string{good, good, good}, state: rollout.Green},
		"one workspace red": {
			states: []string{red, good, good}, state: rollout.Green, without: true,
			says: "left out: workspace team-a is red in staging since",
		},
		"not asked for": {
			states: []string{red, good, good}, state: rollout.Red,
			change: func(w *upstream) { w.s.Environment.Promotion.OnWorkspaceFailure = "" },
		},
		"the fleet red, too": {
			states: []string{red, good, red}, state: rollout.Red,
			says: "no workspace is left out: something else is red, too",
		},
		"both workspaces red": {
			states: []string{red, red, good}, state: rollout.Red,
			says: "no other workspace is on the same cluster",
		},
		"the fleet red alone": {states: []string{good, good, red}, state: rollout.Red},
		"the rest pending": {
			states: []string{red, good, late}, state: rollout.Waiting, without: true,
			says: "without workspace team-a",
		},
		"the rest without a status": {states: []string{red, "", good}, state: rollout.Unknown, without: true},
		"the workspace pending":     {states: []string{late, good, good}, state: rollout.Waiting},
		"the workspace silent":      {states: []string{"", good, good}, state: rollout.Unknown},
		"refused": {
			states: []string{red, good, good}, refused: "an object moves",
			state: rollout.Red, says: "it is not left out: an object moves",
		},
		"nobody knows what runs there": {
			states: []string{red, good, good}, state: rollout.Unknown, without: true,
			change: func(w *upstream) { w.s.Before[0].Clusters[1].StatusesUnknown = "the forge is away" },
		},
		"apps unknown": {
			states: []string{red, good, good}, state: rollout.Unknown, without: true,
			change: func(w *upstream) { w.s.Before[0].Clusters[1].Apps = nil },
		},
		"a pattern of both": {states: []string{red, good, good}, state: rollout.Red, change: func(w *upstream) {
			w.s.Environment.Promotion.Health.CommitStatuses = []string{"kustomization/${app}/*", "kust*"}
		}},
		"a share is green": {
			states: []string{red, good, good}, state: rollout.Green,
			change: func(w *upstream) { w.s.Environment.Promotion.Health.Healthy = "50%" },
		},
		"a frozen cluster": {
			states: []string{red, good, good}, state: rollout.Green,
			change: func(w *upstream) { w.s.Before[0].Clusters[0].State = "frozen" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpstream(t)
			w.proposes("")
			w.later(time.Hour)
			w.says(c.states...)
			if c.change != nil {
				c.change(w)
			}
			w.proposes(c.refused)
			next, gate := w.proposes(c.refused)
			if next == nil || gate.State != c.state || !strings.Contains(gate.Reason, c.says) {
				t.Fatalf("the gate is %+v, want %s, the says are %q", gate, c.state, c.says)
			}
			want := rollout.Source{Commit: "c2"}
			if c.without {
				want.Apps = map[string]string{cart: "c1", "team-a/new": "c1"}
			}
			if !next.Source.Equal(want) {
				t.Errorf("it proposes %s", next.Source)
			}
		})
	}
}

// A workspace follows when it is green upstream and has baked there, with what it was green in, or newer commits of it.
func TestWorkspaceFollows(t *testing.T) {
	t.Parallel()
	w := newUpstream(t)
	w.proposes("")
	w.says("failure", "success", "success")
	w.proposes("")
	w.later(time.Hour)
	next, gate := w.proposes("")
	if next == nil || gate.State != rollout.Green || next.Source.Of(cart) != "c1" {
		t.Fatalf("the next is %+v, the gate is %+v", next, gate)
	}
	w.branch("t2", next.Source) // prod runs c2 without team-a
	for i := range w.s.Clusters {
		w.s.Clusters[i].Tree = w.s.Clusters[i].Desired
	}
	w.runs("c2")
	w.says("failure", "success", "success")
	if next, gate = w.proposes(""); next != nil || gate.State != rollout.Waiting ||
		!strings.Contains(gate.Reason, "everything else of c2 runs: workspace team-a is red in staging") {
		t.Fatalf("the next is %+v, the gate is %+v", next, gate)
	}
	w.runs("c3")
	w.says("pending", "success", "success") // it is not healthy yet
	w.proposes("")
	w.later(time.Minute)
	w.says("success", "success", "success")
	if _, gate = w.proposes(""); gate.State == rollout.Green {
		t.Fatalf("c3 did not bake: %+v", gate)
	}
	w.later(29 * time.Minute)
	next, gate = w.proposes("")
	if next == nil || gate.State != rollout.Waiting && next.Source.Of(cart) != "c1" {
		t.Fatalf("team-a did not bake: %+v %+v", next, gate)
	}
	w.later(2 * time.Minute)
	next, gate = w.proposes("")
	if next == nil || gate.State != rollout.Green || !next.Source.Equal(rollout.Source{Commit: "c3"}) {
		t.Fatalf("the next is %+v, the gate is %+v", next, gate)
	}
	data, err := w.s.Record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := rollout.DecodeRecord("prod", data)
	if err != nil || len(back.Before["staging"].Workspaces) != 1 {
		t.Errorf("the error is %v, the before is %+v", err, back.Before["staging"])
	}
	w.branch("t3", next.Source)
	w.runs("c3")
	w.says("success", "success", "success")
	if w.proposes(""); w.s.Record.Before["staging"].Workspaces != nil {
		t.Errorf("the record remembers %+v", w.s.Record.Before["staging"].Workspaces)
	}
}

// What was red stays out, if the workspace turned green with a later commit that did not bake.
func TestRedCommitOfAWorkspaceStaysOut(t *testing.T) {
	t.Parallel()
	w := newUpstream(t)
	w.says("failure", "success", "success")
	w.proposes("")
	w.later(time.Hour)
	w.runs("c3")
	w.says("success", "success", "pending") // team-a is repaired in c3, of which the rest is not green yet
	w.proposes("")
	w.later(25 * time.Minute)
	w.says("success", "success", "success")
	w.proposes("")
	w.later(10 * time.Minute) // team-a has baked in c3, and the rest has not
	next, gate := w.proposes("")
	if next == nil || next.Promoted.Commit != "c2" || next.Source.Of(cart) != "c1" || gate.State != rollout.Green ||
		!strings.Contains(gate.Reason, "was red in staging until it ran c3, which c2 does not contain") {
		t.Fatalf("the next is %+v, the gate is %+v", next, gate)
	}
}

// To freeze the clusters on which a workspace is red makes it no better.
func TestRedWorkspaceOnFrozenClusters(t *testing.T) {
	t.Parallel()
	w := newUpstream(t)
	w.says("failure", "success", "success")
	w.proposes("")
	for i := range w.s.Before[0].Clusters {
		w.s.Before[0].Clusters[i].State = "frozen"
	}
	w.proposes("")
	w.later(time.Hour)
	if next, gate := w.proposes(""); next == nil || next.Source.Of(cart) != "c1" || gate.State != rollout.Green {
		t.Fatalf("the next is %+v, the gate is %+v", next, gate)
	}
}

// A record with a workspace of which nobody knows since when it is red is damaged.
func TestRecordOfARedWorkspaceWithoutATime(t *testing.T) {
	t.Parallel()
	const record = "apiVersion: sluice.dev/v1alpha1\nkind: PromotionRecord\nenvironment: prod\nbefore:\n  staging:\n    ran: []\n    workspaces:\n      team-a: {red: true}\n"
	if _, err := rollout.DecodeRecord("prod", []byte(record)); err == nil ||
		!strings.Contains(err.Error(), "before.staging.workspaces.team-a: since is missing") {
		t.Error(err)
	}
}

// A commit that was red and went back does not come, not even on request, after a newer one has repaired it.
func TestRedCommitThatWentBackStaysOut(t *testing.T) {
	t.Parallel()
	for name, prodFollows := range map[string]bool{
		"prod runs what went back upstream": true,
		"prod runs what it ran":             false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpstream(t)
			w.says("failure", "success", "success")
			w.proposes("")
			w.later(time.Minute)
			w.runs("c2")
			w.s.Before[0].Source.Apps = map[string]string{cart: "c1"} // it went back
			w.says("success", "success", "success")
			w.proposes("")
			w.later(time.Hour)
			if next, gate := w.proposes(""); prodFollows {
				if next == nil || gate.State != rollout.Green {
					t.Fatalf("the next is %+v, the gate is %+v", next, gate)
				}
				before := w.s.Before
				w.branch("t2", next.Source)
				w.s.Before = before
				for i := range w.s.Clusters {
					w.s.Clusters[i].Tree = w.s.Clusters[i].Desired
				}
				w.proposes("")
			}
			w.runs("c3")
			w.says("success", "success", "success")
			w.proposes("")
			w.later(time.Hour)
			w.proposes("")
			for _, commit := range []string{"c2", "c3"} {
				asked := &upstream{&tenancy{w.t, w.s}}
				asked.s.Record.Request = &rollout.Request{
					Source: rollout.Source{Commit: commit}, By: "kim",
					At: w.s.Now,
				}
				// the request is done, because nothing more of it can come: the automatic promotion is next
				next, gate := asked.proposes("")
				if next == nil || gate.State != rollout.Green || next.Source.Of(cart) == "c2" ||
					next.Promoted.Commit == "c3" && next.Source.Of(cart) != "c3" {
					t.Errorf("%s: the next is %+v, the gate is %+v", commit, next, gate)
				}
			}
		})
	}
}
