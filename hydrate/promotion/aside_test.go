package promotion_test

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// tenants is a fleet of two workspaces on dev-1, prod-eu-1 and others, whose apps have statuses of their own.
type tenants struct {
	*stage
	red string // text of the objects that make their app unhealthy
	on  string // only in this environment; "": in all
}

// Statuses are those of each app of a cluster's commit.
func (w *tenants) Statuses(_ context.Context, commit string) ([]promote.Status, error) {
	var out []promote.Status
	message := w.Git("log", "-1", "--format=%B", commit)                                 //nolint:contextcheck // the repository has the test's
	for name := range strings.FieldsSeq(w.Git("ls-tree", "-r", "--name-only", commit)) { //nolint:contextcheck // the same
		one := promote.Status{Name: "kustomization/" + promote.ObjectName(strings.TrimPrefix(path.Dir(name), "workspaces/")) + "/x", State: "success"}
		here := w.on == "" || strings.Contains(message, "Sluice-Environment: "+w.on)
		if w.red != "" && here && strings.Contains(w.Git("show", commit+":"+name), w.red) {
			one.State = "failure"
		}
		out = append(out, one)
	}
	return out, nil
}

func newTenants(t *testing.T, options string) *tenants {
	t.Helper()
	w := &tenants{stage: newStage(t, "mode: auto, health: {commitStatuses: [\"kustomization/${app}/*\"]}, waves: [{name: canary, clusters: {matchLabels: {cluster: prod-eu-1}}}, {name: rest}]"+options)}
	for _, team := range []string{"team-a", "team-b"} {
		w.Write("workspaces/"+team+".yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Workspace\nmetadata: {name: "+team+"}\nspec: {clusters: {}, namespaces: ["+team+"]}\n")
		w.Write("workspaces/"+team+"/apps/cart/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: cart}\nspec: {namespace: "+team+", placement: {}, source: {manifests: {path: cart}}}\n")
	}
	w.change("one", "team-a", "team-b")
	w.hydrate(nil)
	w.pass()
	w.now = w.now.Add(time.Hour)
	w.pass()
	return w
}

// change commits a text to the objects of workspaces.
func (w *tenants) change(text string, teams ...string) {
	w.T.Helper()
	for _, team := range teams {
		w.Write("workspaces/"+team+"/cart/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cart}\ndata: {says: "+text+"}\n")
	}
	w.Commit(text)
}

// pass looks until nothing moves any more, with the statuses of the tenants.
func (w *tenants) pass(commands ...promotion.Command) promotion.Status {
	w.T.Helper()
	last, refused := w.look(func(r *promotion.Request) { r.Adapters.Statuses = w }, commands...)
	if len(refused) > 0 {
		w.T.Fatal(refused)
	}
	return last
}

// says is what a cluster has of a workspace.
func (w *tenants) says(cluster, team string) string {
	w.T.Helper()
	_, text, _ := strings.Cut(w.Git("show", "cluster/"+cluster+":workspaces/"+team+"/cart/configmap-cart.yaml"), "says: ")
	return strings.TrimSpace(text)
}

// has compares what the clusters of prod have, in the order canary, another.
func (w *tenants) has(when, team string, wanted ...string) {
	w.T.Helper()
	if got := []string{w.says("prod-eu-1", team), w.says("prod-us-1", team)}; !slices.Equal(got, wanted) {
		w.T.Errorf("%s: %s has %q, want %q", when, team, got, wanted)
	}
}

// TestRedWorkspaceIsSetAside: a workspace that turns red on the first wave does not come to the second, and the others do.
func TestRedWorkspaceIsSetAside(t *testing.T) {
	t.Parallel()
	for onFailure, canary := range map[string]string{"halt": "two", "rollback": "one"} {
		w := newTenants(t, ", onFailure: "+onFailure)
		w.change("two", "team-a", "team-b")
		w.change("fine", "team-b")
		w.hydrate(nil)
		w.red, w.on = "says: two", "prod"
		last := w.pass()
		w.has(onFailure, "team-a", canary, "one")
		w.has(onFailure, "team-b", "fine", "fine")
		if last.Decision.Record.Halt != nil || last.Decision.Record.Progress.Done.IsZero() {
			t.Errorf("%s: the rollout is not complete: %+v", onFailure, last.Decision.Record)
		}
		var text strings.Builder
		last.WriteText(&text, "sluice")
		wants(t, onFailure, []string{text.String()}, "workspace team-a (1 app)")
		wants(t, onFailure, []string{text.String()}, "the rollout goes on without it: team-a: 0 of 1 clusters are healthy")
		var history []string
		for _, c := range last.Decision.Record.Commands {
			history = append(history, c.String())
		}
		wants(t, onFailure, history, "setAside workspace team-a; reason: team-a: ")

		// What is held stays out of a commit that does not change it, and comes with one that does.
		w.change("better", "team-b")
		w.hydrate(nil)
		w.pass()
		w.has("another commit, "+onFailure, "team-a", canary, "one")
		w.has("another commit, "+onFailure, "team-b", "better", "better")
		w.change("three", "team-a")
		w.hydrate(nil)
		w.pass()
		w.has("a repair, "+onFailure, "team-a", "three", "three")
	}
}

// TestRedWorkspaceUpstream: a workspace that is red in the environment before stays out of promotions until it is healthy again, and the others
// do not wait for it, also if somebody asks for it alone.
func TestRedWorkspaceUpstream(t *testing.T) {
	t.Parallel()
	w := newTenants(t, ", bake: 10m")
	w.change("two", "team-a")
	w.change("fine", "team-b")
	w.hydrate(nil)
	w.red, w.on = "says: two", "dev"
	w.pass()
	w.now = w.now.Add(11 * time.Minute)
	w.pass()
	w.has("red", "team-a", "one", "one")
	w.has("red", "team-b", "fine", "fine")
	last := w.pass(ordered(promote.EventPromote, "1", func(c *promotion.Command) { c.Workspaces = []string{"team-a"} }))
	wants(t, "waits", []string{last.Decision.WaitsFor}, "workspace team-a")
	w.change("better", "team-b")
	w.hydrate(nil)
	w.pass()
	w.now = w.now.Add(11 * time.Minute)
	w.pass()
	w.has("asked", "team-a", "one", "one")
	w.has("asked", "team-b", "better", "better")
	w.red = ""
	w.pass()
	w.has("not baked", "team-a", "one", "one")
	w.now = w.now.Add(11 * time.Minute)
	w.pass()
	w.has("baked", "team-a", "two", "two")
}
