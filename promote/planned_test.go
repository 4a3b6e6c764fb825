package promote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// verify reports clusters that a rollout, a halt or a freeze keeps behind as planned, with the reason, and a branch
// that somebody else moved as a difference.
func TestVerifyTellsPlannedFromTampering(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, waves: [{name: canary, clusters: {matchLabels: {cluster: prod-eu-1}}, bake: 10h}, {name: rest}]")
	s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p1", nil))
	check := func(status, reason string) {
		t.Helper()
		list, err := verify.Run(t.Context(), s.Hydrator(2), s.tip(), []string{"prod"}, s.now)
		if err != nil {
			t.Fatal(err)
		}
		v := list[0]
		if v.Status != status {
			t.Fatalf("the status is %s, want %s: the value is %+v", v.Status, status, v)
		}
		if status == verify.StatusBehind && (len(v.Behind) == 0 || v.Behind[0].Cluster != "prod-us-1" ||
			!strings.Contains(v.Behind[0].Reason, reason)) {
			t.Errorf("want the reason %q: %+v", reason, v.Behind)
		}
	}
	check(verify.StatusBehind, "has not reached it")
	s.look(nil, ordered(rollout.EventHalt, "h", nil))
	check(verify.StatusBehind, "halted by mia: because")
	s.look(nil, ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target = "prod-us-1" }))
	check(verify.StatusBehind, "frozen by mia: because")
	s.look(nil, ordered(rollout.EventUnfreeze, "u", func(c *promote.Command) { c.Target = "prod-us-1" }),
		ordered(rollout.EventResume, "r", nil))
	s.now = s.now.Add(11 * time.Hour)
	s.look(nil)
	s.now = s.now.Add(11 * time.Hour)
	s.look(nil)
	check(verify.StatusOK, "")
	tampered := s.Git("commit-tree", "-p", "cluster/prod-us-1", "-m",
		s.Git("log", "-1", "--format=%B", "cluster/prod-us-1"), s.Git("rev-parse", "cluster/prod-edge-1^{tree}"))
	s.Git("update-ref", "refs/heads/cluster/prod-us-1", tampered)
	check(verify.StatusDiffers, "")
}

// Without a forge, status says that none is configured, not that statuses could not be read.
func TestNoForge(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, health: {commitStatuses: [sync]}")
	s.release("one")
	last, _ := s.look(func(r *promote.Request) { r.Adapters.Statuses = nil })
	var text strings.Builder
	last.WriteText(&text, "sluice")
	if got := text.String(); !strings.Contains(got, "no forge is configured") ||
		strings.Contains(got, "cannot be read") {
		t.Error(got)
	}
}
