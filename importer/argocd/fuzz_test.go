package argocd_test

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/importer/argocd"
)

// FuzzImport reads a file beside Applications that somebody else wrote. Whatever it says, each Application has a place
// in the repository, one that fails says why, and the chart of one is inside the repository.
func FuzzImport(f *testing.F) {
	seed := func(archive string) {
		for _, file := range txtar.Parse([]byte(archive)).Files {
			if file.Name == "argocd/bad.yaml" {
				f.Add(file.Data)
			}
		}
	}
	seed(app("  source: {" + own + "path: plain}\n"))
	seed(app("  source: {" + own + "path: ../x, targetRevision: v1}\n"))
	seed(app("  source: {" + own +
		"path: chart, helm: {valueFiles: [../../x.yaml, $v/x.yaml], values: \"a: &a [1]\\nb: *a\", parameters: [{name: \"a[0].b\", value: $ARGOCD_APP_NAME}]}}\n"))
	seed(app("  sources:\n  - {" + own +
		"ref: v}\n  - {repoURL: \"https://charts.example.com\", chart: web, targetRevision: 1.0.0, helm: {valueFiles: [$v/plain/config.yaml]}}\n"))
	seed(app("  source: {" + own +
		"path: plain, kustomize: {images: [\"a=b:c\"], patches: [{patch: \"[]\", target: {kind: A}}]}}\n"))
	for _, generators := range []string{
		"list: {elements: [{name: a}, {name: \"../b\"}]}", "clusters: {selector: {matchLabels: {a: b}}}",
		"git: {repoURL: \"https://git.example.com/acme/fleet\", files: [{path: \"**/*.yaml\"}]}",
		"matrix: {generators: [{list: {elements: [{a: b}]}}, {git: {repoURL: \"https://git.example.com/acme/fleet\", directories: [{path: \"*\"}]}}]}",
		"merge: {mergeKeys: [a], generators: [{list: {elements: [{a: b}]}}, {list: {elements: [{a: b, c: d}]}}]}",
	} {
		f.Add([]byte("apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  goTemplate: true\n  generators:\n  - " + generators +
			"\n  template:\n    metadata: {name: 'x-{{ .name | default \"y\" }}'}\n    spec: {project: default, source: {" + own + "path: plain}, destination: {name: prod}}\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 8<<10 {
			return
		}
		units, problems, err := argocd.Import(t.Context(), options(base+"-- argocd/bad.yaml --\n"+string(data)))
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without a text")
			}
			return
		}
		for _, p := range problems {
			if p.Message == "" {
				t.Fatalf("the problem is %+v", p)
			}
		}
		for _, u := range units {
			if u.Err != nil && u.Err.Error() == "" {
				t.Fatalf("the unit is %+v", u)
			}
			for _, s := range u.Sources {
				if s.Chart != nil && s.Chart.Path != "" && !filepath.IsLocal(s.Chart.Path) {
					t.Fatalf("the chart of %s is at %q", u.Name, s.Chart.Path)
				}
			}
		}
	})
}
