package argocd

import (
	"context"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-gitops/sluice/importer/internal/templates"
)

// Registered is what ApplicationSets say of clusters that are registered in Argo CD and that no file describes.
type Registered struct {
	Labels []string // that selectors of cluster generators ask for: `key: value`, or `key` for any value; sorted
	Names  []string // by which merge generators name clusters, or their servers; sorted
}

// FindRegistered reads the generators of all ApplicationSets, and of those in overlays.
func FindRegistered(ctx context.Context, o Options) (Registered, error) {
	i := &importer{Options: o, origins: map[string]Origin{}, own: map[string]bool{}, units: map[string]*Unit{}, rounds: templates.NewRounds(functions())}
	found, err := i.find(ctx)
	if err != nil {
		return Registered{}, err
	}
	labels, names := map[string]bool{}, map[string]bool{}
	var visit func(list any, keys []any)
	visit = func(list any, keys []any) {
		generators, _ := list.([]any)
		for _, g := range generators {
			generator, _ := g.(map[string]any)
			if spec, ok := generator["clusters"].(map[string]any); ok {
				selectedLabels(spec["selector"], labels)
			}
			if spec, ok := generator["list"].(map[string]any); ok {
				mergedNames(spec["elements"], keys, names)
			}
			for _, kind := range []string{"matrix", "merge"} {
				if spec, ok := generator[kind].(map[string]any); ok {
					mergeKeys, _ := spec["mergeKeys"].([]any)
					visit(spec["generators"], mergeKeys)
				}
			}
		}
	}
	for _, f := range found {
		if spec, ok := f.object["spec"].(map[string]any); ok && f.object.Kind() == kindApplicationSet {
			visit(spec["generators"], nil)
		}
	}
	for _, c := range i.Clusters {
		delete(names, c.Name)
		delete(names, c.Server)
	}
	return Registered{Labels: slices.Sorted(maps.Keys(labels)), Names: slices.Sorted(maps.Keys(names))}, nil
}

// selectedLabels adds what a selector asks for.
func selectedLabels(selector any, into map[string]bool) {
	var s metav1.LabelSelector
	if selector == nil || decode(selector, &s) != nil {
		return // generating the Applications reports it
	}
	for key, value := range s.MatchLabels {
		into[key+": "+value] = true
	}
	for _, e := range s.MatchExpressions {
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			for _, value := range e.Values {
				into[e.Key+": "+value] = true
			}
		case metav1.LabelSelectorOpExists:
			into[e.Key] = true
		}
	}
	delete(into, secretType+": cluster") // every registered cluster has it
	delete(into, secretType)
}

// mergedNames adds the values of merge keys that name a cluster.
func mergedNames(list any, keys []any, into map[string]bool) {
	elements, _ := list.([]any)
	for _, e := range elements {
		element, _ := e.(map[string]any)
		for _, key := range []string{"name", "nameNormalized", "server"} {
			if text, ok := element[key].(string); ok && slices.Contains(keys, any(key)) && !strings.Contains(text, "{{") {
				into[text] = true
			}
		}
	}
}
