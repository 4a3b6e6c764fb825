package imports

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/import/flux"
)

// Detect implements fleet.Importer: it writes a sluice.yaml that imports every cluster it finds, each in an environment of its own.
func (i *Importer) Detect(_ context.Context, tree fleet.Tree) ([]byte, error) {
	importer, err := flux.New(tree, i.builder)
	if err != nil {
		return nil, err
	}
	roots := importer.Detect()
	if len(roots) == 0 {
		return nil, nil
	}
	return fleetOf(roots)
}

// fleetOf writes sluice.yaml. Clusters that would share a name get their path in it.
func fleetOf(roots []flux.Root) ([]byte, error) {
	named := map[string]int{}
	for _, r := range roots {
		named[r.Cluster]++
	}
	clusters := map[string]fleet.ImportedCluster{}
	var environments []fleet.Environment
	for _, r := range roots {
		name := r.Cluster
		if named[name] > 1 {
			name = strings.ToLower(strings.ReplaceAll(r.Path, "/", "-"))
		}
		environments = append(environments, fleet.Environment{Name: name})
		clusters[name] = fleet.ImportedCluster{Path: r.Path, Environment: name}
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": fleet.APIVersion, "kind": "Fleet", "metadata": map[string]any{"name": "fleet"},
		"spec": map[string]any{
			"sync": "flux", "environments": names(environments), "import": []any{map[string]any{"flux": map[string]any{"clusters": clusters}}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("writing sluice.yaml: %w", err)
	}
	return out, nil
}

func names(environments []fleet.Environment) []map[string]any {
	out := make([]map[string]any, len(environments))
	for i, e := range environments {
		out[i] = map[string]any{"name": e.Name}
	}
	return out
}
