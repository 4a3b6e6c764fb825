package fleet

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"testing"
)

// sharedFleet has apps of each kind for which targets can, or must not, share what they take from the fleet.
func sharedFleet() map[string]string {
	files := map[string]string{
		"sluice.yaml": base + `kind: Fleet
metadata: {name: f}
spec:
  layers:
    - environment
    - {name: tier, values: ["tiers/${app}/${cluster.labels.tier}-${environment}.yaml"]}
    - region
    - cluster
  environments: [{name: dev}, {name: prod}]
`,
		"workspaces/team.yaml": base +
			"kind: Workspace\nmetadata: {name: team}\nspec:\n  path: teams/team\n  clusters: {}\n  namespaces: [team, team-*]\n",
		"teams/team/apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec:\n  placement: {}\n  namespace: team\n  skipLayers: [region]\n  source: {helm: {path: chart}}\n",
		"teams/team/layers/region/r1/x":        "",
		"layers/region/r0/values.yaml":         "a: 0\n",
		"layers/region/r1/values.yaml":         "a: 1\n",
		"layers/environment/dev/values.yaml":   "e: ${environment}\n",
		"tiers/plain/gold-dev.yaml":            "tier: gold\n",
		"tiers/plain/gold-prod.yaml":           "tier: ${cluster.name}\n",
		"versions/c0.yaml":                     "version: 1.0.0\n",
		"versions/c1.yaml":                     "version: 2.0.0\n",
		"apps/plain/layers/region/r1/v":        "",
		"apps/valued/layers/cluster/c3/v":      "",
		"charts/a/Chart.yaml":                  "name: a\nversion: 1.0.0\n",
		"apps/plain/layers/global/values.yaml": "x: ${cluster.vars.n}\n",
	}
	app := func(name, rest string) {
		files["apps/"+name+"/app.yaml"] = base + "kind: App\nmetadata: {name: " + name +
			"}\nspec:\n  placement: {}\n  namespace: " + rest + "\n"
	}
	app("plain", "plain\n  source: {helm: {path: charts/a}}")
	app("named", "${cluster.name}\n  source: {helm: {path: charts/a}}")
	app("refers", "refers\n  source: {helm: {path: \"charts/${cluster.labels.region}\"}}")
	app("skips", "skips\n  skipLayers: [region, environment]\n  source: {helm: {path: charts/a}}")
	app("varied", "varied\n  source: {helm: {path: charts/a}}\n  environments:\n    prod: {sources: [{name: b, helm: {path: charts/b}}]}")
	app("file", "file\n  source: {helm: {chart: x, repo: \"https://charts.example.com\", versionFrom: {file: \"versions/${cluster.name}.yaml\", key: version}}}")
	app("valued", "valued\n  source: {helm: {chart: x, repo: \"https://charts.example.com\", versionFrom: {value: chart.version}}}")
	for i := range 4 {
		files[fmt.Sprintf("clusters/c%d.yaml",
			i)] = fmt.Sprintf("%skind: Cluster\nmetadata: {name: c%d, labels: {region: r%d, tier: %s}}\nspec: {environment: %s, vars: {n: %d}}\n",
			base, i, i%2, []string{"gold", "iron"}[i/2], []string{"dev", "prod"}[i%2], i)
		files[fmt.Sprintf("apps/valued/layers/cluster/c%d/values.yaml", i)] = fmt.Sprintf("chart: {version: %d.0.0}\n",
			i+1)
		files[fmt.Sprintf("layers/region/r%d/values.b.yaml", i%2)] = "b: 1\n"
	}
	return files
}

// Targets share what they take from the fleet, and each takes what it takes alone.
func TestTargetsShareWhatIsEqual(t *testing.T) {
	t.Parallel()
	files := sharedFleet()
	all := mustLoad(t, files, NewCache())
	differ := map[string]map[string]bool{} // keys, by app
	for range 2 {                          // the second time, everything is shared
		for _, target := range all.Targets() {
			alone := mustLoad(t, files, NewCache())
			cluster, _ := alone.Cluster(target.Cluster.Name)
			app, _ := alone.App(target.App.Name)
			want, wantErr := alone.Select(Target{App: app, Cluster: cluster})
			got, gotErr := all.Select(target)
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got.Values, want.Values) &&
				len(got.Values)+len(want.Values) > 0 || !reflect.DeepEqual(got.Resolved, want.Resolved) {
				t.Fatalf("%s: the resolved is %+v, the got err is %v\nwant %+v, want %v", target, got.Resolved, gotErr,
					want.Resolved, wantErr)
			}
			x, err := all.AppendKey(nil, target)
			y, second := alone.AppendKey(nil, Target{App: app, Cluster: cluster})
			if err != nil && gotErr == nil || second != nil && wantErr == nil || !bytes.Equal(x, y) {
				t.Fatalf("%s: key %q %v\nwant %q %v", target, x, err, y, second)
			}
			if differ[target.App.Name] == nil {
				differ[target.App.Name] = map[string]bool{}
			}
			differ[target.App.Name][string(x)] = true
		}
	}
	got := map[string]int{}
	for app, keys := range differ {
		got[app] = len(keys)
	}
	if want := map[string]int{
		"plain": 4, "named": 4, "refers": 2, "skips": 1, "varied": 2, "file": 3, "valued": 4,
		"team/web": 2,
	}; !maps.Equal(got, want) {
		t.Errorf("different keys: %v, want %v", got, want)
	}
	plain, _ := all.App("skips")
	x, _ := all.Select(Target{App: plain, Cluster: all.Clusters[0]})
	y, _ := all.Select(Target{App: plain, Cluster: all.Clusters[2]})
	if &x.Sources[0] != &y.Sources[0] || x.spec == nil {
		t.Error("two clusters with the same sources do not share them")
	}
}
