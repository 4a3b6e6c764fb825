package fleet

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// The app decides before the cluster, the cluster before its class, and the fleet last.
func TestHelmOfFleets(t *testing.T) {
	t.Parallel()
	const fleetHelm, baseHelm, edgeHelm, clusterHelm, appHelm = 1, 2, 4, 8, 16
	for _, c := range []struct {
		says int // which of them name a version
		a, b int // versions of the clusters: a is of class edge, whose parent is base; b is of class base
	}{
		{0, 3, 3}, {fleetHelm, 4, 4}, {baseHelm, 4, 4}, {edgeHelm, 4, 3}, {clusterHelm, 3, 4}, {appHelm, 4, 4},
	} {
		files := small()
		say := func(bit int, name, old, text string) {
			if c.says&bit != 0 {
				files[name] = strings.Replace(files[name], old, text, 1)
			}
		}
		say(fleetHelm, "sluice.yaml", "spec:", "spec:\n  helm: 4")
		say(baseHelm, "clusters/classes.yaml", "spec: {", "spec: {helm: 4, ")
		say(edgeHelm, "clusters/classes.yaml", "spec: {parent", "spec: {helm: 4, parent")
		say(clusterHelm, "clusters/b.yaml", "spec: {", "spec: {helm: 4, ")
		say(appHelm, "apps/web/app.yaml", "spec: {", "spec: {helm: 4, ")
		f := load(t, files)
		if a, b := f.Helm(target(t, f, "a")), f.Helm(target(t, f, "b")); a != c.a || b != c.b {
			t.Errorf("with Helm 4 in %b: Helm %d on a and %d on b, want %d and %d", c.says, a, b, c.a, c.b)
		}
	}
	// What is nearer can also name the older version.
	files := small()
	files["sluice.yaml"] = strings.Replace(files["sluice.yaml"], "spec:", "spec:\n  helm: 4", 1)
	files["clusters/classes.yaml"] = strings.Replace(files["clusters/classes.yaml"], "spec: {parent",
		"spec: {helm: 3, parent", 1)
	f := load(t, files)
	if a, b := f.Helm(target(t, f, "a")), f.Helm(target(t, f, "b")); a != Helm3 || b != Helm4 {
		t.Errorf("a fleet with Helm 4 and a class with Helm 3: Helm %d on its cluster and %d on another, want 3 and 4",
			a, b)
	}
}

func TestHelmOfImports(t *testing.T) {
	t.Parallel()
	release := targets{{
		Cluster: "prod", App: "web", File: "web.yaml",
		Sources: []ImportedSource{{Helm: &HelmSource{Path: "chart"}}},
	}}
	importing := func(t *testing.T, fleet, entry string) (*Fleet, Problems) {
		t.Helper()
		return Loader{Importer: release}.Load(t.Context(), fleettest.NewTree(map[string]string{
			"sluice.yaml": base + "kind: Fleet\nmetadata: {name: x}\nspec:\n  environments: [{name: prod}]\n" + fleet +
				"  import: [{" + entry + "}]\n",
		}))
	}
	const clusters, servers = "clusters: {prod: {path: p, environment: prod}}",
		"clusters: {prod: {server: \"https://x\", environment: prod}}"
	for _, c := range []struct {
		fleet, entry string
		want         int
	}{
		{"", "flux: {" + clusters + "}", 4},
		{"", "flux: {version: \"2.7\", " + clusters + "}", 3},
		{"", "flux: {version: v2.8.0-rc.1, " + clusters + "}", 4},
		{"", "flux: {version: \"2.10\", " + clusters + "}", 4},
		{"  helm: 3\n", "flux: {" + clusters + "}", 4},
		{"  helm: 4\n", "flux: {version: \"2.7\", " + clusters + "}", 3},
		{"", "helm: 3, flux: {" + clusters + "}", 3},
		{"", "helm: 4, flux: {version: \"2.7\", " + clusters + "}", 4},
		{"", "argocd: {" + servers + "}", 4},
		{"", "argocd: {version: 3.4.9, " + servers + "}", 3},
		{"", "argocd: {version: \"3.5\", " + servers + "}", 4},
		{"", "argocd: {version: \"2.14\", " + servers + "}", 3},
	} {
		f, problems := importing(t, c.fleet, c.entry)
		if err := problems.Err(); err != nil {
			t.Fatalf("%s: the error is %v", c.entry, err)
		}
		if got := f.Helm(tinyTarget(t, f, "prod")); got != c.want {
			t.Errorf("%s%s: got Helm %d, want %d", c.fleet, c.entry, got, c.want)
		}
	}
	for entry, want := range map[string]string{
		"flux: {version: new, " + clusters +
			"}": `sluice.yaml:6:29: error: "new" is not a version (such as 2.8 of Flux, or 3.5 of Argo CD)`,
		"helm: 5, flux: {" + clusters +
			"}": "sluice.yaml:6:19: error: spec.import[0].helm: unknown value 5 (one of 3, 4)",
	} {
		if _, problems := importing(t, "", entry); problems.Err() == nil ||
			!strings.Contains(problems.Err().Error(), want) {
			t.Errorf("%s: Err is %v, want %s", entry, problems.Err(), want)
		}
	}
	// A number in another form is one error, not a wrong number too.
	if _, problems := importing(t, "", "helm: 0x4, flux: {"+clusters+"}"); len(problems) != 1 {
		t.Errorf("helm: 0x4 has the problems %v, want one", problems)
	}
	older, _ := importing(t, "", "flux: {version: \"2.7\", "+clusters+"}")
	newer, _ := importing(t, "", "flux: {version: \"2.8\", "+clusters+"}")
	if got := Affected(older, newer, []string{"sluice.yaml"}, func(*Fleet, Source) []string {
		return nil
	}); len(got) != 1 {
		t.Errorf("targets that a new version of Flux with another Helm affects: got %v, want prod/web", got)
	}
}

// A change of the version affects the targets for which it counts.
func TestAffectedByHelm(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		old, text string
		want      []string
	}{
		"sluice.yaml":           {"spec:", "spec:\n  helm: 4", []string{"a", "b"}},
		"clusters/classes.yaml": {"spec: {parent", "spec: {helm: 4, parent", []string{"a"}},
		"clusters/b.yaml":       {"spec: {", "spec: {helm: 4, ", []string{"b"}},
		"apps/web/app.yaml":     {"spec: {", "spec: {helm: 4, ", []string{"a", "b"}},
	} {
		files := small()
		files[file] = strings.Replace(files[file], c.old, c.text, 1)
		clusters := map[string]bool{}
		for _, found := range Affected(load(t, small()), load(t, files), []string{file},
			func(*Fleet, Source) []string { return nil }) {
			clusters[found.Cluster] = true
		}
		if got := slices.Sorted(maps.Keys(clusters)); !slices.Equal(got, c.want) {
			t.Errorf("clusters that Helm 4 in %s affects: got %v, want %v", file, got, c.want)
		}
	}
}
