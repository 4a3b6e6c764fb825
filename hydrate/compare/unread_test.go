package compare_test

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

const fluxFleet = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod}}}}]
`

const argoFleet = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  import: [{argocd: {repositories: ["https://git.example.com/acme/fleet.git"], clusters: {prod: {server: "https://kubernetes.default.svc", environment: prod}}}}]
`

const fluxRoot = `-- clusters/prod/apps.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {interval: 1h, path: ./apps/web, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
`

// edited compares a fleet of files with the same fleet after one replacement in one file. A file that does not exist is
// added.
func edited(t *testing.T, fleet, files, name, old, now string) *compare.Comparison {
	t.Helper()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", fleet)
	text := ""
	for _, f := range txtar.Parse([]byte(files)).Files {
		r.Write(f.Name, string(f.Data))
		if f.Name == name {
			text = string(f.Data)
		}
	}
	r.Commit("before")
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not contain %q", name, old)
	}
	r.Write(name, strings.Replace(text, old, now, 1))
	r.Commit("after")
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD"), Key: []byte("k")})
	t.Cleanup(c.Close)
	return c
}

// A target that cannot be read on either side is withheld if what declares it changes, or a file that it may be built
// from.
func TestUnreadIsNeverNoEffect(t *testing.T) {
	release := func(chart, kind, values string) string {
		return fluxRoot + `-- apps/web/web.yaml --
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: charts, namespace: web}
spec: {interval: 1h, url: "https://git.example.com/acme/charts", ref: {tag: v1}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: web}
spec:
  interval: 1h
  chart: {spec: {chart: ` + chart + `, sourceRef: {kind: GitRepository, name: ` + kind + `}}}
  ` + values + `
  values: {image: registry/web:one}
-- charts/web/Chart.yaml --
apiVersion: v2
name: web
version: 1.0.0
-- charts/web/templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {image: "{{ .Values.image }}"}
`
	}
	vault := release("./charts/web", "flux-system, namespace: flux-system",
		"valuesFrom: [{kind: Secret, name: from-vault}]")
	other := release("./web", "charts", "")
	broken := fluxRoot + `-- apps/web/kustomization.yaml --
resources: [missing.yaml, child.yaml]
-- apps/web/child.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: child, namespace: flux-system}
spec: {interval: 1h, path: ./deploy/child, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- deploy/child/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: child}
data: {key: one}
`
	application := func(name, source, destination string) string {
		return "-- argocd/" + name +
			".yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: " + name +
			", namespace: argocd}\nspec:\n  project: default\n" +
			"  source: {" + source + "}\n  destination: {server: \"" + destination + "\", namespace: web}\n"
	}
	const own, in = `repoURL: "https://git.example.com/acme/fleet.git"`, "https://kubernetes.default.svc"
	remote := application("web",
		`repoURL: "https://git.example.com/acme/web.git", path: deploy, targetRevision: v1.0.0`, in)
	plugin := application("plug", own+`, path: plug, targetRevision: HEAD, plugin: {env: [{name: A, value: one}]}`,
		in) + "-- plug/cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: plug}\n"
	elsewhere := application("far", own+`, path: far, targetRevision: HEAD`, "https://far.example.com") +
		"-- far/cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: far}\ndata: {key: one}\n"
	set := `-- argocd/set.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: previews, namespace: argocd}
spec:
  generators: [{pullRequest: {github: {owner: acme, repo: web}}}]
  template:
    metadata: {name: "web-{{number}}"}
    spec:
      project: default
      source: {` + own + `, path: previews/web, targetRevision: HEAD}
      destination: {server: "https://kubernetes.default.svc", namespace: web}
-- previews/web/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {key: one}
`
	for name, c := range map[string]struct {
		fleet, files, file, old, now string
		app                          string
		declared                     string // a line of the declaration's diff; "" for none
	}{
		"chart of another repository": {
			fluxFleet, other, "apps/web/web.yaml", "web:one", "web:two",
			"web.web", "+    image: registry/web:two",
		},
		"tag of the chart's repository": {
			fluxFleet, other, "apps/web/web.yaml", "tag: v1", "tag: v2",
			"web.web", "",
		},
		"values of a Secret that is not in Git": {
			fluxFleet, vault, "apps/web/web.yaml", "web:one", "web:two",
			"web.web", "+    image: registry/web:two",
		},
		"chart of a release with such values": {
			fluxFleet, vault, "charts/web/templates/cm.yaml", "image:", "other:",
			"web.web", "",
		},
		"new file in such a chart": {
			fluxFleet, vault, "charts/web/templates/new.yaml", "",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n", "web.web", "",
		},
		"file beside a failed kustomization":     {fluxFleet, broken, "apps/web/child.yaml", "1h", "2h", "apps", ""},
		"file of a failed Kustomization's child": {fluxFleet, broken, "deploy/child/cm.yaml", "one", "two", "apps", ""},
		"revision of another repository": {
			argoFleet, remote, "argocd/web.yaml", "v1.0.0", "v2.0.0", "web",
			"+    targetRevision: v2.0.0",
		},
		"env of a plugin": {
			argoFleet, plugin, "argocd/plug.yaml", "value: one", "value: two",
			"plug", "+        value: two",
		},
		"new file of a plugin": {argoFleet, plugin, "plug/env.txt", "", "A=1", "plug", ""},
		"Application of an unknown cluster": {
			argoFleet, elsewhere, "argocd/far.yaml", "namespace: web",
			"namespace: far", "far", "+    namespace: far",
		},
		"its files": {argoFleet, elsewhere, "far/cm.yaml", "one", "two", "far", ""},
		"files of a set that a server decides": {
			argoFleet, set, "previews/web/cm.yaml", "one", "two",
			"previews.appset", "",
		},
		"set that selects by labels that no file says": {
			argoFleet, strings.Replace(set, "{pullRequest: {github: {owner: acme, repo: web}}}", "{clusters: {selector: {matchLabels: {tier: edge}}}}", 1),
			"argocd/set.yaml", "tier: edge", "tier: core", "previews.appset", "tier: core",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := edited(t, c.fleet, c.files, c.file, c.old, c.now)
			found := false
			for _, w := range got.Changes.Withheld {
				found = found || w.App == c.app && !w.Before
			}
			if !found {
				t.Errorf("withheld targets: got %+v, want %s among them", got.Changes.Withheld, c.app)
			}
			if text := linesOf(got.Changes.Declarations); !strings.Contains(text, c.declared) {
				t.Errorf("changes of declarations: got\n%s\nwant the line %q", text, c.declared)
			}
		})
	}
}

func linesOf(groups []diff.Group) string {
	var out []string
	for _, g := range groups {
		for _, o := range g.Objects {
			for _, h := range o.Hunks {
				out = append(out, h.Lines...)
			}
		}
	}
	return strings.Join(out, "\n")
}

// A file that no known target reads has an unknown effect if a target fails that may bring others, or if no target is known.
func TestFilesOfUnknownEffect(t *testing.T) {
	t.Parallel()
	const file = "apps/dev/cm.yaml"
	cm := "-- " + file + " --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {key: one}\n"
	good := fluxRoot + "-- apps/web/kustomization.yaml --\nresources: []\n"
	bad := fluxRoot + "-- apps/web/kustomization.yaml --\nresources: [missing.yaml, child.yaml]\n" + strings.NewReplacer("clusters/prod/apps.yaml",
		"apps/web/child.yaml", "{name: apps,", "{name: child,", "apps/web", "deploy/child").Replace(fluxRoot)
	for name, c := range map[string]struct {
		fleet, files string
		want         int
	}{
		"everything is read": {fluxFleet, good, 0},
		"a target fails":     {fluxFleet, bad, 1},
		"no target":          {argoFleet, "", 1},
	} {
		got := edited(t, c.fleet, c.files+cm, file, "one", "two").Changes
		if got.Uncertain() != c.want || got.Unclaimed() != 1 {
			t.Errorf("%s: %d files of unknown effect of %d, want %d of 1", name, got.Uncertain(), got.Unclaimed(), c.want)
		}
	}
}

// A changed file that no known target reads is named with the likely reason.
func TestUnclaimedFilesAreNamed(t *testing.T) {
	cm := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {key: one}\n"
	base := fluxRoot + "-- apps/web/kustomization.yaml --\nresources: [cm.yaml]\n-- apps/web/cm.yaml --\n" + cm +
		"-- apps/web/left.yaml --\n" + cm + "-- clusters/dev/apps.yaml --\n" +
		strings.ReplaceAll(strings.SplitN(fluxRoot, "\n", 2)[1], "apps/web", "apps/dev") + "-- apps/dev/cm.yaml --\n" +
		cm + "-- charts/old/Chart.yaml --\napiVersion: v2\nname: old\nversion: 1.0.0\n-- charts/old/values.yaml --\nkey: one\n" +
		"-- Taskfile.yaml --\nkey: one\n"
	set := `-- argocd/set.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: tools, namespace: argocd}
spec:
  generators: [{clusters: {selector: {matchLabels: {tools: "yes"}}}}]
  template:
    metadata: {name: "tools-{{name}}"}
    spec:
      project: default
      source: {repoURL: "https://git.example.com/acme/fleet.git", path: tools, targetRevision: HEAD}
      destination: {server: "{{server}}", namespace: web}
-- tools/cm.yaml --
` + cm + "-- argocd/ok.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: ok, namespace: argocd}\nspec:\n  project: default\n" +
		"  source: {repoURL: \"https://git.example.com/acme/fleet.git\", path: ok, targetRevision: HEAD}\n  destination: {server: \"https://kubernetes.default.svc\", namespace: web}\n-- ok/cm.yaml --\n" + cm
	for name, c := range map[string]struct {
		fleet, files, file, reason string
	}{
		"not listed": {fluxFleet, base, "apps/web/left.yaml", "apps/web/kustomization.yaml does not list it"},
		"unreached root": {
			fluxFleet, base, "apps/dev/cm.yaml",
			"the Kustomization apps (clusters/dev/apps.yaml) names apps/dev, and no cluster reaches it",
		},
		"chart of nobody": {
			fluxFleet, base, "charts/old/values.yaml",
			"no known target renders the chart charts/old",
		},
		"nothing is generated": {strings.Replace(argoFleet, "environment: prod}", "environment: prod, labels: {tools: \"no\"}}", 1), set, "tools/cm.yaml", "its cluster generator matches none"},
		"of another tool":      {fluxFleet, base, "Taskfile.yaml", ""},
		"read":                 {fluxFleet, base, "apps/web/cm.yaml", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := edited(t, c.fleet, c.files, c.file, "one", "two").Changes.Files
			switch {
			case c.reason == "" && len(got) > 0:
				t.Errorf("files that no target reads: got %+v, want none", got)
			case c.reason != "" && (len(got) != 1 || got[0].Path != c.file || got[0].Read ||
				!strings.Contains(got[0].Reason, c.reason)):
				t.Errorf("files that no target reads: got %+v, want %s with the reason %q", got, c.file, c.reason)
			}
		})
	}
}

// A target that cannot be rendered at the base is compared as far as the head goes: all its objects are there for the
// policy.
func TestTheHeadIsJudgedWithoutABase(t *testing.T) {
	files := fluxRoot + "-- apps/web/kustomization.yaml --\nresources: [cm.yaml, missing.yaml]\n-- apps/web/cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n"
	c := edited(t, fluxFleet, files, "apps/web/kustomization.yaml", ", missing.yaml", "")
	if len(c.Targets) != 1 || !c.Targets[0].BaseUnknown || len(c.Targets[0].Files.After) != 1 {
		t.Errorf("targets to judge: got %+v, want apps with one object and without a base", c.Targets)
	}
	if groups := c.Changes.Groups; len(groups) != 1 || !groups[0].BaseUnknown || groups[0].Counts.Added != 1 {
		t.Errorf("groups: got %+v, want one added object, base unknown", groups)
	}
	if w := c.Changes.Withheld; len(w) != 1 || !w[0].Before || c.Changes.Compared != 1 {
		t.Errorf("withheld: got %+v, %d compared, want apps, only at the base", w, c.Changes.Compared)
	}
}

// If the fleet of the base cannot be read, the last one that could be read names the branches to compare with: a change
// that names its own branches must not choose what counts as unchanged.
func TestAnUnreadableBaseKeepsTheBranches(t *testing.T) {
	r := hydratetest.New(t)
	graph := "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec:\n  environments: [{name: dev}]\n"
	const own = "  output: {environmentBranch: \"own/${environment}\", clusterBranch: \"own-${cluster.name}\"}\n"
	hydrate := func() { r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} }) }
	r.Write("clusters/c.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {environment: dev}\n")
	r.Write("apps/web/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: web}}}\n")
	r.Write("sluice.yaml", graph)
	r.Write("web/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {key: one}\n")
	r.Commit("valid")
	hydrate()
	r.Write("sluice.yaml", graph+"  nonsense: true\n")
	r.Commit("invalid")
	r.Git("branch", "unreadable")
	r.Write("sluice.yaml", graph+own)
	r.Write("web/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {key: two}\n")
	r.Commit("change")
	hydrate() // to the branches that the change names
	r.Git("checkout", "-q", "--orphan", "alone")
	r.Write("sluice.yaml", graph+"  nonsense: true\n")
	r.Commit("invalid from the start")
	for base, want := range map[string]string{"unreadable": "web on dev/c: changed ConfigMap web/cm", "alone": "web on dev/c: added ConfigMap web/cm"} {
		c := run(r, compare.Request{Base: r.Resolve(base), Head: r.Resolve("main"), Key: []byte("k")})
		if got := lines(c.Changes); len(got) != 1 || got[0] != want {
			t.Errorf("base %s: got %q, want %q (notes %q)", base, got, want, c.Notes())
		}
	}
}
