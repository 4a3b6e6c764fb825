package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

const describing = fleettest.Base + `kind: App
metadata: {name: workload}
spec:
  namespace: clusters
  placement: {matchLabels: {role: management}}
  forEach: {clusters: {matchLabels: {capi: "yes"}}}
  source: {helm: {path: charts/workload, releaseName: "${each.name}"}}
`

// managed is a fleet with a management cluster that describes two of three others.
func managed(extra map[string]string) map[string]string {
	described := func(name, capi, version string) string {
		return fmt.Sprintf("%skind: Cluster\nmetadata: {name: %s, labels: {capi: %q, zone: z-%[2]s}}\nspec: {environment: dev, kubeVersion: %[4]s, vars: {workers: 3}}\n",
			fleettest.Base, name, capi, version)
	}
	files := map[string]string{
		"sluice.yaml": fleettest.Base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [cluster]\n  environments: [{name: dev}, {name: mgmt, after: [dev]}]\n",
		"clusters/m.yaml": fleettest.Base +
			"kind: Cluster\nmetadata: {name: m, labels: {role: management}}\nspec: {environment: mgmt}\n",
		"clusters/a.yaml":        described("a", "yes", "v1.35.2"),
		"clusters/b.yaml":        described("b", "yes", "1.35.2"),
		"clusters/c.yaml":        described("c", "no", "1.35.2"),
		"apps/workload/app.yaml": describing,
		"apps/workload/layers/global/values.yaml": "version: v${each.kubeVersion}\nworkers: ${each.vars.workers}\nzone: ${each.labels.zone}\n" +
			"environment: ${each.environment}\nwhere: ${cluster.name}\napp: ${app}\nterraform: ${each.key} ${each.value}\n",
	}
	maps.Copy(files, extra)
	maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
	return files
}

func loadManaged(t *testing.T, extra map[string]string) *Fleet {
	t.Helper()
	f, problems := Load(t.Context(), fleettest.NewTree(managed(extra)), nil)
	if f == nil {
		t.Fatal(problems)
	}
	return f
}

func TestForEach(t *testing.T) {
	t.Parallel()
	f := loadManaged(t, nil)
	var names []string
	for _, target := range f.Targets() {
		names = append(names, target.String())
	}
	if want := []string{"m/workload.a", "m/workload.b"}; !slices.Equal(names, want) {
		t.Fatalf("targets %v, want %v", names, want)
	}
	target := f.Targets()[0]
	if target.App.Describes().Name != "a" || target.App.Declared() != "workload" {
		t.Errorf("it describes %s as %s", target.App.Describes().Name, target.App.Declared())
	}
	values, err := f.Values(target, "")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"version": "v1.35.2", "workers": int64(3), "zone": "z-a", "environment": "dev", "where": "m", "app": "workload",
		"terraform": "${each.key} ${each.value}",
	} {
		if fmt.Sprint(values[key]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", key, values[key], want)
		}
	}
	resolved, err := f.Resolve(target)
	if err != nil || resolved.Sources[0].Helm.ReleaseName != "a" {
		t.Errorf("the release is %+v, %v", resolved.Sources, err)
	}
	if claims := Claims(f, f, []string{"apps/workload/app.yaml", "apps/workload/layers/global/values.yaml"}, foreignReach); claims["apps/workload/app.yaml"] != ClaimedByDeclaration || claims["apps/workload/layers/global/values.yaml"] != ClaimedByTarget {
		t.Errorf("the claims are %v", claims)
	}
}

// A file that declares classes alone is none that nobody reads.
func TestClaimsOfClasses(t *testing.T) {
	t.Parallel()
	const file = "clusters/classes.yaml"
	head := loadManaged(t, map[string]string{file: fleettest.Base + "kind: ClusterClass\nmetadata: {name: k}\nspec: {kubeVersion: 1.36.0}\n"})
	if claim := Claims(loadManaged(t, nil), head, []string{file}, foreignReach)[file]; claim != ClaimedByDeclaration {
		t.Errorf("the claim is %q", claim)
	}
}

func TestSkipsMinor(t *testing.T) {
	t.Parallel()
	for versions, want := range map[[2]string]string{
		{"1.35.2", "1.36.0"}: "", {"1.35.2", "1.37.0"}: "1.36", {"v1.35", "v1.38.0"}: "1.36", {"1.37.0", "1.35.2"}: "",
		{"", "1.37.0"}: "", {"1.35.2", ""}: "", {"1.9.0", "1.11.0"}: "1.10", {"1.35.2", "2.0.0"}: "",
	} {
		if got, skips := SkipsMinor(versions[0], versions[1]); got != want || skips != (want != "") {
			t.Errorf("%v: %q, %t, want %q", versions, got, skips, want)
		}
	}
}

// A change of one described cluster concerns its objects alone.
func TestAffectedOfDescribedClusters(t *testing.T) {
	t.Parallel()
	before := managed(nil)
	change := func(name, from, to string) map[string]string {
		return map[string]string{name: strings.Replace(before[name], from, to, 1)}
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"version":   {change("clusters/a.yaml", "1.35.2", "1.36.0"), "[{m workload.a changed}]"},
		"variable":  {change("clusters/b.yaml", "workers: 3", "workers: 4"), "[{m workload.b changed}]"},
		"selected":  {change("clusters/c.yaml", `"no"`, `"yes"`), "[{m workload.c added}]"},
		"retired":   {change("clusters/b.yaml", "dev, kube", "dev, state: retired, kube"), "[{m workload.b removed}]"},
		"gone":      {map[string]string{"clusters/a.yaml": ""}, "[{m workload.a removed}]"},
		"unrelated": {change("clusters/c.yaml", "1.35.2", "1.36.0"), "[]"},
		"layer": {
			map[string]string{"apps/workload/layers/global/values.yaml": "a: 1\n"},
			"[{m workload.a changed} {m workload.b changed}]",
		},
		"no forEach": {
			change("apps/workload/app.yaml", "  forEach: {clusters: {matchLabels: {capi: \"yes\"}}}\n", ""),
			"[{m workload added} {m workload.a removed} {m workload.b removed}]",
		},
		"narrower": {
			change("apps/workload/app.yaml", "matchLabels: {capi: \"yes\"}", "matchLabels: {cluster: a}"),
			"[{m workload.b removed}]",
		},
	} {
		old, head := loadManaged(t, nil), loadManaged(t, c.change)
		got := Affected(old, head, slices.Sorted(maps.Keys(c.change)), foreignReach)
		if text := fmt.Sprint(got); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
		affected := map[string]bool{}
		for _, a := range got {
			affected[a.Cluster+"/"+a.App] = true
		}
		was, is := fingerprints(t, old, before, foreignReach), fingerprints(t, head, managed(c.change), foreignReach)
		for target := range is {
			if was[target] != is[target] && !affected[target] {
				t.Errorf("%s: %s changes and is not affected", name, target)
			}
		}
	}
}

func TestForEachMistakes(t *testing.T) {
	t.Parallel()
	many := map[string]string{"clusters/many.yaml": ""}
	var b strings.Builder
	for i := range maxDescribed {
		fmt.Fprintf(&b, "---\n%skind: Cluster\nmetadata: {name: n-%d, labels: {capi: \"yes\"}}\nspec: {environment: dev, kubeVersion: 1.35.2}\n", fleettest.Base, i)
	}
	many["clusters/many.yaml"] = b.String()
	long := strings.Repeat("a", 60)
	other := func(spec string) map[string]string {
		return map[string]string{"apps/other/app.yaml": fleettest.Base + "kind: App\n" + spec}
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"too many": {many, "the apps with forEach describe more than 5000 clusters"},
		"long name": {
			map[string]string{"clusters/long.yaml": fmt.Sprintf("%skind: Cluster\nmetadata: {name: %s, labels: {capi: \"yes\"}}\nspec: {environment: dev}\n", fleettest.Base, long)},
			"which is longer than 63 characters",
		},
		"same name": {
			other("metadata: {name: workload.b}\nspec: {namespace: n, placement: {matchLabels: {role: management}}, source: {manifests: {path: x}}}\n"),
			"the app workload for cluster b has the name of the app in apps/other/app.yaml",
		},
		"same declaration": {
			other("metadata: {name: workload}\nspec: {namespace: n, placement: {matchLabels: {role: management}}, source: {manifests: {path: x}}}\n"),
			"the app workload is also in",
		},
		"no selector": {
			map[string]string{"apps/workload/app.yaml": strings.Replace(describing, "{clusters: {matchLabels: {capi: \"yes\"}}}", "{}", 1)},
			"apps/workload/app.yaml:7:",
		},
		"misspelt label": {
			map[string]string{"apps/workload/app.yaml": strings.Replace(describing, "{capi: \"yes\"}", "{cappi: \"yes\"}", 1)},
			"cappi",
		},
		"misspelt field": {
			map[string]string{"apps/workload/app.yaml": strings.Replace(describing, "${each.name}", "${each.nam}", 1)},
			"did you mean ${each.name}?",
		},
		"order": {
			map[string]string{"clusters/class.yaml": fleettest.Base + "kind: ClusterClass\nmetadata: {name: k}\nspec: {upgradeOrder: [workload, workloads]}\n"},
			`clusters/class.yaml:4:33: error: the class k names the app "workloads", which describes no clusters, did you mean workload?`,
		},
		"order twice": {
			map[string]string{"clusters/class.yaml": fleettest.Base + "kind: ClusterClass\nmetadata: {name: k}\nspec: {upgradeOrder: [workload, workload]}\n"},
			`the class k names the app workload twice`,
		},
		"dependency": {
			map[string]string{"apps/workload/app.yaml": strings.Replace(describing, "spec:\n", "spec:\n  dependsOn: [nothing]\n", 1)},
			`depends on "nothing", which does not exist`,
		},
	} {
		_, problems := Load(t.Context(), fleettest.NewTree(managed(c.change)), nil)
		if problems.Err() == nil || !strings.Contains(problems.Error(), c.want) {
			t.Errorf("%s: want %q, got %.500s", name, c.want, problems.Error())
		}
		if n := len(problems); n > 2 {
			t.Errorf("%s: %d problems", name, n)
		}
	}
	f := loadManaged(t, other("metadata: {name: other}\nspec: {namespace: \"${each.name}\", placement: {matchLabels: {role: management}}, source: {manifests: {path: x}}}\n"))
	app, _ := f.App("other")
	if _, err := f.Resolve(Target{App: app, Cluster: f.clusters["m"]}); err == nil || !strings.Contains(err.Error(), "${each.name} is not set: the app has no forEach") {
		t.Errorf("a reference without forEach: %v", err)
	}
}

func TestForEachOfWorkspaces(t *testing.T) {
	t.Parallel()
	_, problems := Load(t.Context(), fleettest.NewTree(managed(map[string]string{
		"workspaces/team.yaml":             fleettest.Base + "kind: Workspace\nmetadata: {name: team}\nspec: {clusters: {}, namespaces: [clusters]}\n",
		"workspaces/team/apps/w/app.yaml":  strings.Replace(describing, "name: workload", "name: w", 1),
		"workspaces/team/apps/w/README.md": "x",
	})), nil)
	if text := problems.Error(); !strings.Contains(text, "an app of a workspace cannot have forEach") {
		t.Errorf("the problems are %s", text)
	}
}

// An app depends on the app of the same described cluster; one without forEach on all of them.
func TestForEachDependencies(t *testing.T) {
	t.Parallel()
	f := loadManaged(t, map[string]string{
		"apps/nodes/app.yaml": strings.Replace(strings.Replace(describing, "name: workload", "name: nodes", 1), "spec:\n", "spec:\n  dependsOn: [workload]\n", 1),
		"apps/last/app.yaml": fleettest.Base +
			"kind: App\nmetadata: {name: last}\nspec: {namespace: n, dependsOn: [nodes], placement: {matchLabels: {role: management}}, source: {manifests: {path: x}}}\n",
	})
	nodes, _ := f.App("nodes.a")
	last, _ := f.App("last")
	if got := fmt.Sprint(nodes.Spec.DependsOn, last.Spec.DependsOn); got != "[workload.a] [nodes.a nodes.b]" {
		t.Errorf("the dependencies are %s", got)
	}
}
