package gitops

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const describing = `apiVersion: sluice.dev/v1alpha1
kind: App
metadata: {name: workload}
spec: {namespace: n, placement: {}, forEach: {clusters: {}}, source: {manifests: {path: m}}}
`

// The health checks that bootstrap prints for objects of Cluster API, evaluated as kustomize-controller does.
func TestHealthOfClusterAPI(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sluice.yaml":            "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"clusters/c.yaml":        "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {environment: dev}\n",
		"apps/workload/app.yaml": describing, "m/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "-C", dir, "init", "-q", "-b", "main").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.Command(binary, "bootstrap", "flux", "--repo", dir, "--url", "https://github.com/acme/fleet", "-o", "json")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Kind string
			Spec struct {
				Timeout          string
				HealthCheckExprs []kustomize.CustomHealthCheck
			}
		}
	}
	if err := yaml.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	evaluators := map[string]*cel.StatusEvaluator{}
	for _, o := range list.Items {
		if _, err := cel.NewStatusReader(o.Spec.HealthCheckExprs); err != nil {
			t.Fatal(err) // kustomize-controller refuses the Kustomization
		}
		for _, e := range o.Spec.HealthCheckExprs {
			group, _, _ := strings.Cut(e.APIVersion, "/")
			if evaluators[group+" "+e.Kind], err = cel.NewStatusEvaluator(&e.HealthCheckExpressions); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := os.ReadFile("../../hydrate/bootstrap/testdata/clusterapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Want string
		Object     map[string]any
	}
	if err := yaml.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		text, err := yaml.Marshal(c.Object)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if text, err = yaml.YAMLToJSON(text); err == nil {
			err = u.UnmarshalJSON(text) // whole numbers are int64, as the API server sends them
		}
		if err != nil {
			t.Fatal(err)
		}
		e := evaluators[u.GroupVersionKind().Group+" "+u.GetKind()]
		if e == nil {
			t.Fatalf("%s: there is no health check", c.Name)
		}
		result, err := e.Evaluate(t.Context(), u)
		if err != nil || result.Status.String() != c.Want {
			t.Errorf("%s: %v, %v, want %s", c.Name, result, err, c.Want)
		}
	}
	if len(cases) < 30 {
		t.Errorf("%d cases", len(cases))
	}
}
