package importer

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
)

const substitutingFleet = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  import: [{flux: {clusters: {prod: {environment: prod, path: clusters/prod}}}}]
-- app/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {color: "${color}${size}"}
-- clusters/prod/app.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: flux-system}
spec: {path: ./app, prune: true, sourceRef: {kind: GitRepository, name: flux-system}, postBuild: {substitute: {color: red}}}
`

// The feature gate of kustomize-controller can be switched off in the entry.
func TestStrictSubstitutions(t *testing.T) {
	t.Parallel()
	for files, want := range map[string]string{
		substitutingFleet: "app/config.yaml:4: ConfigMap default/config: spec.postBuild: the variable size is not set",
		strings.Replace(substitutingFleet, "flux: {", "flux: {strictPostBuildSubstitutions: true, ",
			1): "the variable size is not set",
		strings.Replace(substitutingFleet, "flux: {", "flux: {strictPostBuildSubstitutions: false, ", 1): "",
	} {
		got := ""
		if err := loaded(t, files).ImportedTarget("prod", "app").Err; err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("the error is %q, want %q", got, want)
		}
	}
}

// A unit that waits for one that does not exist is a warning with its place, unless a unit that fails may bring it.
func TestUnknownDependency(t *testing.T) {
	t.Parallel()
	base := strings.Replace(substitutingFleet, "${size}", "", 1)
	waiting := strings.Replace(base, "prune: true,", "prune: true, dependsOn: [{name: db}],", 1)
	other := func(path string) string {
		return "-- clusters/prod/db.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: db, namespace: flux-system}\nspec: {path: " + path + ", prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n"
	}
	const want = "app on prod: spec.dependsOn: Kustomization flux-system/db does not exist, so Flux never applies it"
	for files, warned := range map[string]bool{
		base: false, waiting: true, waiting + other("./app"): false,
		waiting + strings.Replace(other("./none"), "name: db", "name: broken", 1): false,
	} {
		_, problems := (fleet.Loader{Importer: New(nil)}).Load(t.Context(), tree(files))
		got := slices.ContainsFunc(problems, func(p fleet.Problem) bool {
			return p.Message == want && p.File == "clusters/prod/app.yaml" && p.Line == 1 &&
				p.Severity == fleet.SeverityWarning
		})
		if got != warned {
			t.Errorf("warned: %v, want %v: %v", got, warned, problems)
		}
	}
}

// The schema of charts is left out where the entry or the HelmRelease says so.
func TestSchemaOfImports(t *testing.T) {
	t.Parallel()
	release := func(spec string) string {
		return strings.Replace(substitutingFleet, "${size}", "", 1) +
			"-- charts/web/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n-- app/release.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\n" +
			"spec: {interval: 1h, " + spec +
			"chart: {spec: {chart: ./charts/web, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}}\n"
	}
	for name, c := range map[string]struct{ files, want string }{
		"by default": {release(""), ""},
		"install":    {release("install: {disableSchemaValidation: true}, "), "skip"},
		"upgrade":    {release("upgrade: {disableSchemaValidation: true}, "), "skip"},
		"the entry":  {strings.Replace(release(""), "import: [{", "import: [{schema: skip, ", 1), "skip"},
	} {
		target := loaded(t, c.files).ImportedTarget("prod", "web.web")
		if target == nil || target.Err != nil {
			t.Errorf("%s: the release is not imported: %+v", name, target)
			continue
		}
		if got := target.Sources[0].Helm.Schema; got != c.want {
			t.Errorf("%s: the schema is %q, want %q", name, got, c.want)
		}
	}
}

// A name in which a template puts a missing value is an error.
func TestNoValueInNames(t *testing.T) {
	t.Parallel()
	files := strings.Replace(strings.Replace(substitutingFleet, "${size}", "", 1), "{name: config}",
		"{name: \"<no value>-config\"}", 1)
	if err := loaded(t, files).ImportedTarget("prod", "app").Err; err == nil ||
		!strings.Contains(err.Error(), "<no value>") {
		t.Errorf("the error of a ConfigMap is %v, want one that names <no value>", err)
	}
	const set = "-- sluice.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec:\n  environments: [{name: prod}]\n  import: [{argocd: {clusters: {prod: {environment: prod}}}}]\n-- set.yaml --\n" +
		"apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  goTemplate: true\n  generators: [{list: {elements: [{a: prod}]}}]\n" +
		"  template: {metadata: {name: \"{{.x}}-web\"}, spec: {project: default, source: {repoURL: \"https://git.example.com/acme/fleet\", path: app}, destination: {name: \"{{.a}}\"}}}\n-- app/config.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"
	f, problems := (fleet.Loader{Importer: New(nil)}).Load(t.Context(), tree(set))
	var got []string
	for _, one := range f.Imports() {
		if one.Err != nil {
			got = append(got, one.Err.Error())
		}
	}
	if text := strings.Join(got, "\n"); !strings.Contains(text, `an Application has the name "<no value>-web"`) {
		t.Errorf("the errors of the ApplicationSet are %q (problems %v), want one that names <no value>", text,
			problems)
	}
}
