package importer

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
)

// What cannot be read fails by itself, at its place: the other targets are read, and what it described does not seem
// deleted.
func TestBrokenContentIsNoDeletion(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: x}\n"
	const source = "source: {repoURL: \"https://git.example.com/acme/fleet\", path: parent}"
	const chart = "-- parent/Chart.yaml --\napiVersion: v2\nname: parent\nversion: 0.1.0\n-- parent/templates/app.yaml --\n"
	const child = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: child}\nspec: {project: a, source: {repoURL: \"https://git.example.com/acme/fleet\", path: plain}, destination: {name: prod}}\n"
	const parent = "-- argocd/x.yaml --\n" + head + "spec: {project: a, " + source + ", destination: {name: prod}}\n"
	const plain = "-- argocd/x.yaml --\n" + head +
		"spec: {project: a, source: {repoURL: \"https://git.example.com/acme/fleet\", path: plain}, destination: {name: prod}}\n"
	for name, c := range map[string]struct{ before, after, lost, want string }{
		"a file of a generator": {"", "-- apps/c.yaml --\nname: [c\n", "a", "argocd/set.yaml:1:"},
		"an Application": {
			plain, "-- argocd/x.yaml --\n" + head + "spec: {project: [\n", "x",
			"argocd/x.yaml",
		},
		"an Application's type": {plain, "-- argocd/x.yaml --\n" + head + "spec: {project: {a: b}, " +
			source + ", destination: {name: prod}}\n", "x", "argocd/x.yaml:1:"},
		"an empty destination": {plain, "-- argocd/x.yaml --\n" + head + "spec: {project: a, " + source +
			", destination: {namespace: b}}\n", "x", "names no cluster"},
		"an unknown cluster": {plain, "-- argocd/x.yaml --\n" + head + "spec: {project: a, " + source +
			", destination: {name: elsewhere}}\n", "x", `the cluster "elsewhere" is not known`},
		"a chart of Applications": {parent + chart + child, parent + chart +
			strings.Replace(child, "spec: ", "spec: {{ fail \"no\" }}", 1), "child", "argocd/x.yaml:1:"},
		"a generator of a server only": {
			"", "-- argocd/set.yaml --\n" + set("{pullRequest: {}}"), "a",
			"asks a server",
		},
		"a generator of a server as well": {"", "-- argocd/set.yaml --\n" +
			set("{list: {elements: [{name: web}]}}, {pullRequest: {}}"), "b", "asks a server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, problems := fleet.Loader{Importer: New(nil)}.Load(t.Context(), imported(c.before))
			if before == nil || before.ImportedTarget("prod", c.lost) == nil {
				t.Fatalf("%v: %s is not there", problems, c.lost)
			}
			after, problems := fleet.Loader{Importer: New(nil)}.Load(t.Context(), imported(c.after))
			if after == nil {
				t.Fatalf("the failure stops the fleet: %v", problems)
			}
			if good := after.ImportedTarget("prod", "good"); good == nil || good.Err != nil {
				t.Errorf("the failure spread: %+v", good)
			}
			if own := after.ImportedTarget("prod", c.lost); own != nil &&
				(own.Err == nil || !strings.Contains(own.File, "argocd/x.yaml")) {
				t.Errorf("the own is %+v", own)
			} else if own == nil {
				for _, other := range []*fleet.Fleet{before, nil} {
					if err := after.Lost(other, "prod", c.lost); err == nil {
						t.Errorf("%s seems deleted", c.lost)
					} else if err != nil && !strings.Contains(err.Error(), c.want) {
						t.Errorf("the error is %v, want %q", err, c.want)
					}
				}
			}
		})
	}
	f, problems := (fleet.Loader{Importer: New(nil)}).Load(t.Context(), imported(""))
	if f == nil || len(f.Imports()) != 3 || f.Uncertain() {
		t.Fatalf("the problems are %v", problems)
	}
	more, _ := (fleet.Loader{Importer: New(nil)}).Load(t.Context(), imported(plain))
	if err := f.Lost(more, "prod", "x"); err != nil { // it is deleted
		t.Error(err)
	}
}

// loaded loads the fleet of an archive of files, whose imports may fail.
func loaded(t *testing.T, files string) *fleet.Fleet {
	t.Helper()
	f, problems := fleet.Loader{Importer: New(nil)}.Load(t.Context(), tree(files))
	if f == nil {
		t.Fatal(problems)
	}
	return f
}

// set is the ApplicationSet of argoFleet with other generators.
func set(generators string) string {
	return "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  goTemplate: true\n  generators: [" + generators + "]\n" +
		"  template: {metadata: {name: \"{{ .name }}\"}, spec: {project: default, source: {repoURL: \"https://git.example.com/acme/fleet\", path: plain}, destination: {name: prod}}}\n"
}

const fluxFleet = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod}}}}]
`

// A Kustomization that fails is one failed target. The targets that it brought before are not deleted, at any depth.
func TestFailedKustomizationIsNoDeletion(t *testing.T) {
	t.Parallel()
	const parent = `
-- clusters/prod/more.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: more, namespace: flux-system}
spec: {path: ./more, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- more/middle.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: middle, namespace: flux-system}
spec: {path: ./deep, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- deep/web.yaml --
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: deep, namespace: web}
spec: {chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}}
`
	load := func(more string) *fleet.Fleet {
		return loaded(t, fluxFleet+repository+parent+more)
	}
	before := load("")
	if before.ImportedTarget("prod", "web.deep") == nil {
		t.Fatal("the fixture has no web.deep")
	}
	for name, c := range map[string]struct {
		files string
		good  bool // the other Kustomization is read
	}{
		"a broken file":             {"-- more/broken.yaml --\nkind: [\n", true},
		"a file that lost its text": {"-- more/middle.yaml --\nkind: [\n", true},
		"the root":                  {"-- clusters/prod/broken.yaml --\nkind: [\n", false},
	} {
		after := load(c.files)
		if good := after.ImportedTarget("prod", "good"); (good != nil && good.Err == nil) != c.good {
			t.Errorf("%s: the other target: %+v", name, good)
		}
		for _, app := range []string{"middle", "web.deep"} {
			for _, other := range []*fleet.Fleet{before, nil} {
				if err := after.Lost(other, "prod", app); err == nil {
					t.Errorf("%s: %s seems deleted", name, app)
				}
			}
		}
		if err := before.Lost(after, "prod", "none"); err != nil {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if err := load("-- more/middle.yaml --\n# nothing\n").Lost(before, "prod", "web.deep"); err != nil {
		t.Errorf("a target that is deleted: %v", err)
	}
}

// Destinations may name a cluster of the registry that the entry does not: what cannot be read fails there too.
func TestUnreadFailsOnClustersOfTheRegistry(t *testing.T) {
	t.Parallel()
	const head = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  files: {clusters: ["clusters/*.yaml"]}
  import: [{argocd: {repositories: ["https://git.example.com/acme/fleet"], clusters: {}}}]
-- plain/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: plain}
`
	const cluster = "-- clusters/prod.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\nspec: {environment: prod}\n"
	const app = "-- argocd/x.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: x}\n"
	const spec = "spec: {project: a, source: {repoURL: \"https://git.example.com/acme/fleet\", path: plain}, destination: {name: prod}}\n"
	load := func(text string) *fleet.Fleet {
		return loaded(t, head+text)
	}
	before := load(cluster + app + spec)
	if before.ImportedTarget("prod", "x") == nil {
		t.Fatal("the fixture has no x")
	}
	for name, c := range map[string]struct {
		files string
		on    string // the cluster of what fails
	}{
		"a file":                 {cluster + app + "spec: {project: [\n", "prod"},
		"a file, and no cluster": {app + "spec: {project: [\n", ""},
		"a file with another name": {
			cluster + strings.Replace(app, "x.yaml", "y.yaml", 1) + "spec: {project: [\n",
			"prod",
		},
		"an ApplicationSet": {cluster + "-- argocd/x.yaml --\n" + set("{list: {elements: [[web]]}}"), "prod"},
		"a set of unknown clusters": {cluster + "-- argocd/x.yaml --\n" +
			strings.Replace(set("{list: {elements: [[web]]}}"), "{name: prod}", "{name: \"{{ .name }}\"}", 1), "prod"},
	} {
		after := load(c.files)
		failed := slices.DeleteFunc(after.Imports(), func(i *fleet.Imported) bool { return i.Err == nil })
		if len(failed) != 1 || failed[0].Cluster != c.on {
			t.Errorf("%s: failed: %+v", name, failed)
		}
		for _, other := range []*fleet.Fleet{before, nil} {
			if err := after.Lost(other, "prod", "x"); !after.Uncertain() || err == nil {
				t.Errorf("%s: the target seems deleted", name)
			}
		}
	}
	if err := load(cluster).Lost(before, "prod", "x"); err != nil {
		t.Errorf("a target that is deleted: %v", err)
	}
}

// A parent that fails in both commits hides what its cluster's branch still has, but no deletion of what another file
// describes.
func TestParentThatStillFails(t *testing.T) {
	t.Parallel()
	const more = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  import:
  - argocd:
      repositories: ["https://git.example.com/acme/fleet"]
      clusters:
        prod: {server: "https://prod.example.com", environment: prod}
        edge: {server: "https://edge.example.com", environment: prod}
-- argocd/parent.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: parent}
spec: {project: a, source: {repoURL: "https://git.example.com/acme/fleet", path: parent}, destination: {name: prod}}
-- parent/Chart.yaml --
apiVersion: v2
name: parent
version: 0.1.0
`
	const child = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: child}\nspec: {project: a, source: {repoURL: \"https://git.example.com/acme/fleet\", path: plain}, destination: {name: prod}}\n"
	const template = "-- parent/templates/app.yaml --\n" + child
	failing := strings.Replace(template, "spec: ", "spec: {{ fail \"no\" }}", 1)
	onEdge := "-- argocd/edge.yaml --\n" + strings.Replace(child, "destination: {name: prod}",
		"destination: {name: edge}", 1)
	own := "-- argocd/own.yaml --\n" + strings.Replace(child, "name: child", "name: own", 1)
	load := func(text string) *fleet.Fleet {
		f, problems := fleet.Loader{Importer: New(nil)}.Load(t.Context(), imported(more+text))
		if f == nil {
			t.Fatal(problems)
		}
		return f
	}
	failed := load(failing + onEdge)
	if failed.ImportedTarget("edge", "child") == nil || failed.ImportedTarget("prod", "child") != nil {
		t.Fatal("the fixture must have child on edge only")
	}
	if err := failed.Lost(failed, "prod", "child"); err == nil {
		t.Error("the child of a parent that still fails seems deleted")
	}
	renamed := strings.NewReplacer("name: parent}\nspec", "name: root}\nspec").Replace(more)
	after, problems := fleet.Loader{Importer: New(nil)}.Load(t.Context(), imported(renamed+failing))
	if after == nil {
		t.Fatal(problems)
	}
	if err := after.Lost(load(template), "prod", "child"); err == nil {
		t.Error("the child of a parent that has another name and fails seems deleted")
	}
	if err := failed.Lost(load(failing+own), "prod", "own"); err != nil {
		t.Errorf("a deleted target: %v", err)
	}
	if err := load(failing).Lost(load(template+onEdge), "prod", "child"); err == nil {
		t.Error("the child of a parent that begins to fail seems deleted")
	}
}

// An excluded app is not imported, and what it brings is. If it cannot be read, the fleet is invalid: its children
// would seem deleted.
func TestExcludedApps(t *testing.T) {
	t.Parallel()
	const parent = `
-- clusters/prod/more.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: more, namespace: flux-system}
spec: {path: ./more, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- more/child.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: child, namespace: flux-system}
spec: {path: ./deep, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- deep/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: deep, namespace: web}
`
	load := func(exclude, more string) (*fleet.Fleet, fleet.Problems) {
		text := strings.Replace(fluxFleet, "import: [{flux:", "files: {apps: [own/*.yaml]}\n  import: [{exclude: ["+
			exclude+"], flux:", 1)
		return fleet.Loader{Importer: New(nil)}.Load(t.Context(), tree(text+repository+parent+more))
	}
	own := func(cluster string) string {
		return "-- own/more.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: more}\nspec: {namespace: web, placement: {matchLabels: {cluster: " + cluster + "}}, source: {manifests: {path: deep}}}\n"
	}
	f, problems := load("more", own("prod"))
	if f == nil || f.ImportedTarget("prod", "more") != nil || f.ImportedTarget("prod", "child") == nil ||
		problems.Errors() > 0 {
		t.Errorf("the problems are %v", problems)
	}
	_, problems = load("more", own("prod")+"-- more/kustomization.yaml --\nresources: [none.yaml, child.yaml]\n")
	if text := problems.Error(); problems.Errors() != 1 || !strings.Contains(text, "clusters/prod/more.yaml:1:") ||
		!strings.Contains(text, "more on prod is excluded from the import and cannot be read, so what it brings is not known") {
		t.Errorf("the problems are %v", problems)
	}
	// The app must be rendered in place of the excluded one.
	_, problems = load("more", own("staging"))
	if text := problems.Error(); problems.Errors() != 1 || !strings.Contains(text, "clusters/prod/more.yaml:1:") ||
		!strings.Contains(text, "more on prod is excluded from the import, and own/more.yaml does not place it there (add the cluster to the placement of own/more.yaml") {
		t.Errorf("the problems are %v", problems)
	}
	_, problems = load("more", "")
	if text := problems.Error(); problems.Errors() != 1 || !strings.Contains(text,
		"more on prod is excluded from the import, and the fleet has no app of this name") {
		t.Errorf("the problems are %v", problems)
	}
	_, problems = load("nobody", "")
	if !slices.ContainsFunc(problems, func(p fleet.Problem) bool {
		return p.Severity == fleet.SeverityWarning && p.File == "sluice.yaml" &&
			p.Message == `the entry has no app "nobody" to exclude`
	}) {
		t.Errorf("the problems are %v", problems)
	}
}

// A ResourceSet whose inputs are unknown, because the Kustomization that brings a provider is not built, does not seem
// to delete its children.
func TestUnknownProvidersAreNoDeletion(t *testing.T) {
	t.Parallel()
	const self = "sourceRef: {kind: GitRepository, name: flux-system}}"
	const files = `
-- clusters/prod/app.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: flux-system}
spec: {path: ./app, prune: true, ` + self + `
-- clusters/prod/gotk.yaml --
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: "https://git.example.com/acme/fleet"}
-- clusters/prod/set.yaml --
apiVersion: fluxcd.controlplane.io/v1
kind: ResourceSet
metadata: {name: set, namespace: apps}
spec:
  inputsFrom: [{selector: {matchLabels: {set: tenants}}}]
  resources:
  - apiVersion: kustomize.toolkit.fluxcd.io/v1
    kind: Kustomization
    metadata: {name: "child-<< inputs.tenant >>", namespace: flux-system}
    spec: {path: ./child, prune: true, ` + self + `
-- child/c.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
-- app/provider.yaml --
apiVersion: fluxcd.controlplane.io/v1
kind: ResourceSetInputProvider
metadata: {name: late, namespace: apps, labels: {set: tenants}}
spec: {type: Static, defaultValues: {tenant: late}}
`
	before, problems := fleet.Loader{Importer: New(nil)}.Load(t.Context(), tree(fluxFleet+files))
	if before == nil || before.ImportedTarget("prod", "child-late") == nil {
		t.Fatal(problems)
	}
	for name, after := range map[string]string{
		"broken":    files + "-- app/broken.yaml --\na: [\n",
		"gone":      strings.Replace(files, "{path: ./app,", "{path: ./none,", 1),
		"suspended": strings.Replace(files, "{path: ./app,", "{suspend: true, path: ./app,", 1),
	} {
		f, problems := fleet.Loader{Importer: New(nil)}.Load(t.Context(), tree(fluxFleet+after))
		if f == nil {
			t.Fatal(problems)
		}
		if err := f.Lost(before, "prod", "child-late"); f.ImportedTarget("prod", "child-late") == nil && err == nil {
			t.Errorf("%s: child-late seems deleted", name)
		}
	}
}
