package promote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// An expression can ask for approvals although sluice.yaml names no approvers. Somebody who did not write the change can
// give one as soon as it is offered, and its author cannot.
func TestApprovalsOfAnExpression(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, gates: [{name: two, expr: 'approvals.count >= 1'}]")
	commit := s.release("one")
	s.look(nil)
	approve := func(by string) []string {
		s.now = s.now.Add(time.Minute)
		_, refused := s.look(nil, ordered(rollout.EventApprove, by, func(c *promote.Command) { c.By, c.Said = by, s.now }))
		return refused
	}
	if refused := strings.Join(approve("a@example.com"), "\n"); !strings.Contains(refused, "is an author") || strings.Contains(s.runs(), commit) {
		t.Errorf("the author's approval: %q, prod runs %s", refused, s.runs())
	}
	if refused := approve("noor"); len(refused) > 0 || !strings.Contains(s.runs(), commit) {
		t.Errorf("an approval: %q, prod runs %s, want %s", refused, s.runs(), commit)
	}
}

// replay evaluates an expression for the past promotions of prod, newest first.
func (s *stage) replay(text string) []promote.ReplayedPromotion {
	s.T.Helper()
	gate, err := expression.Compile(text)
	if err != nil {
		s.T.Fatal(err)
	}
	list, err := promote.ReplayGate(s.T.Context(), s.Hydrator(2), promote.ReplayRequest{
		Trunk: s.tip(), Environment: "prod", Gate: gate,
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return list
}

func (s *stage) opens(text string) {
	s.T.Helper()
	if list := s.replay(text); len(list) != 1 || !list[0].Open {
		s.T.Errorf("%s: %+v", text, list)
	}
}

// The past has every approval of a promotion.
func TestReplayOfApprovals(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, approvers: {count: 2}")
	s.release("one")
	s.look(nil)
	for _, by := range []string{"noor", "mia"} {
		s.look(nil, ordered(rollout.EventApprove, by, func(c *promote.Command) { c.By = by }))
	}
	s.opens(`approvals.count == 2 && "noor" in approvals.by && "mia" in approvals.by`)
}

// The past of a promotion of one app is that of the commit which it brought, not of the one that everything else runs.
func TestReplayOfAnApp(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	commit := s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p", func(c *promote.Command) { c.Apps = []string{"shop"} }))
	s.opens(`commit.id == "` + commit + `" && commit.files == ["apps/shop/layers/global/values.yaml"]`)
	s.opens(`commit.authors.exists(a, a == "a@example.com") && upstreams.dev.healthy`)
}

// Retired clusters are none of the environment, as in the present.
func TestReplayWithoutRetiredClusters(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.opens(`"prod-us-1" in environment.clusters`)
	s.Write("clusters/prod-us-1.yaml", strings.Replace(s.Read("clusters/prod-us-1.yaml"), "spec:\n", "spec:\n  state: retired\n", 1))
	s.Commit("retired")
	s.opens(`environment.clusters.size() > 0 && !("prod-us-1" in environment.clusters)`)
}

// A promotion that the forge merges is one.
func TestReplayOfAMergedPromotion(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.opens("true")
	s.Git("update-ref", "refs/heads/env/prod", s.Git("commit-tree", "-p", "env/prod^", "-p", "env/prod", "-m", "Merge branch 'sluice/promote/prod'", "env/prod^{tree}"))
	s.opens("true")
	commit := s.release("two")
	s.look(nil)
	if list := s.replay("history.promotions.size() == 1"); len(list) != 2 || !list[0].Open || list[0].Source != commit {
		t.Errorf("%+v", list)
	}
}

// The authors of a promotion from a commit that is not on the trunk any more are unknown.
func TestReplayWithoutTheCommitBefore(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.Git("checkout", "-q", "--orphan", "anew")
	s.Commit("the trunk anew")
	s.Git("branch", "-qM", "main")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.Overwrite = []string{"dev"}, true })
	s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p", func(c *promote.Command) { c.Now = true }))
	list := s.replay(`commit.authors.all(a, a != "b")`)
	if len(list) != 1 || list[0].Open || !strings.Contains(strings.Join(list[0].Unknown, "\n"), "trunk") {
		t.Errorf("%+v", list)
	}
}

// A gate can ask how long a wave of an environment before has been healthy. The record of that environment tells it; the
// past in Git does not.
func TestGateOfAWave(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	m.hours(t, 4, 5*time.Hour)
	m.Write("sluice.yaml", strings.Replace(m.Read("sluice.yaml"), "{name: mgmt, after: [dev], promotion: {",
		`{name: mgmt, after: [prod], promotion: {gates: [{name: soak, expr: 'upstreams.prod.waves.canary.soak >= duration("30h") && upstreams.prod.waves.rest.healthy'}], `, 1))
	m.tools("two")
	m.Commit("tools and a gate")
	m.hydrateThe("dev")
	runs := func() string { return m.Git("show", "cluster/m:tools/configmap-tools.yaml") }
	last := m.hours(t, 4, 5*time.Hour)
	wants(t, "waits", []string{last.Decision.WaitsFor}, `gate/soak: not true: upstreams.prod.waves.canary.soak >= duration("30h"): false; if nothing else changes, it opens `)
	if strings.Contains(runs(), "two") {
		t.Error("mgmt does not wait")
	}
	m.hours(t, 3, 5*time.Hour)
	if !strings.Contains(runs(), "two") {
		t.Errorf("it still waits: %s", m.pass(t).Decision.WaitsFor)
	}
	gate, err := expression.Compile(`upstreams.prod.waves.canary.healthy`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := promote.ReplayGate(t.Context(), m.Hydrator(2), promote.ReplayRequest{Trunk: m.tip(), Environment: "mgmt", Gate: gate})
	if err != nil || len(list) == 0 || list[0].Open || !strings.Contains(strings.Join(list[0].Unknown, "\n"), "when its waves were healthy is not in Git") {
		t.Errorf("%+v, %v", list, err)
	}
}

// A gate can wait after a failure: a halt by Sluice counts, one by a person does not. The replay sees those that came before.
func TestGateAfterAFailure(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, health: {commitStatuses: [sync]}, gates: [{name: calm, expr: 'history.failures.all(t, now - t > duration(\"24h\"))'}]")
	one := s.release("one")
	s.out.statuses, s.out.failing = "success", one
	s.look(nil)
	got, _ := s.look(nil)
	if h := got.Decision.Record.Halt; h == nil || h.By != "" {
		t.Fatalf("the failure does not halt: %+v", got.Decision.Record)
	}
	s.out.failing = ""
	s.now = s.now.Add(time.Hour)
	s.look(nil, ordered(rollout.EventResume, "r", nil))
	two := s.release("two")
	got, _ = s.look(nil)
	wants(t, "an hour later", []string{got.Decision.WaitsFor}, "calm")
	s.now = s.now.Add(24 * time.Hour)
	s.look(nil, ordered(rollout.EventHalt, "h", nil), ordered(rollout.EventResume, "r2", nil))
	s.look(nil)
	if !strings.Contains(s.runs(), two) {
		t.Errorf("a day later prod runs %s, want %s", s.runs(), two)
	}
	list := s.replay(`history.failures.size() == 1`)
	if len(list) == 0 || !list[0].Open {
		t.Errorf("the replay: %+v", list)
	}
}

// A rollback by Sluice counts as a failure, too.
func TestGateAfterAnAutomaticRollback(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, onFailure: rollback, health: {commitStatuses: [sync]}")
	s.out.statuses = "success"
	s.release("good")
	s.look(nil)
	s.out.failing = s.release("bad")
	s.look(nil)
	s.look(nil)
	s.out.failing = ""
	s.now = s.now.Add(time.Hour)
	s.release("better")
	s.look(nil)
	s.now = s.now.Add(time.Hour)
	s.release("best")
	s.look(nil)
	if list := s.replay(`history.failures.size() == 1 && history.rollbacks.size() == 1`); len(list) < 2 || !list[0].Open {
		t.Errorf("the replay: %+v", list)
	}
}
