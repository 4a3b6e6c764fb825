package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/fluxcd/notification-controller/api/v1" // generate reads its source
	_ "github.com/fluxcd/notification-controller/api/v1beta3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

// released are modules whose archives contain CRDs. The checksums pin the reviewed content.
var released = []struct {
	module, sum string
	files       []string
}{
	{
		"github.com/fluxcd/source-controller@v1.9.6", "h1:nG534/bI6nVpyHra7ONAk6xDB3xPsVT+EOLHZHXPrrc=",
		[]string{
			"config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml",
			"config/crd/bases/source.toolkit.fluxcd.io_ocirepositories.yaml",
		},
	},
	{
		"github.com/fluxcd/kustomize-controller@v1.9.6", "h1:XB+G3A0mky0j5uVHZWv4oSlS2RvZBoNIUhstIvY0JKE=",
		[]string{"config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"},
	},
	{
		"github.com/argoproj/argo-cd/v3@v3.5.7", "h1:Xm1BF+I5OgDKUG3SDK49vn2/Y5AMyaNVko+/JT08gj0=",
		[]string{"manifests/crds/application-crd.yaml", "manifests/crds/applicationset-crd.yaml"},
	},
}

// Checks every kind of output against the projects' schemas as an API server does: defaults, types, rules in CEL, and
// no unknown field.
func TestPrintedObjectsFitTheCRDs(t *testing.T) {
	kinds := crds(t)
	s := newSource(t)
	const gitlab = "--url=git@gitlab.example.com:acme/platform/fleet.git"
	seen := map[string]int{}
	for _, args := range [][]string{
		{"flux", "--forge=github", "--receiver=hook"},
		{"flux", gitlab, "--secret=", "--timeout=90s", "--interval=1h"},
		{"flux", "--forge=none"},
		{"argocd", "--forge=github"},
		{"argocd", gitlab, "--hub"},
		{"argocd", "--forge=github", "--applicationset"},
		{"argocd", gitlab, "--applicationset", "--hub", "--create-namespaces=false"},
	} {
		for _, o := range s.bootstrap(args[0], "prod-eu-1", args[1:]...) {
			seen[o.GetKind()]++
			if o.GetKind() == "Namespace" || o.GetKind() == "ConfigMap" { // built-in kinds
				continue
			}
			if err := kinds.check(t.Context(), o); err != nil {
				t.Errorf("%s: %s %s: %v", strings.Join(args, " "), o.GetKind(), o.GetName(), err)
			}
		}
	}
	for _, kind := range []string{
		"GitRepository", "Kustomization", "Provider", "Alert", "Receiver", "Application",
		"ApplicationSet", "ConfigMap", "Namespace",
	} {
		if seen[kind] == 0 {
			t.Errorf("no %s was printed", kind)
		}
	}
}

// Objects with mistakes fail the check.
func TestBrokenObjectsDoNotFit(t *testing.T) {
	kinds := crds(t)
	s := newSource(t)
	printed := map[string]*unstructured.Unstructured{}
	for _, kind := range []string{"flux", "argocd"} {
		args := []string{"--forge=github"}
		if kind == "flux" {
			args = append(args, "--receiver=hook")
		}
		for _, o := range s.bootstrap(kind, "prod-eu-1", args...) {
			printed[o.GetKind()] = o
		}
	}
	for name, c := range map[string]struct {
		kind  string
		value any
		path  []string
		want  string
	}{
		"misspelt": {"Kustomization", true, []string{"spec", "prunes"}, "spec.prunes"},
		"misspelt, deep": {
			"Application", true,
			[]string{"spec", "syncPolicy", "automated", "selfheal"},
			"spec.syncPolicy.automated.selfheal",
		},
		"no type of it":    {"Kustomization", "yes", []string{"spec", "prune"}, "spec.prune"},
		"no duration":      {"GitRepository", "soon", []string{"spec", "interval"}, "spec.interval"},
		"scp's address":    {"GitRepository", "git@github.com:acme/fleet.git", []string{"spec", "url"}, "spec.url"},
		"missing":          {"Kustomization", nil, []string{"spec", "sourceRef"}, "spec.sourceRef"},
		"unknown provider": {"Provider", "githubb", []string{"spec", "type"}, "spec.type"},
		"misspelt provider": {
			"Provider", "x",
			[]string{"spec", "commitStatusExpression"},
			"spec.commitStatusExpression",
		},
		"rule in CEL":        {"Provider", "slack", []string{"spec", "type"}, "commitStatusExpr"},
		"receiver's secret":  {"Receiver", nil, []string{"spec", "secretRef"}, "secretRef is required"},
		"misspelt exclusion": {"Alert", []any{}, []string{"spec", "exclusions"}, "spec.exclusions"},
		"version":            {"Receiver", "notification.toolkit.fluxcd.io/v9", []string{"apiVersion"}, "no CRD"},
	} {
		o := printed[c.kind].DeepCopy()
		if err := kinds.check(t.Context(), o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.value == nil {
			unstructured.RemoveNestedField(o.Object, c.path...)
		} else if err := unstructured.SetNestedField(o.Object, c.value, c.path...); err != nil {
			t.Fatal(err)
		}
		if err := kinds.check(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// definitions maps group, version and kind to the version of a CRD.
type definitions map[schema.GroupVersionKind]*definition

type definition struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// check does the same as an API server before it stores an object. It also fails for a field that the server would
// drop.
func (d definitions) check(ctx context.Context, o *unstructured.Unstructured) error {
	v, ok := d[o.GroupVersionKind()]
	if !ok {
		return fmt.Errorf("no CRD serves %s", o.GroupVersionKind())
	}
	o = o.DeepCopy()
	unknown := pruning.PruneWithOptions(o.Object, v.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		return fmt.Errorf("unknown fields %s", strings.Join(unknown, ", "))
	}
	defaulting.Default(o.Object, v.structural)
	errs := validation.ValidateCustomResource(nil, o.Object, v.validator)
	rules, _ := v.rules.Validate(ctx, field.NewPath(""), v.structural, o.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, rules...).ToAggregate()
}

func (d definitions) add(t *testing.T, c *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, v := range c.Spec.Versions {
		if v.Schema == nil {
			continue
		}
		internal := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, internal, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
		if err != nil {
			t.Fatalf("%s %s: %v", c.Name, v.Name, err)
		}
		validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		gvk := schema.GroupVersionKind{Group: c.Spec.Group, Version: v.Name, Kind: c.Spec.Names.Kind}
		d[gvk] = &definition{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
	}
}

// crds returns the CRDs of the released archives and those of notification-controller. The Go proxy does not serve
// the root module of the latter, so its CRDs are generated from its API types with the same library as its own.
func crds(t *testing.T) definitions {
	t.Helper()
	if known != nil {
		return known
	}
	out := definitions{}
	for _, r := range released {
		dir := download(t, r.module, r.sum)
		for _, name := range r.files {
			data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			c := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(data, c); err != nil {
				t.Fatal(err)
			}
			out.add(t, c)
		}
	}
	for _, c := range generate(t, "github.com/fluxcd/notification-controller/api/",
		map[string]string{"Provider": "v1beta3", "Alert": "v1beta3", "Receiver": "v1"}) {
		out.add(t, c)
	}
	known = out
	return out
}

// known caches the CRDs; the tests here do not run in parallel.
var known definitions

// download returns the folder of a module's files.
func download(t *testing.T, module, sum string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	c.Dir = t.TempDir() // not this module: the archive is read, and none of it is built
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", module, err, out)
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Sum != sum {
		t.Fatalf("%s has the sum %s, not %s", module, got.Sum, sum)
	}
	return got.Dir
}

// generate generates the CRDs of kinds, each from the given version.
func generate(t *testing.T, path string, kinds map[string]string) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var out []*apiextensionsv1.CustomResourceDefinition
	for kind, version := range kinds {
		roots, err := loader.LoadRoots(path + version)
		if err != nil {
			t.Fatal(err)
		}
		registry := &markers.Registry{}
		if err := (crd.Generator{}).RegisterMarkers(registry); err != nil {
			t.Fatal(err)
		}
		parser := &crd.Parser{Collector: &markers.Collector{Registry: registry}, Checker: &loader.TypeChecker{}}
		crd.AddKnownTypes(parser)
		for _, root := range roots {
			if len(root.Errors) > 0 {
				t.Fatal(root.Errors)
			}
			parser.NeedPackage(root)
		}
		found := false
		for _, gk := range crd.FindKubeKinds(parser, crd.FindMetav1(roots)) {
			if gk.Kind != kind {
				continue
			}
			parser.NeedCRDFor(gk, nil)
			c, ok := parser.CustomResourceDefinitions[gk]
			if ok {
				crd.FixTopLevelMetadata(c)
				out = append(out, &c)
				found = true
			}
		}
		if !found {
			t.Fatalf("no type of %s%s is a %s", path, version, kind)
		}
	}
	return out
}
