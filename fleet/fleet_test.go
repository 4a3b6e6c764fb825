package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

const (
	base      = fleettest.Base
	fleetYAML = fleettest.FleetFile
	linkTo    = fleettest.LinkTo
)

func cluster(name, environment, class, region, vars string) string {
	return fleettest.Cluster(name, environment, class, region, vars)
}

func small() map[string]string                       { return fleettest.Small() }
func tiny(extra map[string]string) map[string]string { return fleettest.Tiny(extra) }

func mapFS(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, data := range files {
		out[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return out
}

func load(tb testing.TB, files map[string]string) *Fleet {
	tb.Helper()
	f, problems := Load(tb.Context(), mapFS(files), NewCache())
	if err := problems.Err(); err != nil {
		tb.Fatal(err)
	}
	return f
}

func target(tb testing.TB, f *Fleet, cluster string) Target {
	tb.Helper()
	const app = "web"
	a, ok := f.App(app)
	c, ok2 := f.Cluster(cluster)
	if !ok || !ok2 {
		tb.Fatalf("no %s or %s", app, cluster)
	}
	return Target{a, c}
}

func TestValuesMergeInOrder(t *testing.T) {
	f := load(t, small())
	for cluster, want := range map[string]string{
		"a": `{"edge":null,"global":{"edge":true,"env":"dev"},"host":"a.x.org","list":[1,2],"m":{"a":1,"b":2},"replicas":3}`,
		"b": `{"global":{"env":"prod"},"host":"b.x.org","list":[3],"m":{"a":1,"b":null,"c":3,"d":4},"replicas":5}`,
	} {
		v, err := f.Values(target(t, f, cluster), "")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(v)
		if want = strings.Replace(want, `"edge":null,`, "", 1); string(got) != want {
			t.Errorf("%s: the value is %s, want %s", cluster, got, want)
		}
	}
}

func TestClassesAreInherited(t *testing.T) {
	f := load(t, small())
	c, _ := f.Cluster("a")
	if c.Labels["tier"] != "high" || c.Labels["class"] != "edge" || c.Labels["cluster"] != "a" ||
		c.KubeVersion != "1.33.2" || c.Vars["ip"] != "10.0.0.1" {
		t.Errorf("the result of Cluster is %+v", c)
	}
}

func TestProblemsAreAllReportedWithTheirPlace(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       []string
	}{
		"unknown key": {
			"apps/web/app.yaml", base +
				"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placment: {}, source: {helm: {path: x}}}\n",
			[]string{
				"apps/web/app.yaml:4:24", "unknown key spec.placment, did you mean placement?",
			},
		},
		"type": {
			"clusters/a.yaml", base +
				"kind: Cluster\nmetadata: {name: a, labels: [x]}\nspec: {environment: {}, apiVersions: x}\n",
			[]string{
				"clusters/a.yaml:3:29: error: metadata.labels must be a mapping",
				"spec.environment must be a string", "spec.apiVersions must be a list",
			},
		},
		"duplicate key": {
			"clusters/a.yaml", base +
				"kind: Cluster\nmetadata: {name: a}\nspec:\n  environment: dev\n  environment: prod\n",
			[]string{"clusters/a.yaml:6:3", "twice, first in line 5"},
		},
		"duplicate name": {
			"clusters/c.yaml", cluster("a", "dev", "edge", "eu", ""),
			[]string{"clusters/c.yaml:3:18: error: the cluster a is also in clusters/a.yaml:1"},
		},
		"environment": {
			"clusters/a.yaml", cluster("a", "prd", "edge", "eu", ""),
			[]string{`clusters/a.yaml:4:21: error: the environment "prd" does not exist, did you mean prod?`},
		},
		"class": {
			"clusters/a.yaml", cluster("a", "dev", "egde", "eu", ""),
			[]string{`the class "egde" does not exist, did you mean edge?`},
		},
		"parent cycle": {"clusters/classes.yaml", base +
			"kind: ClusterClass\nmetadata: {name: base}\nspec: {parent: edge}\n---\n" + base +
			"kind: ClusterClass\nmetadata: {name: edge}\nspec: {parent: base}\n", []string{"base → edge → base"}},
		"after": {
			"sluice.yaml", strings.Replace(fleetYAML, "after: [dev]", "after: [dve]", 1),
			[]string{`sluice.yaml:8:28: error: environment prod comes after "dve", which does not exist, did you mean dev?`},
		},
		"after cycle": {
			"sluice.yaml", strings.Replace(fleetYAML, "name: dev", "{name: dev, after: [prod]}", 1),
			[]string{"wait for each other"},
		},
		"enum": {"clusters/a.yaml", strings.Replace(cluster("a", "dev", "edge", "eu", ""), "spec: {",
			"spec: {state: frozn, ", 1), []string{`unknown value "frozn", did you mean frozen?`}},
		"kind": {
			"clusters/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
			[]string{"clusters/x.yaml:1:13", "narrow spec.files"},
		},
		"no YAML": {"clusters/a.yaml", "a: [\n", []string{"clusters/a.yaml:"}},
		"label": {
			"clusters/a.yaml", base +
				"kind: Cluster\nmetadata: {name: a, labels: {class: x, region: ../..}}\nspec: {environment: dev}\n",
			[]string{"has the label class automatically", `"../.." cannot be the value of a label`},
		},
		"name": {
			"clusters/a.yaml", cluster("../a", "dev", "edge", "eu", ""),
			[]string{`"../a" cannot be a name`},
		},
		"path": {"apps/web/app.yaml", base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: w, placement: {}, source: {kustomize: {path: ../x}}}\n", []string{"leaves the repository"}},
		"two kinds": {"apps/web/app.yaml", base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: w, placement: {}, source: {kustomize: {}, manifests: {}}}\n", []string{"exactly one of helm, kustomize and manifests"}},
		"repo": {"apps/web/app.yaml", base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: w, placement: {}, source: {helm: {chart: x, version: 1.0.0}}}\n", []string{`chart "x" needs repo`}},
		"reference": {"apps/web/app.yaml", base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: \"${cluster.nam}\", placement: {}, source: {manifests: {}}}\n", []string{"${cluster.nam} is not a reference"}},
		"branch template": {
			"sluice.yaml", fleetYAML +
				"  output: {environmentBranch: env, clusterBranch: \"env/x ${cluster.name}\"}\n",
			[]string{"every environment would have", "not a branch name"},
		},
		"selector": {"apps/web/app.yaml", base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: w, placement: {matchExpressions: [{key: a, operator: In}]}, source: {manifests: {}}}\n", []string{"In on a"}},
		"deletions": {
			"sluice.yaml", fleetYAML + "  safety: {maxDeletions: many}\n",
			[]string{`"many" is neither`},
		},
	} {
		files := small()
		files[c.file] = c.text
		_, problems := Load(t.Context(), mapFS(files), NewCache())
		got := problems.Error()
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got\nthe error is\n%s\nwant %q", name, got, want)
			}
		}
	}
}

func TestReferences(t *testing.T) {
	files := small()
	files["clusters/a.yaml"] = cluster("a", "dev", "edge", "eu", `ip: 10.0.0.1, repo: {web: "https://web.example.com"}`)
	files["apps/web/app.yaml"] = strings.Replace(files["apps/web/app.yaml"], "placement:",
		"vars: {team: core}, placement:", 1)
	f := load(t, files)
	tgt := target(t, f, "a")
	for in, want := range map[string]any{
		"${cluster.vars.size}":          int64(3),
		"n${cluster.vars.size}":         "n3",
		"${cluster.name}/${app}":        "a/web",
		"${environment}":                "dev",
		"${HOME} ${ENVIRONMENT} ${apps": "${HOME} ${ENVIRONMENT} ${apps",
		"${api} ${cluster_name} ${app.version} ${app_name:-x} ${clusterip} ${map}": "${api} ${cluster_name} ${app.version} ${app_name:-x} ${clusterip} ${map}",
		"${cluster.vars.repo.${app}:=none}":                                        "https://web.example.com",
		"${cluster.vars.repo.${environment}:=none}":                                "none",
		"${cluster.vars.${cluster.labels.region:=x}:=none}":                        "none",
		"${cluster.vars.repo.${cluster.vars.nope:=web}}":                           "https://web.example.com",
		"${app.vars.team} ${app.vars.port:=1}":                                     "core 1",
		"$${cluster.name} $${HOME}":                                                "${cluster.name} ${HOME}",
		"${cluster.vars.x:=7}":                                                     int64(7),
		"${cluster.vars.x:=a b}-":                                                  "a b-",
		"${cluster.vars.x:=}":                                                      "",
		"${cluster.vars.x:={}}":                                                    map[string]any{},
		"${cluster.vars.x:={a: {b: 1}}}":                                           map[string]any{"a": map[string]any{"b": int64(1)}},
		"${cluster.vars.x:=${HOME}}}":                                              "${HOME}}",
		"${cluster.labels.region}":                                                 "eu",
	} {
		got, err := tgt.replace(in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the result of replace is %#v, the error is %v, want %#v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"${cluster.vars.x}": "which has the vars domain, ip, repo, size", "${cluster.x}": "is not a reference",
		"${cluster.name":   "no closing }",
		"${clusters.name}": "did you mean ${cluster.name}?", "${enviroment}": "did you mean ${environment}?",
		"${environments}": "did you mean ${environment}?",
		"${cluster}":      "did you mean ${cluster.name}?", "${clusterName}": "did you mean ${cluster.name}?",
		"${apps}": "did you mean ${app}?", "${app.name}": "did you mean ${app}?",
		"${app.var.team}":         "did you mean ${app.vars.team}?",
		"${cluster.label.region}": "did you mean ${cluster.labels.region}?",
		"${Cluster.vars.ip}":      "did you mean ${cluster.vars.ip}?",
		"${enviroment:-x}":        "did you mean ${environment}?",
		"${app.vars.x}":           "is not set for app web, which has the vars team",
		"${cluster.vars.repo.${cluster.vars.nope}:=none}": "${cluster.vars.nope} is not set",
		"${cluster.${app}}":                        "is not a reference",
		"${cluster.vars.repo.${enviroment}:=none}": "did you mean ${environment}?",
		"${cluster.vars.x:={}":                     "no closing }",
		"${cluster.vars.x:=${app}}":                "cannot hold a reference",
	} {
		if _, err := tgt.replace(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", in, err)
		}
	}
	files = small()
	files["apps/web/layers/region/us/values.yaml"] = "a: b\nc:\n  - ${cluster.vars.nope}\n"
	broken := load(t, files)
	_, err := broken.Values(target(t, broken, "b"), "")
	if err == nil || !strings.Contains(err.Error(), "apps/web/layers/region/us/values.yaml:3:5") ||
		!strings.Contains(err.Error(), "cluster b") {
		t.Errorf("the error is %v", err)
	}
}

// An unquoted scalar that is one reference keeps the variable's type. A quoted one is a string, wherever it is;
// !typed gives quoted scalars the type, for flow YAML.
func TestQuotesMakeText(t *testing.T) {
	files := small()
	files["apps/web/layers/global/values.yaml"] = `plain: ${cluster.vars.size}
double: "${cluster.vars.size}"
single: '${cluster.vars.size}'
folded: >-
  ${cluster.vars.size}
flow: {quoted: "${cluster.vars.size}", typed: !typed "${cluster.vars.size}"}
list: ["${cluster.vars.size}", !typed '${cluster.vars.size}']
block:
  - ${cluster.vars.size}
  - "${cluster.vars.size}"
base: &base {deep: "${cluster.vars.size}"}
merged:
  <<: *base
alias: *base
on: "${cluster.vars.size}"
map: ${cluster.vars.map}
`
	files["clusters/a.yaml"] = cluster("a", "dev", "edge", "eu", "map: {k: 1}")
	f := load(t, files)
	got, err := f.Values(target(t, f, "a"), "")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"plain": 3.0, "double": "3", "single": "3", "folded": "3", "flow": map[string]any{"quoted": "3", "typed": 3.0},
		"list":  []any{"3", 3.0},
		"block": []any{3.0, "3"}, "base": map[string]any{"deep": "3"}, "merged": map[string]any{"deep": "3"},
		"alias": map[string]any{"deep": "3"},
		"true":  "3", "map": map[string]any{"k": 1.0}, "global": map[string]any{"env": "dev", "edge": true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("  the result of Values is %#v\nwant %#v", got, want)
	}
	files["apps/web/layers/global/values.yaml"] = "a:\n  b: \"${cluster.vars.map}\"\n"
	f = load(t, files)
	if _, err := f.Values(target(t, f, "a"), ""); err == nil || !strings.Contains(err.Error(), "values.yaml:2:6") ||
		!strings.Contains(err.Error(), "is not a scalar") {
		t.Errorf("a mapping in quotes: %v", err)
	}
}

func FuzzReferences(f *testing.F) {
	for _, s := range []string{"${cluster.name}", "$${x}", "a${b", "${app:=x}", "${cluster.vars.a.b}", "$$${app}"} {
		f.Add(s)
	}
	fleet := load(f, small())
	tgt := target(f, fleet, "a")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := tgt.replace(s)
		if err != nil {
			return
		}
		if !strings.Contains(s, "${") && got != s && s != "" {
			t.Fatalf("%q became %v", s, got)
		}
		escaped := strings.ReplaceAll(s, "${", "$${")
		if back, err := tgt.replace(escaped); err != nil || back != s && !strings.Contains(s, "$${") {
			t.Fatalf("%q escaped came back as %v %v", s, back, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, text := range small() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		decoded := decodeFile("x.yaml", data)
		if len(decoded.documents) == 0 && len(decoded.problems) == 0 {
			t.Fatal("a file without documents or problems")
		}
		for _, d := range decoded.documents {
			if d.value == nil || d.root == nil {
				t.Fatal("a document without a value")
			}
		}
	})
}

func TestComponentFile(t *testing.T) {
	f := load(t, small())
	got, err := target(t, f, "a").ComponentFile("kustomization.yaml",
		[]byte("kind: Component\npatches:\n- patch: |-\n    - op: replace\n      path: /spec/replicas\n      value: ${cluster.vars.size}\n    - op: add\n      path: /x\n      value: on-${cluster.name}\n"))
	if err != nil || !strings.Contains(string(got), "value: 3\n") || !strings.Contains(string(got), "value: on-a") {
		t.Errorf("the result of ComponentFile is %s, the error is %v", got, err)
	}
	comment := []byte("# ${cluster.name}\n")
	if got, err := target(t, f, "a").ComponentFile("p.yaml", comment); err != nil || string(got) != string(comment) {
		t.Errorf("the result of ComponentFile is %s, the error is %v", got, err)
	}
	same := []byte("a:   b # ${HOME} is none of ours?\n")
	if got, err := target(t, f, "a").ComponentFile("x.txt", same); err != nil || string(got) != string(same) {
		t.Errorf("the result of ComponentFile is %s, the error is %v", got, err)
	}
}

func TestRepositoriesOfOthersKeepTheirLayout(t *testing.T) {
	f := load(t, map[string]string{
		"sluice.yaml": base + "kind: Fleet\nmetadata: {name: x}\nspec:\n  files: {clusters: [\"infra/**/*.cluster.yaml\"], apps: [fleet/apps.yaml]}\n" +
			"  layers:\n  - {name: environment, values: [\"charts/${app}/values-${environment}.yaml\"], components: [\"overlays/${environment}/${app}\"]}\n  environments: [{name: dev}, {name: prod, after: [dev]}]\n",
		"infra/eu/a.cluster.yaml": base + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
		"fleet/apps.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: w, placement: {}, source: {helm: {path: \"charts/${app}\"}}}\n",
		"charts/web/values-dev.yaml":          "a: 1\n",
		"charts/web/values-prod.yaml":         "a: 2\n",
		"overlays/dev/web/kustomization.yaml": "kind: Component\n",
	})
	tgt := target(t, f, "a")
	v, err := f.Values(tgt, "")
	if err != nil || v["a"] != 1.0 {
		t.Errorf("the result of Values is %v, the error is %v", v, err)
	}
	if c := f.Components(tgt); len(c) != 1 || c[0].Path != "overlays/dev/web" {
		t.Errorf("the result of Components is %v", c)
	}
	r, err := f.Resolve(tgt)
	if err != nil || r.Sources[0].Helm.Path != "charts/web" || r.Sources[0].Helm.ReleaseName != "web" {
		t.Errorf("the result of Resolve is %+v, the error is %v", r, err)
	}
}

// Edits a fleet at random. Affected must have listed every target whose key changes.
func TestAffectedIsASuperset(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 7))
		before := generated(6, 3)
		after := maps.Clone(before)
		var changed []string
		for range 1 + r.IntN(3) {
			changed = append(changed, edit(r, after))
		}
		cache := NewCache()
		base, problems := Load(t.Context(), mapFS(before), cache)
		if base == nil {
			t.Fatal(problems)
		}
		head, _ := Load(t.Context(), mapFS(after), cache)
		if head == nil {
			continue // the edit made the fleet invalid
		}
		named := map[string]bool{}
		for _, a := range Affected(base, head, changed, reachPath) {
			named[a.Cluster+"/"+a.App] = true
		}
		x, y := keys(t, base, before), keys(t, head, after)
		for k := range x {
			if x[k] != y[k] && !named[k] {
				t.Errorf("seed %d: %v: %s changed and was not named", seed, changed, k)
			}
		}
		for k := range y {
			if x[k] != y[k] && !named[k] {
				t.Errorf("seed %d: %v: %s changed and was not named", seed, changed, k)
			}
		}
	}
}

func reachPath(_ *Fleet, s Source) []string {
	switch {
	case s.Helm != nil:
		return []string{s.Helm.Path}
	default:
		return []string{s.Manifests.Path}
	}
}

func keys(t *testing.T, f *Fleet, files map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, tgt := range f.Targets() {
		key, err := f.AppendKey(nil, tgt)
		if err != nil {
			key = []byte(err.Error())
		}
		r, _ := f.Resolve(tgt)
		for _, s := range r.Sources {
			for _, p := range reachPath(f, s) {
				for _, name := range sortedKeys(files) {
					if isBelow(name, p) {
						key = append(key, name+files[name]...)
					}
				}
			}
		}
		out[tgt.String()] = string(key)
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func edit(r *rand.Rand, files map[string]string) string {
	names := sortedKeys(files)
	name := names[r.IntN(len(names))]
	switch r.IntN(6) {
	case 0:
		if name != "sluice.yaml" {
			delete(files, name)
		}
	case 1:
		name = fmt.Sprintf("apps/app-%d/layers/cluster/c-%d/values.yaml", r.IntN(3), r.IntN(6))
		files[name] = fmt.Sprintf("v: %d\n", r.IntN(100))
	case 2:
		name = fmt.Sprintf("layers/region/r%d/values.yaml", r.IntN(3))
		files[name] = fmt.Sprintf("v: %d\n", r.IntN(100))
	default:
		files[name] = strings.NewReplacer("region: r0", "region: r1", "x: 1", "x: 2", "path: ", "path: other/", "v: 1",
			"v: 3").Replace(files[name]) + "\n# edited\n"
	}
	return name
}

// generated returns a fleet of many clusters and apps.
func generated(clusters, apps int) map[string]string {
	files := map[string]string{
		"sluice.yaml": fleetYAML, "clusters/classes.yaml": small()["clusters/classes.yaml"],
		"layers/global/values.yaml": "v: 1\n",
	}
	for i := range clusters {
		env := "dev"
		if i%2 == 1 {
			env = "prod"
		}
		name := fmt.Sprintf("c-%d", i)
		files["clusters/"+name+".yaml"] = fmt.Sprintf("%skind: Cluster\nmetadata:\n  name: %s\n  labels:\n    region: r%d\nspec:\n  environment: %s\n  class: edge\n  vars:\n    x: 1\n    ip: 10.0.0.%d\n    domain: c%d.example.com\n", base, name, i%3, env, i%256, i)
	}
	for i := range apps {
		name := fmt.Sprintf("app-%d", i)
		source := "helm: {path: charts/" + name + "}"
		if i%3 == 2 {
			source = "manifests: {path: \"m/${environment}\"}"
		}
		files["apps/"+name+"/app.yaml"] = fmt.Sprintf("%skind: App\nmetadata: {name: %s}\nspec:\n  namespace: n\n  placement: {}\n  source: {%s}\n", base, name, source)
		files["apps/"+name+"/layers/global/values.yaml"] = "v: 1\nip: ${cluster.vars.ip}\nm: {a: 1, b: 2, c: [1, 2]}\n"
		files["apps/"+name+"/layers/region/r1/values.yaml"] = "v: 1\n"
		files["charts/"+name+"/Chart.yaml"] = "name: x\n"
	}
	files["m/dev/a.yaml"], files["m/prod/a.yaml"] = "a", "b"
	return files
}

func BenchmarkFleet(b *testing.B) {
	tree := mapFS(generated(1000, 20))
	cache := NewCache()
	f, problems := Load(b.Context(), tree, cache)
	if f == nil {
		b.Fatal(problems)
	}
	targets := f.Targets()
	b.Run("load cold", func(b *testing.B) {
		for b.Loop() {
			if f, problems := Load(b.Context(), tree, NewCache()); f == nil {
				b.Fatal(problems)
			}
		}
	})
	b.Run("load warm", func(b *testing.B) {
		for b.Loop() {
			if f, problems := Load(b.Context(), tree, cache); f == nil {
				b.Fatal(problems)
			}
		}
	})
	b.Run("place", func(b *testing.B) {
		for b.Loop() {
			f.Targets()
		}
	})
	b.Run("values", func(b *testing.B) {
		for b.Loop() {
			for _, tgt := range targets {
				if _, err := f.Values(tgt, ""); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
