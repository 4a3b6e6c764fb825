package promote_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// rollBack rolls parts of prod back as a person does.
func (w *tenants) rollBack(id string, change func(*promote.Command)) (refused []string) {
	w.T.Helper()
	_, refused = w.look(func(r *promote.Request) { r.Adapters.Statuses = w },
		ordered(rollout.EventRollback, id, change))
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
	if refused := w.rollBack("r", func(c *promote.Command) { c.Workspaces = []string{"team-a"} }); len(refused) > 0 {
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
	w.Write("workspaces/team-c.yaml", strings.Replace(w.Read("workspaces/team-c.yaml"), "name: team-a", "name: team-c",
		1))
	w.says("fine", "team-b")
	w.passes()
	w.has("renamed", "team-c", "cart", "cart", "one", "one")
	w.has("renamed", "team-a", "cart", "cart", "-", "-")
	for _, team := range []string{"team-a", "team-c"} {
		refused := w.rollBack("r-"+team, func(c *promote.Command) { c.Workspaces = []string{team} })
		if len(refused) != 1 || !strings.Contains(refused[0], "--workspace team-a --workspace team-c") {
			t.Errorf("%s alone: %+v", team, refused)
		}
		w.has(team, "team-c", "cart", "cart", "one", "one")
		w.has(team, "team-a", "cart", "cart", "-", "-")
	}
	if refused := w.rollBack("r", func(c *promote.Command) {
		c.Workspaces = []string{
			"team-a",
			"team-c",
		}
	}); len(refused) > 0 {
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

// The definition of a kind, or a namespace, does not go back alone while another workspace has objects of it or in it:
// the cluster would delete these.
func TestRollbackOfWhatOthersNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	const kind = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n"
	w := newTenants(t)
	w.Write("workspaces/team-a.yaml", tenantsKind+
		"Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], kinds: {clusterScoped: [CustomResourceDefinition.apiextensions.k8s.io]}}\n")
	w.Write("workspaces/team-b.yaml", tenantsKind+
		"Workspace\nmetadata: {name: team-b}\nspec: {clusters: {}, namespaces: [team-b], kinds: {allow: [\"*\", \"*.example.com\"]}}\n")
	w.says("bounds", "team-b")
	w.passes()
	w.Write("workspaces/team-a/m/added.yaml", kind)
	w.says("two", "team-a")
	w.Write("workspaces/team-b/m/needs.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: one}\n")
	w.says("fine", "team-b")
	w.passes()
	w.has("promoted", "team-a", "cart", "cart", "two", "two")
	refused := w.rollBack("r", func(c *promote.Command) { c.Workspaces = []string{"team-a"} })
	if len(refused) != 1 || !strings.Contains(refused[0],
		"CustomResourceDefinition things.example.com on prod-edge-1 would go as well, and Thing one needs it: roll back what needs it as well") {
		t.Errorf("refused: %q", refused)
	}
	w.has("refused", "team-a", "cart", "cart", "two", "two")
	if refused := w.rollBack("both", func(c *promote.Command) {
		c.Workspaces = []string{
			"team-a",
			"team-b",
		}
	}); len(refused) > 0 {
		t.Error(refused)
	}
	w.has("both", "team-b", "cart", "cart", "bounds", "bounds")
}

// After a rollback of everything, the old name of an app that the bad commit renamed goes when the repair brings the
// new one.
func TestRenamedAppAfterARollbackOfEverything(t *testing.T) {
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
	if refused := w.rollBack("r", nil); len(refused) > 0 {
		t.Fatal(refused)
	}
	w.has("rolled back", "team-a", "cart", "cart", "one", "one")
	w.has("rolled back", "team-a", "basket", "basket", "-", "-")
	w.says("better", "team-b")
	w.passes()
	w.has("another commit", "team-a", "cart", "cart", "one", "one")
	w.has("another commit", "team-a", "basket", "basket", "-", "-")
	w.object("team-a", "basket", "three")
	w.says("best", "team-b")
	last := w.passes()
	w.has("a repair", "team-a", "cart", "cart", "-", "-")
	w.has("a repair", "team-a", "basket", "basket", "three", "three")
	if len(last.Decision.Record.Holds) > 0 {
		t.Errorf("something is still held: %+v", last.Decision.Record.Holds)
	}
}

// Two workspaces rename an app in a commit that is rolled back. The repair of one of them brings nothing of the other.
func TestRepairOfOneOfTwoRenamedApps(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	for _, team := range []string{"team-a", "team-b"} {
		w.Git("rm", "-q", "-r", "workspaces/"+team+"/apps/cart", "workspaces/"+team+"/m")
		w.app(team, "basket")
		w.object(team, "basket", "two")
	}
	w.Commit("renamed")
	w.hydrateThe("dev")
	w.passes()
	if refused := w.rollBack("r", func(c *promote.Command) {
		c.Workspaces = []string{
			"team-a",
			"team-b",
		}
	}); len(refused) > 0 {
		t.Fatal(refused)
	}
	w.object("team-a", "basket", "three")
	w.Commit("repaired")
	w.hydrateThe("dev")
	w.passes()
	w.has("a repair", "team-a", "cart", "cart", "-", "-")
	w.has("a repair", "team-a", "basket", "basket", "three", "three")
	w.has("no repair", "team-b", "cart", "cart", "one", "one")
	w.has("no repair", "team-b", "basket", "basket", "-", "-")
}

// The definition of a kind that nobody else has objects of goes back alone, also if others have objects of other kinds
// of its group, as when an operator gets a new kind. So does one that the sync tools leave in the cluster.
func TestRollbackOfAKindThatNobodyLoses(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	definition := func(kind string) string {
		plural := strings.ToLower(kind) + "s"
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + plural +
			".example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: " + kind + ", plural: " +
			plural + "}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n"
	}
	w := newTenants(t)
	w.Write("workspaces/team-a.yaml", tenantsKind+
		"Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], kinds: {clusterScoped: [CustomResourceDefinition.apiextensions.k8s.io]}}\n")
	w.Write("workspaces/team-b.yaml", tenantsKind+
		"Workspace\nmetadata: {name: team-b}\nspec: {clusters: {}, namespaces: [team-b], kinds: {allow: [\"*\", \"*.example.com\"]}}\n")
	w.Write("workspaces/team-a/m/thing.yaml", definition("Thing"))
	w.says("kind", "team-a")
	w.Write("workspaces/team-b/m/needs.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: one}\n")
	w.says("fine", "team-b")
	w.passes()
	w.Write("workspaces/team-a/m/other.yaml", definition("Other"))
	w.Write("workspaces/team-a/m/stays.yaml", strings.Replace(definition("Stay"), "metadata: {",
		"metadata: {annotations: {kustomize.toolkit.fluxcd.io/prune: disabled, argocd.argoproj.io/sync-options: Prune=false}, ", 1))
	w.Write("workspaces/team-b/m/stays.yaml", "apiVersion: example.com/v1\nkind: Stay\nmetadata: {name: two}\n")
	w.says("two", "team-a")
	w.passes()
	w.has("promoted", "team-a", "cart", "cart", "two", "two")
	if refused := w.rollBack("r", func(c *promote.Command) { c.Workspaces = []string{"team-a"} }); len(refused) > 0 {
		t.Error(refused)
	}
	w.has("rolled back", "team-a", "cart", "cart", "kind", "kind")
}
