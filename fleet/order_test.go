package fleet

import (
	"maps"
	"strings"
	"testing"
)

func orderedApp(name, placement, dependsOn string) string {
	return base + "kind: App\nmetadata: {name: " + name + "}\nspec:\n  namespace: x\n  placement: " + placement +
		"\n  source: {manifests: {path: m}}\n  dependsOn: " + dependsOn + "\n"
}

func ordered() map[string]string {
	files := small()
	files["m/x.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	files["apps/crds/app.yaml"] = orderedApp("crds", "{}", "[]")
	files["apps/mesh/app.yaml"] = orderedApp("mesh", "{matchLabels: {region: eu}}", "[crds]")
	files["apps/shop/app.yaml"] = orderedApp("shop", "{}", "[mesh, crds]")
	return files
}

func TestDependenciesFollowPlacement(t *testing.T) {
	f := load(t, ordered())
	for cluster, want := range map[string]struct {
		shop  string
		steps map[string]int
	}{
		"a": {"crds mesh", map[string]int{"crds": 0, "mesh": 1, "shop": 2, "web": 0}},
		"b": {"crds", map[string]int{"crds": 0, "shop": 1, "web": 0}},
	} {
		c, _ := f.Cluster(cluster)
		shop, _ := f.App("shop")
		var got []string
		for _, a := range f.Dependencies(Target{App: shop, Cluster: c}) {
			got = append(got, a.Name)
		}
		if strings.Join(got, " ") != want.shop {
			t.Errorf("%s: shop depends on %v, want %s", cluster, got, want.shop)
		}
		if got := f.Steps(c); !maps.Equal(got, want.steps) {
			t.Errorf("%s: steps are %v, want %v", cluster, got, want.steps)
		}
	}
}

func TestBrokenOrdersAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ app, dependsOn, want string }{
		"unknown": {
			"shop", "[crds, mehs]",
			`apps/shop/app.yaml:8:21: error: app shop depends on "mehs", which does not exist, did you mean mesh?`,
		},
		"twice":  {"shop", "[crds, crds]", "apps/shop/app.yaml:8:21: error: app shop depends on crds twice"},
		"itself": {"shop", "[shop]", "apps/shop/app.yaml:8:14: error: apps wait for each other: shop → shop"},
		"cycle": {
			"crds", "[shop]",
			"apps/crds/app.yaml:8:14: error: apps wait for each other: crds → shop → mesh → crds",
		},
		"type": {"shop", "crds", "spec.dependsOn must be a list"},
	} {
		files := ordered()
		placement := map[string]string{"shop": "{}", "crds": "{}"}[c.app]
		files["apps/"+c.app+"/app.yaml"] = orderedApp(c.app, placement, c.dependsOn)
		if _, problems := Load(t.Context(), mapFS(files), nil); !strings.Contains(problems.Error(), c.want) {
			t.Errorf("%s: got\nthe error is\n%s\nwant %q", name, problems.Error(), c.want)
		}
	}
}

// A change of dependsOn renders nothing: every key stays the same, and no target is affected.
func TestOrderChangesNoRendering(t *testing.T) {
	files := ordered()
	before := load(t, files)
	files["apps/shop/app.yaml"] = orderedApp("shop", "{}", "[]")
	after := load(t, files)
	targets := before.Targets()
	if len(targets) != 7 {
		t.Fatalf("%d targets", len(targets))
	}
	for i, target := range after.Targets() {
		x, err := before.AppendKey(nil, targets[i])
		if err != nil {
			t.Fatal(err)
		}
		y, err := after.AppendKey(nil, target)
		if err != nil || string(x) != string(y) {
			t.Errorf("%s: the key changed: %v", target, err)
		}
	}
	shop, _ := after.App("shop")
	other, _ := before.App("shop")
	if !sameApp(shop, other) {
		t.Error("another order counts as another rendering")
	}
	shop.Spec.Namespace = "y"
	if sameApp(shop, other) {
		t.Error("another namespace does not count")
	}
}

// Environments come after all that they come after, whatever the file's order is, and otherwise keep it.
func TestEnvironmentsInPromotionOrder(t *testing.T) {
	var list []Environment
	for _, e := range []string{"prod after staging qa", "lab", "staging after dev", "dev", "qa after dev"} {
		name, after, _ := strings.Cut(e, " after ")
		list = append(list, Environment{Name: name, After: strings.Fields(after)})
	}
	var got []string
	for _, e := range inPromotionOrder(list) {
		got = append(got, e.Name)
	}
	if want := "lab dev staging qa prod"; strings.Join(got, " ") != want {
		t.Errorf("order of the environments: got %v, want %s", got, want)
	}
	files := small()
	files[File] = base + "kind: Fleet\nmetadata: {name: f}\nspec: {trunk: main, environments: [{name: prod, after: [dev]}, {name: dev}]}\n"
	f, problems := Load(t.Context(), mapFS(files), NewCache())
	if f == nil {
		t.Fatalf("the fleet does not load: %v", problems)
	}
	if names := f.environmentNames(); strings.Join(names, " ") != "dev prod" {
		t.Errorf("environments of the loaded fleet: got %v, want dev prod", names)
	}
}
