package compare_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// The cause of a group is the only changed place that its targets read.
func TestCauses(t *testing.T) {
	r := hydratetest.Demo(t)
	const template = "charts/web/templates/deployment.yaml"
	append1 := func(name, text string) { r.Write(name, r.Read(name)+text) }
	replace := func(name, old, by string) {
		text := r.Read(name)
		if !strings.Contains(text, old) {
			t.Fatalf("%s lacks %q", name, old)
		}
		r.Write(name, strings.Replace(text, old, by, 1))
	}
	for name, tc := range map[string]struct {
		edit func()
		want map[string]string // causes by app
	}{
		"a line of a template that two apps share": {
			func() { replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n") },
			map[string]string{"shop": template + ":7", "gateway": template + ":7"},
		},
		"two lines of it": {
			func() {
				replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n")
				append1(template, "          tty: true\n")
			},
			map[string]string{"shop": template, "gateway": template},
		},
		"a line and a comment elsewhere": {
			func() {
				replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n")
				append1("layers/global/values.yaml", "# comment\n")
			},
			map[string]string{"shop": template + ":7", "gateway": template + ":7"},
		},
		"a line, and another file that one app reads": {
			func() {
				replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n")
				r.Write("apps/shop/layers/class/core/values.yaml", "replicas: 9\n")
			},
			map[string]string{"shop": "none", "gateway": template + ":7"},
		},
		"a value of a layer": {
			func() { replace("layers/environment/dev/values.yaml", "debug", "trace") },
			map[string]string{"shop": "layers/environment/dev/values.yaml:1", "gateway": "layers/environment/dev/values.yaml:1"},
		},
	} {
		tc.edit()
		r.Commit(name)
		got := causesOf(t, r)
		for app, want := range tc.want {
			if cause, ok := got[app]; !ok || cause != want {
				t.Errorf("%s: the cause of %s (changed: %t): got %q, want %q", name, app, ok, cause, want)
			}
		}
		r.Git("reset", "-q", "--hard", "HEAD~1")
	}
}

// causesOf returns the causes of each app that the last commit changes, sorted; "none" is that of a group without one.
func causesOf(t *testing.T, r *hydratetest.Repo) map[string]string {
	t.Helper()
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	causes := map[string][]string{}
	for _, g := range c.Changes.Groups {
		cause := "none"
		if g.Cause != nil {
			cause = g.Cause.String()
		}
		causes[g.App] = append(causes[g.App], cause)
	}
	got := map[string]string{}
	for app, list := range causes {
		slices.Sort(list)
		got[app] = strings.Join(slices.Compact(list), ", ")
	}
	return got
}

// The places of objects of another tool are causes, too: what a target's tool read is what it may come from.
func TestCausesInImports(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		first  map[string][2]string // edits before the change
		edits  map[string][2]string // by file
		want   map[string]string    // causes by app
	}{
		"a template of a chart": {
			"import_flux", nil,
			map[string][2]string{"charts/web/templates/deployment.yaml": {"spec:\n  replicas", "spec:\n  minReadySeconds: 7\n  replicas"}},
			map[string]string{"web.web": "charts/web/templates/deployment.yaml:6"},
		},
		"values that a Kustomization applies and a HelmRelease reads": {
			"import_flux", nil,
			map[string][2]string{"apps/prod/values.yaml": {"replicas: 5", "replicas: 7"}},
			map[string]string{"web.web": "apps/prod/values.yaml:6", "apps": "apps/prod/values.yaml:6"},
		},
		"a base of both clusters": {
			"import_flux", nil,
			map[string][2]string{"apps/base/config.yaml": {"metadata:", "# moved\nmetadata:"}, "apps/base/release.yaml": {"spec:\n", "spec:\n  values: {replicas: 9}\n"}},
			map[string]string{"web.web": "apps/base/release.yaml:5"},
		},
		"two places, of which one cluster and one app read only one": {
			"import_flux", nil,
			map[string][2]string{
				"charts/web/templates/deployment.yaml": {"spec:\n  replicas", "spec:\n  minReadySeconds: 7\n  replicas"},
				"apps/prod/values.yaml":                {"replicas: 5", "replicas: 7"},
			},
			map[string]string{
				"apps":    "apps/prod/values.yaml:6",
				"web.web": "charts/web/templates/deployment.yaml:6, none", // on staging, and on prod
			},
		},
		"a ConfigMap of another Kustomization": {
			"import_flux",
			map[string][2]string{
				"clusters/prod/shared.yaml": {"", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: shared, namespace: flux-system}\nspec: {interval: 10m, path: ./shared, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n"},
				"shared/values.yaml":        {"", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, namespace: web}\ndata: {values.yaml: \"replicas: 3\"}\n"},
				"apps/base/release.yaml":    {"{kind: ConfigMap, name: web-values}", "{kind: ConfigMap, name: web-values}, {kind: ConfigMap, name: shared, optional: true}"},
			},
			map[string][2]string{"shared/values.yaml": {"replicas: 3", "replicas: 4"}, "apps/base/config.yaml": {"  color:", "  size: big\n  color:"}},
			map[string]string{"shared": "shared/values.yaml:4", "web.web": "none", "apps": "apps/base/config.yaml:5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := imported(t, tc.script)
			edit := func(edits map[string][2]string) {
				for file, edit := range edits {
					text := ""
					if edit[0] != "" {
						text = r.Read(file)
					}
					if !strings.Contains(text, edit[0]) {
						t.Fatalf("%s lacks %q", file, edit[0])
					}
					r.Write(file, strings.Replace(text, edit[0], edit[1], 1))
				}
			}
			edit(tc.first)
			if tc.first != nil {
				r.Commit("first")
			}
			edit(tc.edits)
			r.Commit(name)
			got := causesOf(t, r)
			for app, want := range tc.want {
				if cause, ok := got[app]; !ok || cause != want {
					t.Errorf("the cause of %s (changed: %t): got %q, want %q; all: %v", app, ok, cause, want, got)
				}
			}
		})
	}
}

// Whoever changes only another file than a cause does not change the targets of the cause: pairs of files of these
// repositories are changed together and alone.
func TestCausesAreTheOnlyOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	for _, script := range []string{"import_flux", "import_argocd"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r := imported(t, script)
			mutants, alone := map[string]string{}, map[string]map[string]bool{}
			for name := range strings.FieldsSeq(r.Git("ls-files")) {
				if all := mutationsOf(r.Read(name), 1); len(all) > 1 && name != "sluice.yaml" {
					r.Write(name, all[1])
					if r.Commit("change " + name); len(groupsOf(t, r)) > 0 {
						mutants[name] = all[1]
						alone[name] = map[string]bool{}
						for _, g := range groupsOf(t, r) {
							for _, cluster := range g.Clusters {
								alone[name][cluster+"/"+g.App] = true
							}
						}
					}
					r.Git("reset", "-q", "--hard", "HEAD~1")
				}
			}
			names, named := slices.Sorted(maps.Keys(mutants)), 0
			for i, a := range names {
				for _, b := range names[:i] {
					r.Write(a, mutants[a])
					r.Write(b, mutants[b])
					r.Commit("change " + a + " and " + b)
					for _, g := range groupsOf(t, r) {
						if g.Cause == nil {
							continue
						}
						named++
						other := a
						if g.Cause.File == a {
							other = b
						}
						for _, cluster := range g.Clusters {
							if alone[other][cluster+"/"+g.App] {
								t.Errorf("%s and %s: the cause of %s on %s is %s, but %s alone changes it", a, b, g.App, cluster, g.Cause, other)
							}
						}
					}
					r.Git("reset", "-q", "--hard", "HEAD~1")
				}
			}
			if named == 0 {
				t.Error("no change has a cause")
			}
			t.Logf("%d files change objects; %d groups of their pairs have a cause", len(names), named)
		})
	}
}

func groupsOf(t *testing.T, r *hydratetest.Repo) []diff.Group {
	t.Helper()
	c, err := compare.Run(t.Context(), r.Hydrator(2), compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	if err != nil {
		return nil // the files make no fleet
	}
	defer c.Close()
	return c.Changes.Groups
}

// imported returns the repository of a script, with the fleet that imports it.
func imported(t *testing.T, script string) *hydratetest.Repo {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join(hydratetest.Root(t), "testdata/script", script+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	r := hydratetest.New(t)
	for _, f := range archive.Files {
		if strings.Contains(f.Name, "/") || f.Name == "sluice.yaml" {
			r.Write(f.Name, string(f.Data))
		}
	}
	if f := fleets[script]; f != "" {
		r.Write("sluice.yaml", f)
	}
	r.Commit("start")
	return r
}
