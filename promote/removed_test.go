package promote_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// An app that a promotion removed comes back with a rollback of it, and one that a rollback removed with a promotion of
// it. Nothing else that the environment runs is from the commit that has the app.
func TestRemovedAppsComeBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	prod := func() []string {
		return strings.Fields(s.Git("ls-tree", "--name-only", "env/prod:prod-eu-1"))
	}
	only := func(app string) func(*promote.Command) {
		return func(c *promote.Command) { c.Apps = []string{app} }
	}
	do := func(kind rollout.EventKind, id string, change func(*promote.Command)) {
		t.Helper()
		if _, refused := s.look(nil, ordered(kind, id, change)); len(refused) > 0 {
			t.Fatal(refused)
		}
	}
	s.Git("rm", "-rq", "apps/shop")
	s.Commit("no shop")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = []string{"dev"}, 1000 })
	do(rollout.EventPromote, "p1", only("shop"))
	if slices.Contains(prod(), "shop") {
		t.Fatalf("the promotion removes nothing: %q", prod())
	}
	do(rollout.EventRollback, "r1", only("shop"))
	if !slices.Contains(prod(), "shop") {
		t.Errorf("the rollback does not bring the shop back: %q", prod())
	}
	do(rollout.EventPromote, "p2", func(c *promote.Command) { c.Again = "the shop goes" })
	s.Git("revert", "--no-edit", "HEAD")
	s.Write("apps/gateway/layers/global/values.yaml", strings.ReplaceAll(s.Git("show",
		"HEAD:apps/gateway/layers/global/values.yaml"), "5.2", "5.3")+"\n")
	s.Commit("a shop, and another gateway")
	s.hydrateThe("dev")
	do(rollout.EventPromote, "p3", nil)
	do(rollout.EventRollback, "r2", only("gateway"))
	do(rollout.EventRollback, "r3", only("shop"))
	if slices.Contains(prod(), "shop") {
		t.Fatalf("the rollback removes nothing: %q", prod())
	}
	_, refused := s.look(nil, ordered(rollout.EventPromote, "plain", only("shop")))
	wants(t, "a promotion without a reason", refused, "it would bring back what was rolled back: shop of ")
	if strings.Contains(strings.Join(refused, ""), "gateway") {
		t.Errorf("it names a hold of another app: %q", refused)
	}
	do(rollout.EventPromote, "p4", func(c *promote.Command) { c.Apps, c.Again = []string{"shop"}, "the shop is needed" })
	if !slices.Contains(prod(), "shop") {
		t.Errorf("the promotion does not bring the shop back: %q", prod())
	}
	_, refused = s.look(nil, ordered(rollout.EventRollback, "r4", only("shpo")))
	wants(t, "a misspelt app", refused, `no cluster of prod has an app "shpo"`)
}
