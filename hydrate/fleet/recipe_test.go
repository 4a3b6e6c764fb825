package fleet

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestRecipe(t *testing.T) {
	f := load(t, small())
	got, err := f.Recipe(target(t, f, "a"))
	if err != nil {
		t.Fatal(err)
	}
	wantFiles := []LayerFile{
		{Layer: "global", Path: "layers/global/values.yaml", FleetWide: true},
		{Layer: "global", Path: "apps/web/layers/global/values.yaml"},
		{Layer: "class", Value: "edge", Path: "layers/class/edge/values.yaml", FleetWide: true},
	}
	if !reflect.DeepEqual(got.Values, wantFiles) {
		t.Errorf("got %+v", got.Values)
	}
	wantRefs := []Reference{
		{"${cluster.name}", "a"}, {"${cluster.vars.domain}", "x.org"}, {"${cluster.vars.size}", int64(3)}, {"${environment}", "dev"},
	}
	if !reflect.DeepEqual(got.References, wantRefs) {
		t.Errorf("got %+v", got.References)
	}
	if got.KubeVersion != "1.33.2" || got.Namespace != "web" || got.Sources[0].Helm.ReleaseName != "web" || got.Components != nil {
		t.Errorf("got %+v", got)
	}
}

func TestRecipeLeavesOutWhatIsOnlyInComments(t *testing.T) {
	f := mustLoad(t, tiny(map[string]string{
		"apps/web/layers/global/values.yaml": "# ${cluster.vars.gone}\na: $${cluster.vars.gone}\nb: ${cluster.vars.gone:=x}\n",
	}), NewCache())
	got, err := f.Recipe(tinyTarget(t, f, "a"))
	if want := []Reference{{"${cluster.vars.gone:=x}", "x"}}; err != nil || !reflect.DeepEqual(got.References, want) {
		t.Errorf("%+v %v", got.References, err)
	}
}

// TestKeysAndRecipesAgree holds that two targets of one fleet, whose files are the same, have equal keys if their recipes
// are equal, and other keys if not.
func TestKeysAndRecipesAgree(t *testing.T) {
	files := foreignFleet()
	files["infra/z0/c0b.yaml"] = base + "kind: Cluster\nmetadata: {name: c0b, labels: {example.com/zone: z0}}\nspec: {environment: dev, vars: {file: f}}\n"
	files["charts/one/values-dev.main.yaml"] = "b: 1\n"
	delete(files, "env/c1.yaml")
	f := mustLoad(t, files, NewCache())
	type both struct{ key, recipe string }
	var all []both
	for _, target := range f.Targets() {
		key, err := f.AppendKey(nil, target)
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.Recipe(target)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range [][]LayerFile{r.Values, r.Components} {
			for i := range list {
				list[i].Layer, list[i].Value = "", "" // the way to a file changes no rendering
			}
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, both{string(key), string(text)})
	}
	equal := 0
	for i, x := range all {
		for _, y := range all[:i] {
			if (x.key == y.key) != (x.recipe == y.recipe) {
				t.Errorf("keys %q\n%q\nrecipes %s\n%s", x.key, y.key, x.recipe, y.recipe)
			}
			if x.key == y.key {
				equal++
			}
		}
	}
	if equal == 0 {
		t.Error("no two targets are alike: the test compares nothing")
	}
}

func BenchmarkRecipe20000(b *testing.B) {
	f := mustLoad(b, bigFleet(), NewCache())
	targets := f.Targets()
	for b.Loop() {
		for _, t := range targets {
			if _, err := f.Recipe(t); err != nil {
				b.Fatal(err)
			}
		}
	}
}
