package argocd

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-gitops/sluice/importer/internal/templates"
)

// Registered is what a repository says of what only Argo CD knows, so that no file describes it: clusters, and
// Applications that begin others.
type Registered struct {
	Labels []string // that selectors of cluster generators ask for: `key: value`, or `key` for any value; sorted
	Names  []string // by which merge generators name clusters, or their servers; sorted
	Charts []string // whose templates describe Applications, and that no Application names; sorted
}

// FindRegistered reads the generators of all ApplicationSets, and of those in overlays, and the templates of charts.
func FindRegistered(ctx context.Context, o Options) (Registered, error) {
	i := &importer{
		Options: o, origins: map[string]Origin{}, own: map[string]bool{}, units: map[string]*Unit{},
		rounds: templates.NewRounds(functions()),
	}
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
	charts, err := i.roots(found)
	return Registered{Labels: slices.Sorted(maps.Keys(labels)), Names: slices.Sorted(maps.Keys(names)), Charts: charts},
		err
}

// roots returns the charts that describe Applications and that no source names.
func (i *importer) roots(found []located) ([]string, error) {
	named := map[string]bool{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case map[string]any:
			if text, ok := v["path"].(string); ok {
				named[path.Clean(text)] = true
			}
			for _, inner := range v {
				visit(inner)
			}
		}
	}
	for _, f := range found {
		visit(map[string]any(f.object))
	}
	var out []string
	for _, name := range i.files {
		chart, rest, ok := strings.Cut(name, "/templates/")
		if !ok || !isManifest(rest) || named[chart] || slices.Contains(out, chart) ||
			!i.isFile(path.Join(chart, "Chart.yaml")) || i.ignored(name) {
			continue
		}
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if describesApplication(data) {
			out = append(out, chart)
		}
	}
	slices.Sort(out)
	return out, nil
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
			if text, ok := element[key].(string); ok && slices.Contains(keys, any(key)) &&
				!strings.Contains(text, "{{") {
				into[text] = true
			}
		}
	}
}
