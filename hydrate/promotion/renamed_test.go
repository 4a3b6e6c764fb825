package promotion_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// rollBack rolls parts of prod back as a person does.
func (w *tenants) rollBack(id string, change func(*promotion.Command)) (refused []string) {
	w.T.Helper()
	_, refused = w.look(func(r *promotion.Request) { r.Adapters.Statuses = w }, ordered(promote.EventRollback, id, change))
	return refused
}

// A workspace in which an app was renamed goes back as a whole when a person asks for it, and comes again as a whole.
func TestWorkspaceWithARenamedAppIsRolledBack(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	w.Git("rm", "-q", "-r", "workspaces/team-a/apps/cart", "workspaces/team-a/m")
	w.app("team-a", "basket")
	w.object("team-a", "basket", "two")
	w.says("fine", "team-b")
	w.passes()
	w.has("renamed", "team-a", "basket", "basket", "two", "two")
	if refused := w.rollBack("r", func(c *promotion.Command) { c.Workspaces = []string{"team-a"} }); len(refused) > 0 {
		t.Fatal(refused)
	}
	w.has("rolled back", "team-a", "cart", "cart", "one", "one")
	w.has("rolled back", "team-a", "basket", "basket", "-", "-")

	w.says("better", "team-b")
	w.passes()
	w.has("another commit", "team-a", "cart", "cart", "one", "one")
	w.has("another commit", "team-a", "basket", "basket", "-", "-")
	w.has("another commit", "team-b", "cart", "cart", "better", "better")

	w.object("team-a", "basket", "three")
	w.says("best", "team-b")
	last := w.passes()
	w.has("a repair", "team-a", "cart", "cart", "-", "-")
	w.has("a repair", "team-a", "basket", "basket", "three", "three")
	if len(last.Decision.Record.Holds) > 0 {
		t.Errorf("something is still held: %+v", last.Decision.Record.Holds)
	}
}

// One side of a rename does not go back alone: it would delete the objects, or give them two owners.
func TestRollbackOfOneSideOfARename(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	w.Git("mv", "workspaces/team-a", "workspaces/team-c")
	w.Git("mv", "workspaces/team-a.yaml", "workspaces/team-c.yaml")
	w.Write("workspaces/team-c.yaml", strings.Replace(w.Read("workspaces/team-c.yaml"), "name: team-a", "name: team-c", 1))
	w.says("fine", "team-b")
	w.passes()
	w.has("renamed", "team-c", "cart", "cart", "one", "one")
	w.has("renamed", "team-a", "cart", "cart", "-", "-")
	for _, team := range []string{"team-a", "team-c"} {
		refused := w.rollBack("r-"+team, func(c *promotion.Command) { c.Workspaces = []string{team} })
		if len(refused) != 1 || !strings.Contains(refused[0], "--workspace team-a --workspace team-c") {
			t.Errorf("%s alone: %+v", team, refused)
		}
		w.has(team, "team-c", "cart", "cart", "one", "one")
		w.has(team, "team-a", "cart", "cart", "-", "-")
	}
	if refused := w.rollBack("r", func(c *promotion.Command) { c.Workspaces = []string{"team-a", "team-c"} }); len(refused) > 0 {
		t.Fatal(refused)
	}
	w.has("rolled back", "team-c", "cart", "cart", "-", "-")
	w.has("rolled back", "team-a", "cart", "cart", "one", "one")

	w.object("team-c", "cart", "three")
	w.says("best", "team-b")
	w.passes()
	w.has("a repair", "team-a", "cart", "cart", "-", "-")
	w.has("a repair", "team-c", "cart", "cart", "three", "three")
}
