package kustomize_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

func TestPatchesThatMatchNothingAreRefused(t *testing.T) {
	base := objects(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: ns, labels: {app: web}}\nspec: {}\n")
	for target, matches := range map[string]bool{
		"{kind: Deployment}":                           true,
		"{kind: Deploy.*, name: w.b}":                  true,
		"{group: apps, version: v1, name: web}":        true,
		"{labelSelector: app=web}":                     true,
		"{namespace: ns}":                              true,
		"{kind: Deploymnt}":                            false,
		"{kind: Deploy}":                               false,
		"{kind: Deployment, name: we}":                 false,
		"{group: batch}":                               false,
		"{kind: Deployment, labelSelector: app=other}": false,
		"{kind: Deployment, namespace: other}":         false,
		"{annotationSelector: a}":                      false,
	} {
		patch := component + "patches:\n- target: " + target +
			"\n  patch: '[{\"op\": \"add\", \"path\": \"/spec/a\", \"value\": 1}]'\n"
		components := []kustomize.Component{{
			Name:  "apps/web/layers/x",
			Files: tree("-- kustomization.yaml --\n" + patch),
		}}
		got, err := kustomize.NewBuilder(manifest.DefaultBudget()).ApplyComponents(t.Context(), base, components, false)
		unmatched, ok := errors.AsType[*kustomize.UnmatchedError](err)
		if ok == matches || !ok && err != nil {
			t.Errorf("%s: the error is %v", target, err)
			continue
		}
		if ok && (len(unmatched.Patches) != 1 || !strings.Contains(err.Error(),
			"apps/web/layers/x/kustomization.yaml: patches[0].target")) {
			t.Errorf("%s: the error is %v", target, err)
		}
		if patched := err == nil && got[0]["spec"].(map[string]any)["a"] != nil; patched != matches {
			t.Errorf("%s: Kustomize disagrees: %v", target, got)
		}
		if _, err := kustomize.NewBuilder(manifest.DefaultBudget()).ApplyComponents(t.Context(), base, components,
			true); err != nil {
			t.Errorf("%s: allowed: %v", target, err)
		}
	}
}

// A component may patch what another one adds, or what it renames itself.
func TestPatchesMatchWhatOtherComponentsAdd(t *testing.T) {
	first := kustomize.Component{Name: "a", Files: tree("-- kustomization.yaml --\n" + component +
		"resources: [r.yaml]\n-- r.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: added}\n")}
	second := kustomize.Component{Name: "b", Files: tree("-- kustomization.yaml --\n" + component +
		"nameSuffix: -x\npatches:\n- target: {name: added}\n  patch: '[{\"op\": \"add\", \"path\": \"/data\", \"value\": {}}]'\n")}
	generated := kustomize.Component{Name: "c", Files: tree("-- kustomization.yaml --\n" + component +
		"configMapGenerator: [{name: added, literals: [a=b]}]\n")}
	for _, components := range [][]kustomize.Component{{first, second}, {generated, second}} {
		if _, err := kustomize.NewBuilder(manifest.DefaultBudget()).ApplyComponents(t.Context(), nil, components,
			false); err != nil {
			t.Error(err)
		}
	}
}
