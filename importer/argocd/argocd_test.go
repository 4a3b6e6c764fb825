package argocd_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/importer/argocd"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

type mapTree struct{ fstest.MapFS }

func (m mapTree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(m.MapFS, name) }

const base = `
-- plain/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
-- chart/Chart.yaml --
apiVersion: v2
name: web
version: 0.1.0
-- argocd/good.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: good}
spec: {project: default, source: {repoURL: "https://git.example.com/acme/fleet", path: plain}, destination: {name: prod}}
`

func options(archive string) argocd.Options {
	tree := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return argocd.Options{
		Tree: mapTree{tree}, Build: kustomize.NewBuilder(manifest.DefaultBudget()).Build, Trunk: "main",
		Repositories: []string{"git@git.example.com:acme/fleet.git"},
		Clusters:     []argocd.Cluster{{Name: "prod", Server: "https://prod.example.com"}},
	}
}

func app(spec string) string {
	return "-- argocd/bad.yaml --\n# a comment\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: bad}\nspec:\n  project: default\n  destination: {server: \"https://prod.example.com\"}\n" + spec
}

const own = `repoURL: "https://git.example.com/acme/fleet", `

// Each mistake is an error of its own Application, at its place; the other Application is read.
func TestApplicationErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spec, want string }{
		"another repository": {
			"  source: {repoURL: \"https://git.example.com/acme/other\", path: plain}\n",
			"https://git.example.com/acme/other is not this repository",
		},
		"another revision": {"  source: {" + own + "path: plain, targetRevision: v1}\n", `the revision "v1"`},
		"a wildcard": {
			"  source: {" + own +
				"path: chart, helm: {ignoreMissingValueFiles: true, valueFiles: [\"values-*.yaml\"]}}\n",
			"chart/values-*.yaml: wildcards in the names of values files are not supported",
		},
		"no directory":       {"  source: {" + own + "path: none}\n", `"none" is not a directory`},
		"a path that leaves": {"  source: {" + own + "path: ../x}\n", `"../x" leaves the repository`},
		"a plugin": {
			"  source: {" + own + "path: plain, plugin: {name: x}}\n",
			"plugins are not supported",
		},
		"a hydrator": {"  sourceHydrator: {drySource: {}}\n", "spec.sourceHydrator is not supported"},
		"two tools": {
			"  source: {" + own + "path: plain, helm: {}, kustomize: {}}\n",
			"several tools: helm, kustomize",
		},
		"no values file": {
			"  source: {" + own + "path: chart, helm: {valueFiles: [none.yaml]}}\n",
			"chart/none.yaml does not exist",
		},
		"values that leave": {
			"  source: {" + own + "path: chart, helm: {valueFiles: [../../x.yaml]}}\n",
			"leaves the repository",
		},
		"values from a URL": {
			"  source: {" + own +
				"path: chart, helm: {valueFiles: [\"https://example.com/x.yaml\"]}}\n",
			"values files from URLs are not supported",
		},
		"an unknown ref": {
			"  source: {" + own + "path: chart, helm: {valueFiles: [$v/x.yaml]}}\n",
			`no source has the ref "v"`,
		},
		"a file that leaves": {"  source: {" + own +
			"path: chart, helm: {fileParameters: [{name: a, path: ../../x}]}}\n", "leaves the repository"},
		"bad values": {"  source: {" + own + "path: chart, helm: {values: \"[\"}}\n", "helm.values:"},
		"a bad parameter": {"  source: {" + own +
			"path: chart, helm: {parameters: [{name: \"a[\", value: b}]}}\n", "helm.parameters[0] a["},
		"a revision variable": {
			"  source: {" + own +
				"path: chart, helm: {parameters: [{name: a, value: $ARGOCD_APP_REVISION}]}}\n",
			"ARGOCD_APP_REVISION is not supported",
		},
		"a remote chart's file": {"  source: {repoURL: \"https://charts.example.com\", chart: web, targetRevision: 1.0.0, helm: {valueFiles: [x.yaml]}}\n", "inside a remote chart"},
		"no kustomization": {
			"  source: {" + own + "path: plain, kustomize: {}}\n",
			"plain has no kustomization.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			units, problems, err := argocd.Import(t.Context(), options(base+app(c.spec)))
			if err != nil || len(problems) > 0 || len(units) != 2 {
				t.Fatalf("%d units, %v, %v", len(units), problems, err)
			}
			bad, good := units[0], units[1]
			if bad.Err == nil || !strings.Contains(bad.Err.Error(), c.want) ||
				bad.Origin != (argocd.Origin{File: "argocd/bad.yaml", Line: 2}) {
				t.Errorf("%v: the error is %v, want %q", bad.Origin, bad.Err, c.want)
			}
			if good.Err != nil || len(good.Sources) != 1 || len(good.Sources[0].Objects) != 1 {
				t.Errorf("the failure spread: %+v", good)
			}
		})
	}
}

// Where clusters have labels, a selector that matches none of them generates nothing: that is known.
func TestSelectorsOfKnownLabels(t *testing.T) {
	t.Parallel()
	set := "-- argocd/set.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  generators: [{clusters: {selector: {matchLabels: {tier: edge}}}}]\n  template: {metadata: {name: x}, spec: {project: default, source: {" + own + "path: plain}, destination: {name: prod}}}\n"
	o := options(base + set)
	o.Clusters[0].Labels = map[string]string{"tier": "core"}
	units, problems, err := argocd.Import(t.Context(), o)
	if err != nil || len(units) != 1 || len(problems) != 0 {
		t.Errorf("%d units, %v, %v", len(units), problems, err)
	}
}

// An ApplicationSet that cannot be generated is a problem at its place.
func TestApplicationSetErrors(t *testing.T) {
	t.Parallel()
	const template = "  template: {metadata: {name: \"{{ .name }}\"}, spec: {project: default, source: {" + own +
		"path: plain}, destination: {name: prod}}}\n"
	for name, c := range map[string]struct{ generators, want string }{
		"scmProvider":             {"[{scmProvider: {}}]", "scmProvider asks a server"},
		"pullRequest":             {"[{pullRequest: {}}]", "pullRequest asks a server"},
		"plugin":                  {"[{plugin: {}}]", "plugin asks a server"},
		"clusterDecisionResource": {"[{clusterDecisionResource: {}}]", "clusterDecisionResource asks a server"},
		"an unknown one":          {"[{lists: {}}]", `"lists" is not known`},
		"two in one":              {"[{list: {}, git: {}}]", "both git and list"},
		"one in a matrix": {
			"[{matrix: {generators: [{list: {elements: [{name: a}]}}]}}]",
			"two generators, not 1",
		},
		"a merge without keys": {"[{merge: {generators: [{list: {}}, {list: {}}]}}]", "mergeKeys"},
		"equal merge keys":     {"[{merge: {mergeKeys: [name], generators: [{list: {elements: [{name: a}, {name: a}]}}, {list: {}}]}}]", "two sets of parameters"},
		"equal names":          {"[{list: {elements: [{name: a}, {name: a}]}}]", `two Applications are called "a"`},
		"a missing key":        {"[{list: {elements: [{other: a}]}}]", "map has no entry for key"},
		"another repository":   {"[{git: {repoURL: \"https://git.example.com/acme/other\", directories: [{path: \"*\"}]}}]", "is not this repository"},
		"another revision": {
			"[{git: {" + own + "revision: next, directories: [{path: \"*\"}]}}]",
			`the revision "next"`,
		},
		"a long pattern": {
			"[{git: {" + own + "files: [{path: " + strings.Repeat("a", 1001) + "}]}}]",
			"more than 1000 characters",
		},
		"labels that nobody says": {"[{clusters: {selector: {matchLabels: {tier: edge}}}}]", "it selects clusters by labels, and no file says"},
		"the same in a matrix": {
			"[{matrix: {generators: [{list: {elements: [{a: b}]}}, {clusters: {selector: {matchLabels: {tier: edge}}}}]}}]",
			"it selects clusters by labels, and no file says",
		},
		"a bad selector": {"[{list: {elements: [{name: a}]}, selector: {matchExpressions: [{key: a, operator: Like}]}}]", `"Like" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := "-- argocd/set.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  goTemplate: true\n  goTemplateOptions: [missingkey=error]\n  generators: " + c.generators + "\n" + template
			units, problems, err := argocd.Import(t.Context(), options(base+set))
			if err != nil || len(units) != 1 || len(problems) != 1 || !strings.Contains(problems[0].Message, c.want) ||
				problems[0].Origin.Line != 1 {
				t.Errorf("%d units, %v, %v; want %q", len(units), problems, err, c.want)
			}
		})
	}
}

// A template without end is a problem of its ApplicationSet. The budget is one of the whole import, so templates after
// it are not executed.
func TestTemplatesWithoutEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("five million rounds take seconds")
	}
	set := func(name, text string) string {
		return "-- argocd/" + name +
			".yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: " + name +
			"}\nspec:\n  goTemplate: true\n  generators: [{list: {elements: [{name: a}]}}]\n" +
			"  template: {metadata: {name: \"" + name + text + "\"}, spec: {project: default, source: {" + own +
			"path: plain}, destination: {name: prod}}}\n"
	}
	units, problems, err := argocd.Import(t.Context(), options(base+set("first", "")+set("second",
		"{{ range 100000000000 }}{{ end }}")+set("third", "-{{ .name }}")+set("zero", "")))
	if err != nil || len(units) != 3 || len(problems) != 2 || !strings.Contains(problems[0].Message,
		"is not done after 5000000 rounds") || problems[0].Origin.File != "argocd/second.yaml" ||
		!strings.Contains(problems[1].Message, "the templates before it used up the rounds") ||
		problems[1].Origin.File != "argocd/third.yaml" {
		t.Errorf("%d units, %+v, %v", len(units), problems, err)
	}
}

// Applications that bring each other end at the first repetition, and a unit that must not be built is not.
func TestCyclesAndExclusion(t *testing.T) {
	t.Parallel()
	const loop = "-- argocd/bad.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: loop}\nspec: {project: default, source: {" + own + "path: argocd}, destination: {name: prod}}\n"
	units, _, err := argocd.Import(t.Context(), options(base+loop))
	if err != nil || len(units) != 2 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	refused := errors.New("it took too much memory")
	o := options(base)
	o.Starting = func(string) error { return refused }
	units, _, err = argocd.Import(context.WithoutCancel(t.Context()), o)
	if err != nil || len(units) != 1 || !errors.Is(units[0].Err, refused) {
		t.Errorf("the units are %+v, the error is %v", units, err)
	}
	o = options(base + "-- argocd/set.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: endless}\nspec:\n  generators: [{list: {elements: [{a: b}]}}]\n" +
		"  template: {metadata: {name: x}, spec: {project: default, source: {" + own +
		"path: plain}, destination: {name: prod}}}\n")
	o.Starting = func(name string) error {
		if name == "endless.appset" {
			return refused
		}
		return nil
	}
	units, problems, err := argocd.Import(t.Context(), o)
	if err != nil || len(units) != 1 || units[0].Err != nil || len(problems) != 1 ||
		problems[0].App != "endless.appset" || !strings.Contains(problems[0].Message, refused.Error()) {
		t.Errorf("the units are %+v, the problems are %+v, the error is %v", units, problems, err)
	}
}

// TestGitFiles: a file that is empty has only the parameters of its path, and a pattern that excludes wins over one
// that includes.
func TestGitFiles(t *testing.T) {
	t.Parallel()
	const files = "-- envs/a.yaml --\nregion: eu\n-- envs/b.yaml --\n# nothing\n-- envs/c.yaml --\nregion: us\n"
	for _, c := range []struct{ goTemplate, name string }{
		{"true", "{{ .path.filename }}"},
		{"false", "{{path.filename}}"},
	} {
		set := "-- argocd/set.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  goTemplate: " + c.goTemplate +
			"\n  generators: [{git: {" + own +
			"files: [{path: envs/c.yaml, exclude: true}, {path: \"envs/*.yaml\"}]}}]\n" +
			"  template: {metadata: {name: \"" + c.name + "\"}, spec: {project: default, source: {" + own +
			"path: plain}, destination: {name: prod}}}\n"
		units, problems, err := argocd.Import(t.Context(), options(base+files+set))
		var names []string
		for _, u := range units {
			names = append(names, u.Name)
		}
		if got := strings.Join(names, " "); err != nil || len(problems) > 0 || got != "good a.yaml b.yaml" {
			t.Errorf("goTemplate %s: %q, %v, %v", c.goTemplate, got, problems, err)
		}
	}
}

// The values of the second generator of a matrix may use its own parameters since Argo CD 3.4, beside those of the
// first.
func TestValuesInAMatrix(t *testing.T) {
	t.Parallel()
	const cluster = "{clusters: {values: {at: \"{{ .name }}-{{ .server | len }}\", from: \"{{ .first }}\"}}}"
	for name, c := range map[string]struct {
		second, name  string
		since, before string // names of Applications, or a part of the error
	}{
		"its own": {
			"{git: {" + own +
				"directories: [{path: \"envs/*\"}], values: {at: \"{{ .path.basename }}\"}}}", "{{ .values.at }}", "a b",
			`map has no entry for key "path"`,
		},
		"of the first": {
			"{git: {" + own + "directories: [{path: \"envs/*\"}], values: {at: \"{{ .first }}\"}}}",
			"{{ .values.at }}-{{ .path.basename }}", "x-a x-b", "x-a x-b",
		},
		"in another field": {
			"{git: {" + own +
				"directories: [{path: \"{{ .dir }}/*\"}], values: {at: \"{{ .path.basename }}\"}}}", "{{ .values.at }}",
			"a b", `map has no entry for key "path"`,
		},
		"of a cluster": {
			cluster, "{{ .values.at }}-{{ .values.from }}", "prod-24-x",
			`map has no entry for key "name"`,
		},
		"of both in one text": {
			"{clusters: {values: {at: \"{{ .first }}{{ .name }}\"}}}", "x",
			`map has no entry for key "first"`, `map has no entry for key "name"`,
		},
		"deferred": {
			"{clusters: {values: {at: \"{{ `{{ .name }}` }}\"}}}", "{{ .values.at }}", "prod",
			"prod",
		},
		"below a merge": {
			"{merge: {mergeKeys: [name], generators: [" + cluster + ", {list: {elements: []}}]}}",
			"{{ .values.from }}-{{ .values.at }}", "x-prod-24", `map has no entry for key "name"`,
		},
		"a wrong template": {"{clusters: {values: {at: \"{{ fail `no` }}\"}}}", "x", "fail: no", "fail: no"},
	} {
		set := "-- argocd/set.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  goTemplate: true\n  goTemplateOptions: [missingkey=error]\n" +
			"  generators: [{matrix: {generators: [{list: {elements: [{first: x, dir: envs}]}}, " + c.second +
			"]}}]\n" +
			"  template: {metadata: {name: \"" + c.name + "\"}, spec: {project: default, source: {" + own +
			"path: plain}, destination: {name: prod}}}\n"
		for templates, want := range map[bool]string{true: c.since, false: c.before} {
			o := options(base + "-- envs/a/x.yaml --\n-- envs/b/x.yaml --\n" + set)
			o.TemplatesValues = templates
			units, problems, err := argocd.Import(t.Context(), o)
			if err != nil {
				t.Fatalf("%s: the error is %v", name, err)
			}
			var got []string
			for _, u := range units {
				if u.Name != "good" {
					got = append(got, u.Name)
				}
			}
			for _, p := range problems {
				got = append(got, p.Message)
			}
			if text := strings.Join(got, " "); text != want && (len(problems) == 0 || !strings.Contains(text, want)) {
				t.Errorf("%s, templates in values %t: got %q, want %q", name, templates, text, want)
			}
		}
	}
}

// TestOrphan: Argo CD deletes an Application's objects with it only if the Application has the finalizer, in any of its
// forms.
func TestOrphan(t *testing.T) {
	t.Parallel()
	for finalizers, want := range map[string]bool{
		"":                                true,
		"finalizers: [example.com/other]": true,
		"finalizers: [resources-finalizer.argocd.argoproj.io]":                           false,
		"finalizers: [resources-finalizer.argocd.argoproj.io/foreground]":                false,
		"finalizers: [x.example.com, resources-finalizer.argocd.argoproj.io/background]": false,
	} {
		text := strings.Replace(base, "metadata: {name: good}", "metadata: {name: good, "+finalizers+"}", 1)
		units, problems, err := argocd.Import(t.Context(), options(text))
		if err != nil || len(problems) > 0 || len(units) != 1 || units[0].Err != nil {
			t.Fatalf("%q: the units are %+v, the problems are %v, the error is %v", finalizers, units, problems, err)
		}
		if units[0].Orphan != want {
			t.Errorf("%q: orphan %v, want %v", finalizers, units[0].Orphan, want)
		}
	}
	// An ApplicationSet adds the finalizer to Applications that have none.
	set := "-- argocd/set.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  generators: [{list: {elements: [{name: made}]}}]\n" +
		"  template: {metadata: {name: \"{{name}}\"}, spec: {project: default, source: {" + own +
		"path: plain}, destination: {name: prod}}}\n"
	units, problems, err := argocd.Import(t.Context(), options(base+set))
	if err != nil || len(problems) > 0 || len(units) != 2 {
		t.Fatalf("the units are %+v, the problems are %v, the error is %v", units, problems, err)
	}
	for _, u := range units {
		if want := u.Name == "good"; u.Orphan != want {
			t.Errorf("%s: orphan %v, want %v", u.Name, u.Orphan, want)
		}
	}
}

// Clusters of the fleet count as registered in Argo CD, so they have the label of a cluster Secret. The cluster that
// Argo CD runs in has no Secret.
func TestClustersAreRegistered(t *testing.T) {
	t.Parallel()
	set := func(name, selector string) string {
		return "---\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: " + name +
			"}\nspec:\n  generators: [{clusters: {" + selector + "}}]\n" +
			"  template: {metadata: {name: \"" + name + "-{{name}}\"}, spec: {project: default, source: {" + own +
			"path: plain}, destination: {server: \"{{server}}\"}}}\n"
	}
	o := options(base + "-- argocd/sets.yaml --\n" + set("all", "") +
		set("secret", "selector: {matchLabels: {argocd.argoproj.io/secret-type: cluster}}") +
		set("labeled", "selector: {matchLabels: {tier: a}}"))
	o.Clusters = append(o.Clusters, argocd.Cluster{Name: "local", Server: "https://kubernetes.default.svc"},
		argocd.Cluster{Name: "labeled", Server: "https://labeled", Labels: map[string]string{"tier": "a"}})
	units, problems, err := argocd.Import(t.Context(), o)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	var got []string
	for _, u := range units {
		if u.Err != nil {
			t.Errorf("%s: the error is %v", u.Name, u.Err)
		}
		got = append(got, u.Name)
	}
	slices.Sort(got)
	if want := []string{
		"all-labeled", "all-local", "all-prod", "good", "labeled-labeled", "secret-labeled",
		"secret-prod",
	}; !slices.Equal(got, want) {
		t.Errorf("the result is %q, want %q", got, want)
	}
	if len(o.Clusters[0].Labels) > 0 {
		t.Error("the caller's clusters changed")
	}
}
