package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The printed expression, evaluated as notification-controller does, gives the names of Flux's commit statuses.
func TestNamesOfFluxStatuses(t *testing.T) {
	s := newSource(t)
	for _, cluster := range []string{"prod-eu-1", "dev-edge-1"} {
		var provider, alert *unstructured.Unstructured
		names := []string{}
		for _, o := range s.bootstrap("flux", cluster, "--forge=github") {
			switch o.GetKind() {
			case "Provider":
				provider = o
			case "Alert":
				alert = o
			case "Kustomization":
				names = append(names, o.GetName())
			}
		}
		if provider == nil || alert == nil || len(names) == 0 {
			t.Fatal("something is missing")
		}
		text, _, _ := unstructured.NestedString(provider.Object, "spec", "commitStatusExpr")
		expression, err := cel.NewExpression(text, cel.WithCompile(), cel.WithOutputType(types.StringType),
			cel.WithStructVariables("event", "alert", "provider"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			got, err := expression.EvaluateString(t.Context(), map[string]any{
				"event":    map[string]any{"involvedObject": map[string]any{"kind": "Kustomization", "name": name}},
				"provider": provider.Object, "alert": alert.Object,
			})
			if want := "kustomization/" + name + "/" + cluster; err != nil || got != want {
				t.Errorf("the status is %q, not %q: %v", got, want, err)
			}
		}
	}
}

// The exclusions of the printed Alert match the messages of kustomize-controller while it waits.
func TestExcludedEventsAreFluxs(t *testing.T) {
	var source string
	for _, r := range released {
		if strings.Contains(r.module, "/kustomize-controller@") {
			data, err := os.ReadFile(filepath.Join(download(t, r.module, r.sum), "internal", "controller",
				"kustomization_controller.go"))
			if err != nil {
				t.Fatal(err)
			}
			source = string(data)
		}
	}
	s := newSource(t)
	excluded := 0
	for _, o := range s.bootstrap("flux", "prod-eu-1", "--forge=github") {
		list, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "exclusionList")
		for _, pattern := range list {
			excluded++
			if !strings.Contains(source, `"`+strings.TrimPrefix(pattern, "^")) {
				t.Errorf("kustomize-controller says nothing like %s", pattern)
			}
		}
	}
	if excluded != 2 {
		t.Errorf("%d patterns", excluded)
	}
}
