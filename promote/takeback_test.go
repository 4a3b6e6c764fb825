package promote_test

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// tenants is a fleet of two workspaces in dev and prod. Each app of a rendered commit has a status of its own.
type tenants struct {
	*stage
	red string // text of the objects that make their app unhealthy
	in  string // the environment in which they do
}

// Statuses are those of each app of a cluster's commit.
func (w *tenants) Statuses(_ context.Context, commit string) ([]rollout.Status, error) {
	var out []rollout.Status
	//nolint:contextcheck // the repository has the test's
	here := strings.Contains(w.Git("log", "-1", "--format=%B", commit), "Sluice-Environment: "+w.in)
	//nolint:contextcheck // the same
	for name := range strings.FieldsSeq(w.Git("ls-tree", "-r", "--name-only", commit)) {
		one := rollout.Status{Name: "kustomization/" + rollout.ObjectName(strings.TrimPrefix(path.Dir(name),
			"workspaces/")) + "/x", State: "success"}
		if w.red != "" && here && strings.Contains(w.Git("show", commit+":"+name), w.red) {
			one.State = "failure"
		}
		out = append(out, one)
	}
	return out, nil
}

const tenantsKind = "apiVersion: sluice.dev/v1alpha1\nkind: "

const aloneByWorkspace = "mode: auto, onWorkspaceFailure: rollback, health: {commitStatuses: [\"kustomization/${app}/*\"]}"

func newTenants(t *testing.T) *tenants {
	t.Helper()
	w := &tenants{stage: newStage(t, aloneByWorkspace+
		", waves: [{name: canary, clusters: {matchLabels: {cluster: prod-eu-1}}, bake: 1h}, {name: rest}]"), in: "prod"}
	for _, team := range []string{"team-a", "team-b"} {
		w.Write("workspaces/"+team+".yaml", tenantsKind+"Workspace\nmetadata: {name: "+team+
			"}\nspec: {clusters: {}, namespaces: ["+team+"]}\n")
		w.app(team, "cart")
	}
	w.says("one", "team-a", "team-b")
	w.passes()
	return w
}

// addStaging adds an environment between dev and prod, which lets workspaces fail alone.
func (w *tenants) addStaging() {
	w.T.Helper()
	cluster := strings.NewReplacer("dev-1", "staging-1", "environment: dev",
		"environment: staging").Replace(w.Read("clusters/dev-1.yaml"))
	w.Write("clusters/staging-1.yaml", cluster)
	w.Write("sluice.yaml", strings.ReplaceAll(w.Read("sluice.yaml"), "    - name: prod\n      after: [dev]\n",
		"    - name: staging\n      after: [dev]\n      promotion: {"+aloneByWorkspace+
			"}\n    - name: prod\n      after: [staging]\n"))
	w.Commit("staging")
	w.hydrateThe("dev", "staging")
	w.passes()
}

// app writes an app of a workspace, whose objects are in the folder m.
func (w *tenants) app(team, name string) {
	w.Write("workspaces/"+team+"/apps/"+name+"/app.yaml", tenantsKind+"App\nmetadata: {name: "+name+
		"}\nspec: {namespace: "+team+", placement: {}, source: {manifests: {path: m}}}\n")
}

// object writes an object of a workspace.
func (w *tenants) object(team, name, text string) {
	w.Write("workspaces/"+team+"/m/"+name+".yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+
		"}\ndata: {says: "+text+"}\n")
}

// says commits a text to the objects of workspaces, and hydrates it.
func (w *tenants) says(text string, teams ...string) {
	w.T.Helper()
	for _, team := range teams {
		w.object(team, "cart", text)
	}
	w.Commit(text)
	w.hydrateThe("dev")
}

// pass looks until nothing moves any more.
func (w *tenants) pass(change func(*promote.Request)) promote.Status {
	w.T.Helper()
	last, refused := w.look(func(r *promote.Request) {
		if r.Adapters.Statuses = w; change != nil {
			change(r)
		}
	})
	if len(refused) > 0 {
		w.T.Fatal(refused)
	}
	return last
}

// passes completes a rollout: the canary bakes, then the others.
func (w *tenants) passes() promote.Status {
	w.T.Helper()
	w.pass(nil)
	w.now = w.now.Add(2 * time.Hour)
	w.pass(nil)
	w.now = w.now.Add(2 * time.Hour)
	return w.pass(nil)
}

// has compares what the canary and another cluster of prod have of an app of a workspace; "-" is nothing.
func (w *tenants) has(when, team, app, object string, wanted ...string) {
	w.T.Helper()
	var got []string
	for _, cluster := range []string{"prod-eu-1", "prod-us-1"} {
		name := "workspaces/" + team + "/" + app + "/configmap-" + object + ".yaml"
		text := "-"
		if w.Git("ls-tree", "--name-only", "cluster/"+cluster, name) != "" {
			_, text, _ = strings.Cut(w.Git("show", "cluster/"+cluster+":"+name), "says: ")
		}
		got = append(got, strings.TrimSpace(text))
	}
	if !slices.Equal(got, wanted) {
		w.T.Errorf("%s: %s of %s/%s is %q, want %q", when, object, team, app, got, wanted)
	}
}

// A workspace that turns red on the canary goes back there, does not come to the others, and everything else does.
func TestRedWorkspaceGoesBackAlone(t *testing.T) {
	t.Parallel()
	w := newTenants(t)
	w.says("two", "team-a", "team-b")
	w.red = "says: two"
	w.Write("workspaces/team-b/m/cart.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cart}\ndata: {says: fine}\n")
	w.says("fine")
	w.pass(nil)
	w.has("at once", "team-a", "cart", "cart", "one", "one")
	w.has("at once", "team-b", "cart", "cart", "fine", "one")
	w.now = w.now.Add(30 * time.Minute)
	w.pass(nil)
	w.has("before the canary baked again", "team-b", "cart", "cart", "fine", "one")
	last := w.passes()
	w.has("then", "team-a", "cart", "cart", "one", "one")
	w.has("then", "team-b", "cart", "cart", "fine", "fine")
	if r := last.Decision.Record; r.Halt != nil || r.Progress.Done.IsZero() || r.Rollback != nil {
		t.Errorf("the rollout is not complete: %+v", r)
	}
	message := w.Git("log", "-1", "--format=%B", "env/prod")
	for _, part := range []string{
		"Roll workspace team-a on prod back to", "Sluice-Workspaces: team-a\n",
		"Sluice-Apps: team-a/cart\n", "Sluice-Taken-Back: only workspace team-a is red",
	} {
		wants(t, "the commit", []string{message}, part)
	}
	if strings.Contains(message, "Sluice-Rollback") {
		t.Error("the commit is a rollback, whose clusters move at once")
	}
	var text strings.Builder
	last.WriteText(&text, "sluice")
	wants(t, "status", []string{text.String()}, "sluice resume prod --hold team-a")

	// What is held stays out of a commit that does not change it, and comes with one that does.
	w.says("better", "team-b")
	w.passes()
	w.has("another commit", "team-a", "cart", "cart", "one", "one")
	w.has("another commit", "team-b", "cart", "cart", "better", "better")
	w.says("three", "team-a")
	w.passes()
	w.has("a repair", "team-a", "cart", "cart", "three", "three")
}

// The environment after the one in which a workspace went back gets the commit without its changes.
func TestEnvironmentAfterARedWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	w.in = "staging"
	w.addStaging()
	w.object("team-a", "cart", "two")
	w.says("fine", "team-b")
	w.red = "says: two"
	w.passes()
	w.has("without the changes", "team-a", "cart", "cart", "one", "one")
	w.has("without the changes", "team-b", "cart", "cart", "fine", "fine")
	w.says("three", "team-a")
	w.passes()
	w.has("a repair", "team-a", "cart", "cart", "three", "three")
}

// An app that a rollout renames gets its old name back, on every cluster.
func TestRenamedAppGoesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	w.Git("rm", "-q", "-r", "workspaces/team-a/apps/cart", "workspaces/team-a/m")
	w.app("team-a", "basket")
	w.object("team-a", "basket", "two")
	w.says("fine", "team-b")
	w.red = "says: two"
	w.passes()
	w.has("renamed", "team-a", "cart", "cart", "one", "one")
	w.has("renamed", "team-a", "basket", "basket", "-", "-")
	w.has("renamed", "team-b", "cart", "cart", "fine", "fine")

	w.object("team-a", "basket", "three")
	w.says("better", "team-b")
	last := w.passes()
	w.has("a repair", "team-a", "cart", "cart", "-", "-")
	w.has("a repair", "team-a", "basket", "basket", "three", "three")
	if len(last.Decision.Record.Holds) > 0 {
		t.Errorf("something is still held: %+v", last.Decision.Record.Holds)
	}
}

// An object that moves between apps inside a workspace goes back to where it was.
func TestObjectMovesInsideAWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	w.Git("rm", "-q", "-r", "workspaces/team-a/apps/cart")
	w.app("team-a", "basket")
	w.object("team-a", "cart", "two")
	w.says("fine", "team-b")
	w.red = "says: two"
	w.passes()
	w.has("moved", "team-a", "cart", "cart", "one", "one")
	w.has("moved", "team-a", "basket", "cart", "-", "-")

	w.object("team-a", "cart", "three")
	w.says("better", "team-b")
	w.passes()
	w.has("a repair", "team-a", "cart", "cart", "-", "-")
	w.has("a repair", "team-a", "basket", "cart", "three", "three")
}

// halts checks that a red workspace halts prod, and that the cluster which the rollout has not reached keeps what it
// has.
func (w *tenants) halts(says string, change func(*promote.Request)) {
	w.T.Helper()
	before := w.Git("rev-parse", "cluster/prod-us-1")
	last := w.pass(change)
	h := last.Decision.Record.Halt
	if h == nil || last.Decision.Record.Rollback != nil {
		w.T.Fatalf("it is not halted: %v %v", last.Decision.WaitsFor, last.Done)
	}
	if !strings.Contains(h.Reason, says) {
		w.T.Errorf("%q lacks %q", h.Reason, says)
	}
	if w.Git("rev-parse", "cluster/prod-us-1") != before {
		w.T.Error("the rollout goes on")
	}
}

// To take back only one side of a move would delete the object, or give it two owners.
func TestObjectMovesBetweenApps(t *testing.T) {
	t.Parallel()
	const shared = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, namespace: team-a}\ndata: {says: two}\n"
	fleets := tenantsKind + "App\nmetadata: {name: shared}\nspec: {namespace: default, placement: {}, source: {manifests: {path: apps/shared/m}}}\n"
	for name, into := range map[string]bool{"into the workspace": true, "out of the workspace": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenants(t)
			w.Write("apps/shared/app.yaml", fleets)
			w.Write("apps/shared/m/other.yaml", strings.ReplaceAll(shared, "name: shared", "name: other"))
			from, to := "apps/shared/m/shared.yaml", "workspaces/team-a/m/shared.yaml"
			if !into {
				from, to = to, from
			}
			w.Write(from, shared)
			w.says("start", "team-b")
			w.passes()
			w.Git("rm", "-q", from)
			w.Write(to, shared)
			w.says("two", "team-a")
			w.red = "name: cart\n  namespace: team-a"
			w.halts("ConfigMap shared on prod-", nil)
		})
	}
}

// What most clusters get is judged, although nobody asked for it.
func TestStateWithoutAWorkspaceIsJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	first := w.Git("rev-parse", "main")
	w.says("two", "team-a", "team-b")
	w.says("fine", "team-b")
	w.pass(nil) // the canary has it
	w.red, w.out.red[first] = "says: two", true
	w.halts("policy is red for the state without team-a: the trunk's policy says no", nil)

	w = newTenants(t)
	w.object("team-a", "more", "two")
	w.object("team-a", "most", "two")
	w.says("fine", "team-b")
	w.red = "says: two"
	w.halts("6 of ", func(r *promote.Request) { r.MaxDeletions = 1 })
}

// A workspace whose manifests the rollout does not change is not its cause.
func TestRedWorkspaceThatDidNotChange(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	w.says("fine", "team-b")
	w.red = "says: one"
	w.halts("the rollout does not change workspace team-a on prod-eu-1", nil)
}

// dying is a process that ends when it moves a branch, after env/prod is due to move. The other branches of that push
// move.
type dying struct {
	gitstore.Branches
	at  string
	due bool
}

var errDies = errors.New("the process ends")

func (d *dying) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move,
	o gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	d.due = d.due || slices.ContainsFunc(moves, func(m gitstore.Move) bool { return m.Branch == "env/prod" })
	left := slices.DeleteFunc(slices.Clone(moves), func(m gitstore.Move) bool { return m.Branch == d.at })
	if !d.due || len(left) == len(moves) {
		return d.Branches.Push(ctx, w, moves, o)
	}
	if d.at != "env/prod" && len(left) > 0 {
		if _, err := d.Branches.Push(ctx, w, left, o); err != nil {
			return nil, err
		}
	}
	return nil, errDies
}

// interrupt looks once, in a process that ends at a branch.
func (w *tenants) interrupt(at string) {
	w.T.Helper()
	h := w.Hydrator(2)
	c, err := h.Store.Resolve(w.T.Context(), "main")
	if err != nil {
		w.T.Fatal(err)
	}
	a := w.adapters()
	a.Statuses = w
	h = h.WithBranches(&dying{Branches: h.Branches, at: at})
	if _, err := promote.Look(w.T.Context(), h, promote.Request{Trunk: c, Now: w.now, Adapters: a}); !errors.Is(err,
		errDies) {
		w.T.Fatal(err)
	}
}

// A run that ends after it moved branches, or some of them, is continued by the next one. Nothing reaches the other
// clusters before the canary bakes.
func TestInterruptedReturnOfAWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	for name, refused := range map[string]string{
		"before the record": "sluice/state",
		"before a cluster":  "cluster/prod-eu-1", "before all": "env/prod",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenants(t)
			w.says("two", "team-a")
			w.says("fine", "team-b")
			w.pass(nil) // the canary has it
			w.red = "says: two"
			w.has("before", "team-a", "cart", "cart", "two", "one")
			w.interrupt(refused)
			w.has("interrupted", "team-b", "cart", "cart", "fine", "one")
			w.pass(nil)
			w.has("continued", "team-a", "cart", "cart", "one", "one")
			w.has("continued", "team-b", "cart", "cart", "fine", "one")
			last := w.passes()
			w.has("then", "team-a", "cart", "cart", "one", "one")
			w.has("then", "team-b", "cart", "cart", "fine", "fine")
			if holds := last.Decision.Record.Holds; len(holds) != 1 ||
				!slices.Equal(holds[0].Workspaces, []string{"team-a"}) {
				t.Errorf("the holds are %+v", holds)
			}
		})
	}
}

// What the workspace's changes add and other objects need cannot go with them: the cluster would delete these objects
// as well.
func TestWorkspaceGoesBackWithWhatOthersNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	const (
		namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n"
		kind      = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n"
		thing     = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: one}\n"
	)
	for name, c := range map[string]struct{ add, needs, says string }{
		"a namespace that had the app before": {
			add:  namespace,
			says: "Namespace team-a on prod-edge-1 would go as well, and ConfigMap cart needs it",
		},
		"a kind that another workspace has": {
			add: kind, needs: thing,
			says: "CustomResourceDefinition things.example.com on prod-edge-1 would go as well, and Thing one needs it",
		},
		"a kind that nobody else has": {add: kind},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenants(t)
			w.Write("workspaces/team-a.yaml", tenantsKind+
				"Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], kinds: {clusterScoped: [Namespace, CustomResourceDefinition.apiextensions.k8s.io]}}\n")
			w.Write("workspaces/team-b.yaml", tenantsKind+
				"Workspace\nmetadata: {name: team-b}\nspec: {clusters: {}, namespaces: [team-b], kinds: {allow: [\"*\", \"*.example.com\"]}}\n")
			w.says("one", "team-b")
			w.passes()
			w.Write("workspaces/team-a/m/added.yaml", c.add)
			if c.needs != "" {
				w.Write("workspaces/team-b/m/needs.yaml", c.needs)
			}
			w.says("two", "team-a")
			w.says("fine", "team-b")
			w.red = "says: two"
			if c.says != "" {
				w.halts(c.says, nil)
				return
			}
			w.passes()
			w.has("gone back", "team-a", "cart", "cart", "one", "one")
		})
	}
}

// Even if the record was lost and rebuilt, a rollback does not go back to what a workspace failed in.
func TestRollbackWithoutTheRecordOfARedWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	w := newTenants(t)
	w.says("two", "team-a")
	w.says("fine", "team-b")
	w.pass(nil) // the canary has it
	w.red = "says: two"
	w.pass(nil)
	w.has("back", "team-a", "cart", "cart", "one", "one")
	w.Git("update-ref", "-d", "refs/heads/sluice/state")
	w.rebuild()
	_, refused := w.look(func(r *promote.Request) { r.Adapters.Statuses = w },
		ordered(rollout.EventRollback, "back", nil))
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	w.has("rolled back", "team-a", "cart", "cart", "one", "one")
	w.has("rolled back", "team-b", "cart", "cart", "one", "one")
}
