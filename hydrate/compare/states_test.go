package compare_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// TestStates compares two states of an environment branch without rendering: the change set is that of the source
// commits, also backwards and from nothing, and a Secret stays masked.
func TestStates(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	before := r.Resolve("env/prod")
	r.Write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
	r.Commit("Canada")
	r.Hydrate(nil)
	after := r.Resolve("env/prod")
	h := r.Hydrator(2)
	f, _, err := h.Fleet(t.Context(), r.Resolve("HEAD").Tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		before, after gitstore.Hash
		want          []string
	}{
		{
			before.Tree, after.Tree,
			[]string{"shop on prod/prod-us-1: noise Deployment shop/shop, changed ConfigMap shop/shop"},
		},
		{
			after.Tree, before.Tree,
			[]string{"shop on prod/prod-us-1: noise Deployment shop/shop, changed ConfigMap shop/shop"},
		},
		{after.Tree, after.Tree, nil},
	} {
		set, notes, err := compare.States(t.Context(), h, compare.StatesRequest{
			Fleet: f, Environment: "prod",
			Before: one.before, After: one.after, Key: []byte("k"),
		})
		if err != nil || len(notes) > 0 {
			t.Fatal(err, notes)
		}
		expectLines(t, lines(set), one.want...)
	}
	all, _, err := compare.States(t.Context(), h, compare.StatesRequest{
		Fleet: f, Environment: "prod",
		After: after.Tree,
	})
	if err != nil || len(all.Groups) == 0 || strings.Contains(strings.Join(lines(all), " "), "changed") {
		t.Errorf("from nothing: %v %v", lines(all), err)
	}
	for what, limited := range map[string]compare.StatesRequest{
		"more than 2 pairs of renderings": {Most: 2}, "more than 0 MiB of files": {MostBytes: 2000},
		"more than 3 objects": {MostObjects: 3},
	} {
		limited.Fleet, limited.Environment, limited.After = f, "prod", after.Tree
		if _, _, err := compare.States(t.Context(), h, limited); !errors.Is(err, compare.ErrTooMany) ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("above the limit: %v, want %s", err, what)
		}
	}
}

// TestStatesOfWorkspaces compares states of which one has more apps of workspaces than the other.
func TestStatesOfWorkspaces(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	first := r.Resolve("env/dev")
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	r.Write("workspaces/team.yaml", base+
		"Workspace\nmetadata: {name: team}\nspec: {clusters: {}, namespaces: [team]}\n")
	r.Write("workspaces/team/apps/web/app.yaml", base+
		"App\nmetadata: {name: web}\nspec: {namespace: team, placement: {}, source: {manifests: {path: m}}}\n")
	r.Write("workspaces/team/m/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: one}\n")
	r.Commit("A workspace")
	r.Hydrate(nil)
	second := r.Resolve("env/dev")
	r.Write("workspaces/team/m/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: two}\n")
	r.Commit("Two")
	r.Hydrate(nil)
	third := r.Resolve("env/dev")
	h := r.Hydrator(2)
	f, _, err := h.Fleet(t.Context(), r.Resolve("HEAD").Tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		before, after gitstore.Hash
		want          string
	}{
		{first.Tree, second.Tree, "team/web on dev/* (2): added ConfigMap team/web"},
		{second.Tree, third.Tree, "team/web on dev/* (2): changed ConfigMap team/web"},
		{third.Tree, first.Tree, "team/web on dev/* (2): removed ConfigMap team/web"},
	} {
		set, notes, err := compare.States(t.Context(), h, compare.StatesRequest{
			Fleet: f, Environment: "dev",
			Before: one.before, After: one.after, Key: []byte("k"),
		})
		if err != nil || len(notes) > 0 {
			t.Error(one.want, err, notes)
			continue
		}
		expectLines(t, lines(set), one.want)
	}
}
