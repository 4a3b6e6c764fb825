package gitops

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// The exclusions of the printed Alert match what kustomize-controller says while it waits and works, and neither its
// success nor its errors.
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
	texts := []string{"Dependencies do not meet ready condition", "Health checks canceled", "Health check passed in"}
	messages := []string{}
	for _, text := range texts {
		if !strings.Contains(source, `"`+text) {
			t.Errorf("kustomize-controller says nothing like %s", text)
		}
		messages = append(messages, text+" 5s")
	}
	// of a change set of fluxcd/pkg/ssa
	for _, action := range []string{"created", "configured", "unchanged", "deleted", "skipped", "unknown"} {
		messages = append(messages, "Namespace/shop "+action+"\nDeployment/shop/shop "+action, "ClusterRole/harbour:collector "+action)
	}
	s := newSource(t)
	var patterns []*regexp.Regexp
	for _, o := range s.bootstrap("flux", "prod-eu-1", "--forge=github") {
		list, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "exclusionList")
		for _, pattern := range list {
			patterns = append(patterns, regexp.MustCompile(pattern))
		}
	}
	excluded := func(message string) bool {
		return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(message) })
	}
	for _, m := range messages {
		if !excluded(m) {
			t.Errorf("an event is posted: %q", m)
		}
	}
	for _, m := range []string{
		"Reconciliation finished in 1.5s, next run in 10m0s", "health check failed after 1s: failed early due to stalled resources",
		"Deployment/shop/shop dry-run failed (Invalid): spec.selector: field is immutable",
		"Namespace/shop not found: created by nobody",
	} {
		if excluded(m) {
			t.Errorf("an event is not posted: %q", m)
		}
	}
}
