package promote_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// newTenantsBefore is newTenants with workspaces that are unhealthy in dev, before prod.
func newTenantsBefore(t *testing.T) *tenants {
	t.Helper()
	w := newTenants(t)
	w.in = "dev"
	return w
}

// waitsFor looks until nothing moves, and checks that prod waits, and that nothing came.
func (w *tenants) waitsFor(says string) {
	w.T.Helper()
	before := w.Git("rev-parse", "env/prod")
	last := w.passes()
	if !strings.Contains(last.Decision.WaitsFor, says) {
		w.T.Errorf("prod waits for %q, want %q", last.Decision.WaitsFor, says)
	}
	if w.Git("rev-parse", "env/prod") != before {
		w.T.Errorf("prod moves: %s", w.Git("log", "-1", "--format=%B", "env/prod"))
	}
}

// A workspace that is red in dev stays in prod as it is, everything else is promoted, and its part follows when it is
// green again.
func TestWorkspaceThatIsRedBefore(t *testing.T) {
	t.Parallel()
	w := newTenantsBefore(t)
	w.object("team-a", "cart", "two")
	w.app("team-a", "fresh") // a new app must not come alone
	w.red = "says: two"
	w.says("fine", "team-b")
	last := w.passes()
	w.has("left out", "team-a", "cart", "cart", "one", "one")
	w.has("left out", "team-a", "fresh", "cart", "-", "-")
	w.has("left out", "team-b", "cart", "cart", "fine", "fine")
	wants(t, "the commit", []string{w.Git("log", "-1", "--format=%B", "env/prod")}, "Sluice-Left-Out: team-a\n")
	wants(t, "a cluster", []string{w.Git("log", "-1", "--format=%B", "cluster/prod-us-1")},
		"Sluice-App-Source: team-a/cart ")
	wants(t, "status", []string{last.Decision.WaitsFor}, "workspace team-a is red in dev since")
	if !slices.Equal(last.Decision.LeftOut, []string{"team-a"}) || last.Decision.Record.Halt != nil ||
		len(last.Decision.Record.Holds) > 0 {
		t.Errorf("the decision is %+v", last.Decision)
	}

	w.says("better", "team-b")
	w.passes()
	w.has("another commit", "team-a", "cart", "cart", "one", "one")
	w.has("another commit", "team-a", "fresh", "cart", "-", "-")
	w.has("another commit", "team-b", "cart", "cart", "better", "better")

	w.says("three", "team-a")
	last = w.passes()
	w.has("a repair", "team-a", "cart", "cart", "three", "three")
	w.has("a repair", "team-a", "fresh", "cart", "three", "three")
	if len(last.Decision.LeftOut) > 0 || last.Decision.WaitsFor != "" ||
		last.Decision.Record.Before["dev"].Workspaces != nil {
		t.Errorf("something is still left out: %+v", last.Decision)
	}
}

// An app that a red workspace renames keeps its old name, until the workspace is green.
func TestRenamedAppIsLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenantsBefore(t)
	w.Git("rm", "-q", "-r", "workspaces/team-a/apps/cart", "workspaces/team-a/m")
	w.app("team-a", "basket")
	w.object("team-a", "basket", "two")
	w.red = "says: two"
	w.says("fine", "team-b")
	w.passes()
	w.has("renamed", "team-a", "cart", "cart", "one", "one")
	w.has("renamed", "team-a", "basket", "basket", "-", "-")
	w.has("renamed", "team-b", "cart", "cart", "fine", "fine")
	w.red = ""
	w.passes()
	w.has("green", "team-a", "cart", "cart", "-", "-")
	w.has("green", "team-a", "basket", "basket", "two", "two")
}

// The environment after the one that leaves a workspace out gets the commit without its changes, and then its changes.
func TestEnvironmentAfterALeftOutWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenantsBefore(t)
	w.addStaging()
	w.object("team-a", "cart", "two")
	w.says("fine", "team-b")
	w.red = "says: two"
	w.passes()
	w.passes()
	w.has("left out", "team-a", "cart", "cart", "one", "one")
	w.has("left out", "team-b", "cart", "cart", "fine", "fine")
	w.red = ""
	w.passes()
	w.passes()
	w.has("green", "team-a", "cart", "cart", "two", "two")
}

// The removal of a red workspace is not delayed for ever: without an app, it is not red.
func TestRedWorkspaceIsRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenantsBefore(t)
	w.object("team-a", "cart", "two")
	w.red = "says: two"
	w.says("fine", "team-b")
	w.passes()
	w.Git("rm", "-q", "-r", "workspaces/team-a", "workspaces/team-a.yaml")
	w.says("better", "team-b")
	w.passes()
	w.has("removed", "team-a", "cart", "cart", "-", "-")
	w.has("removed", "team-b", "cart", "cart", "better", "better")
}

// Everything waits if the workspace cannot be told apart from the rest.
func TestWorkspaceThatCannotBeLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	const (
		shared    = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, namespace: team-a}\ndata: {says: x}\n"
		namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n"
		app       = tenantsKind +
			"App\nmetadata: {name: shared}\nspec: {namespace: default, placement: {}, source: {manifests: {path: apps/shared/m}}}\n"
		moved   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved, namespace: default}\n"
		another = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: another, namespace: default}\n"
	)
	for name, c := range map[string]struct {
		start, change func(w *tenants)
		says          string
	}{
		"an object moves into it": {
			start: func(w *tenants) { w.Write("apps/shared/m/shared.yaml", shared) },
			change: func(w *tenants) {
				w.Git("rm", "-q", "apps/shared/m/shared.yaml")
				w.Write("workspaces/team-a/m/shared.yaml", shared)
			},
			says: "it is not left out: ConfigMap shared on prod-",
		},
		"an object moves out of it": {
			start: func(w *tenants) { w.Write("workspaces/team-a/m/shared.yaml", shared) },
			change: func(w *tenants) {
				w.Git("rm", "-q", "workspaces/team-a/m/shared.yaml")
				w.Write("apps/shared/m/shared.yaml", shared)
			},
			says: "it is not left out: ConfigMap shared on prod-",
		},
		"an object moves into it and to another namespace": {
			start: func(w *tenants) { w.Write("apps/shared/m/moved.yaml", moved) },
			change: func(w *tenants) {
				w.Git("rm", "-q", "apps/shared/m/moved.yaml")
				w.Write("workspaces/team-a/m/moved.yaml", strings.ReplaceAll(moved, "default", "team-a"))
			},
			says: "it is not left out: ConfigMap moved on prod-edge-1 leaves namespace default for team-a",
		},
		"the rest removes its namespace": {
			start:  func(w *tenants) { w.Write("apps/shared/m/namespace.yaml", namespace) },
			change: func(w *tenants) { w.Git("rm", "-q", "apps/shared/m/namespace.yaml") },
			says:   "is removed, and ConfigMap cart needs it",
		},
		"the rest needs what it adds": {
			start: func(w *tenants) {
				w.Write("workspaces/team-a.yaml", tenantsKind+
					"Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], kinds: {clusterScoped: [Namespace]}}\n")
			},
			change: func(w *tenants) {
				w.Write("workspaces/team-a/m/namespace.yaml", namespace)
				w.Write("apps/shared/m/shared.yaml", shared)
			},
			says: "Namespace team-a on prod-edge-1 would go as well, and ConfigMap",
		},
		"a cluster is added": {
			start: func(*tenants) {},
			change: func(w *tenants) {
				w.Write("clusters/prod-new-1.yaml", strings.ReplaceAll(w.Read("clusters/prod-us-1.yaml"), "prod-us-1",
					"prod-new-1"))
			},
			says: "it is not left out: the promotion adds or removes clusters",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenantsBefore(t)
			w.Write("apps/shared/app.yaml", app)
			w.Write("apps/shared/m/another.yaml", another)
			c.start(w)
			w.says("start", "team-b")
			w.passes()
			w.has("start", "team-b", "cart", "cart", "start", "start")
			c.change(w)
			w.object("team-a", "cart", "two")
			w.red = "says: two"
			w.says("fine", "team-b")
			w.waitsFor(c.says)
			w.has("red", "team-b", "cart", "cart", "start", "start")
			w.red = ""
			w.passes()
			w.has("green", "team-a", "cart", "cart", "two", "two")
			w.has("green", "team-b", "cart", "cart", "fine", "fine")
		})
	}
}

// Whoever asks for everything gets everything else, and whoever asks for a workspace gets it if it is not the red one.
func TestRequestWhileAWorkspaceIsRedBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenantsBefore(t)
	w.Write("sluice.yaml", strings.ReplaceAll(w.Read("sluice.yaml"), "mode: auto, ", "mode: manual, "))
	w.object("team-a", "cart", "two")
	w.red = "says: two"
	w.says("fine", "team-b")
	ask := func(id string, workspaces ...string) promote.Status {
		t.Helper()
		_, refused := w.look(func(r *promote.Request) { r.Adapters.Statuses = w },
			ordered(rollout.EventPromote, id, func(c *promote.Command) { c.Workspaces = workspaces }))
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		return w.passes()
	}
	if last := w.passes(); !strings.Contains(last.Decision.WaitsFor, "needs a command") &&
		!strings.Contains(last.Decision.WaitsFor, "waits for a command") {
		t.Errorf("prod waits for %q", last.Decision.WaitsFor)
	}
	ask("b", "team-b")
	w.has("another workspace", "team-a", "cart", "cart", "one", "one")
	w.has("another workspace", "team-b", "cart", "cart", "fine", "fine")
	last := ask("a", "team-a")
	w.has("the red one", "team-a", "cart", "cart", "one", "one")
	wants(t, "the red one", []string{last.Decision.WaitsFor}, "workspace team-a is red in dev")

	w.says("better", "team-b")
	last = ask("everything")
	w.has("everything", "team-a", "cart", "cart", "one", "one")
	w.has("everything", "team-b", "cart", "cart", "better", "better")
	if last.Decision.Record.Request != nil {
		t.Errorf("the request is pending: %+v", last.Decision.Record.Request)
	}
	wants(t, "what is left", []string{last.Decision.WaitsFor}, "everything else of")
	w.red = ""
	last = w.passes()
	wants(t, "green", []string{last.Decision.WaitsFor}, "waits for a command")
	ask("again")
	w.has("green", "team-a", "cart", "cart", "two", "two")
}

// A rollback of a promotion without a workspace goes to what ran before, and holds all of its commit. A newer one of
// the workspace comes.
func TestRollbackOfAPromotionWithoutAWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenantsBefore(t)
	w.object("team-a", "cart", "two")
	w.red = "says: two"
	w.says("fine", "team-b")
	w.passes()
	w.has("left out", "team-b", "cart", "cart", "fine", "fine")
	back := func(id string, kind rollout.EventKind, holds ...string) {
		t.Helper()
		if _, refused := w.look(func(r *promote.Request) { r.Adapters.Statuses = w },
			ordered(kind, id, func(c *promote.Command) { c.Named = holds })); len(refused) > 0 {
			t.Fatal(refused)
		}
		w.passes()
	}
	back("back", rollout.EventRollback)
	w.has("back", "team-a", "cart", "cart", "one", "one")
	w.has("back", "team-b", "cart", "cart", "one", "one")
	w.red = ""
	w.passes()
	w.has("green", "team-a", "cart", "cart", "one", "one")
	w.has("green", "team-b", "cart", "cart", "one", "one")
	w.says("three", "team-a")
	w.passes()
	w.has("a newer commit", "team-a", "cart", "cart", "three", "three")
	w.has("a newer commit", "team-b", "cart", "cart", "one", "one")
	back("resume", rollout.EventResume, "team-b/cart")
	w.has("resumed", "team-b", "cart", "cart", "fine", "fine")
}
