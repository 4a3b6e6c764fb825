package fleet

import (
	"maps"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func TestReplacements(t *testing.T) {
	t.Parallel()
	file := func(traffic string) string {
		return fleettest.Base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n" + traffic + "  environments: [{name: dev}, {name: prod, after: [dev]}]\n"
	}
	cluster := func(name, traffic, spec string) string {
		return fleettest.Base + "kind: Cluster\nmetadata: {name: " + name + ", labels: {traffic: " + traffic + "}}\nspec: {environment: dev" + spec + "}\n"
	}
	const plain, exclusive = "  traffic: {label: traffic}\n", "  traffic: {label: traffic, exclusive: true}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string // "" for none
	}{
		"itself":              {map[string]string{"clusters/b.yaml": cluster("b", "live", ", replaces: b")}, "4:36: error: the cluster b cannot replace itself"},
		"each other":          {map[string]string{"clusters/a.yaml": cluster("a", "live", ", replaces: b"), "clusters/b.yaml": cluster("b", "live", ", replaces: a")}, "the clusters a and b replace each other"},
		"one by two":          {map[string]string{"clusters/b.yaml": cluster("b", "live", ", replaces: a"), "clusters/c.yaml": cluster("c", "live", ", replaces: a")}, "the clusters b and c both replace a"},
		"after a retired one": {map[string]string{"clusters/b.yaml": cluster("b", "live", ", state: retired, replaces: a"), "clusters/c.yaml": cluster("c", "live", ", replaces: a")}, ""},
		"one that is gone":    {map[string]string{"clusters/b.yaml": cluster("b", "live", ", replaces: old")}, "warning: the cluster old, which b replaces, does not exist"},
		"of another environment": {
			map[string]string{"clusters/b.yaml": strings.Replace(cluster("b", "live", ", replaces: a"), "environment: dev", "environment: prod", 1)},
			"the cluster b is in prod, and a, which it replaces, in dev",
		},
		"both with traffic": {map[string]string{"sluice.yaml": file(plain), "clusters/b.yaml": cluster("b", "live", ", replaces: a")}, ""},
		"both with exclusive traffic": {
			map[string]string{"sluice.yaml": file(exclusive), "clusters/b.yaml": cluster("b", "live", ", replaces: a")},
			"3:39: error: the clusters a and b would have the same traffic, which spec.traffic says is exclusive",
		},
		"nobody has exclusive traffic": {map[string]string{"sluice.yaml": file(exclusive), "clusters/a.yaml": cluster("a", "standby", ""), "clusters/b.yaml": cluster("b", "standby", ", replaces: a")}, ""},
		"retired too early": {
			map[string]string{"sluice.yaml": file(plain), "clusters/a.yaml": cluster("a", "live", ", state: retired"), "clusters/b.yaml": cluster("b", "standby", ", replaces: a")},
			"the cluster a is retired, and b, which replaces it, gets no traffic",
		},
		"detached":     {map[string]string{"sluice.yaml": file(plain), "clusters/a.yaml": cluster("a", "live", ", state: detached"), "clusters/b.yaml": cluster("b", "standby", ", replaces: a")}, ""},
		"no label":     {map[string]string{"sluice.yaml": file("  traffic: {label: trafick}\n")}, "5:20: error: no cluster has the label trafick, did you mean traffic? (correct it, give the label to a cluster or a class, or remove it)"},
		"no key":       {map[string]string{"sluice.yaml": file("  traffic: {label: a b}\n")}, `"a b" is not a label key`},
		"automatic":    {map[string]string{"sluice.yaml": file("  traffic: {label: cluster}\n")}, "every cluster has the label cluster already"},
		"equal values": {map[string]string{"sluice.yaml": file("  traffic: {label: traffic, live: standby}\n")}, `live and standby are both "standby"`},
		"no value":     {map[string]string{"sluice.yaml": file("  traffic: {label: traffic, standby: a b}\n")}, `"a b" cannot be the value of a label`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{
				"sluice.yaml": file(""), "clusters/a.yaml": cluster("a", "live", ""), "clusters/b.yaml": cluster("b", "standby", ""),
				"apps/web/app.yaml": fleettest.Base + "kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n",
			}
			maps.Copy(files, c.files)
			_, problems := Load(t.Context(), fleettest.NewTree(files), nil)
			var text string
			for _, p := range problems {
				text += p.String() + "\n"
			}
			if c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("the problems are %q, want %q", text, c.want)
			}
		})
	}
}

// A detached cluster has no targets, and is no part of its environment; what Sluice does to the branches of retired
// clusters does not concern it.
func TestDetached(t *testing.T) {
	t.Parallel()
	files := fleettest.Small()
	files["clusters/a.yaml"] = strings.Replace(files["clusters/a.yaml"], "spec: {", "spec: {state: detached, ", 1)
	f, problems := Load(t.Context(), fleettest.NewTree(files), nil)
	if f == nil {
		t.Fatal(problems)
	}
	a, _ := f.Cluster("a")
	if !a.Detached || !a.Retired() || len(f.TargetsOf(a)) > 0 {
		t.Errorf("detached %t, retired %t, targets %v", a.Detached, a.Retired(), f.TargetsOf(a))
	}
	if DeclaresCluster([]byte(files["clusters/a.yaml"]), "a") {
		t.Error("the file declares the cluster as active")
	}
	if f := loadManaged(t, map[string]string{"clusters/c.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c, labels: {capi: \"no\"}}\nspec: {environment: dev, state: detached}\n"}); f == nil {
		t.Error("a cluster that nothing describes cannot be detached")
	}
	_, problems = Load(t.Context(), fleettest.NewTree(managed(map[string]string{
		"clusters/a.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: a, labels: {capi: \"yes\"}}\nspec: {environment: dev, kubeVersion: 1.35.2, vars: {workers: 1}, state: detached}\n",
	})), nil)
	if want := "app workload describes the cluster a: its objects would be removed"; len(problems) == 0 || !strings.Contains(problems.Error(), want) {
		t.Errorf("the problems are %v, want %q", problems, want)
	}
}
