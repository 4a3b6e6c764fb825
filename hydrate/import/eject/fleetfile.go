package eject

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// fleetFile changes sluice.yaml: the app is no longer imported, its app.yaml is read, and the layer cluster exists if the app needs it.
func (a *App) fleetFile(data []byte, written []string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("sluice.yaml: %w", err)
	}
	spec := child(doc.Content[0], "spec", yaml.MappingNode)
	imports := child(spec, "import", yaml.SequenceNode)
	for i, entry := range a.fleet.Spec.Import {
		if a.from(entry) && !slices.Contains(entry.Exclude, a.targets[0].App) && i < len(imports.Content) {
			add(child(imports.Content[i], "exclude", yaml.SequenceNode), a.targets[0].App)
		}
	}
	file := path.Join(a.dir, "app.yaml")
	if !slices.ContainsFunc(a.fleet.Spec.Files.Apps, func(glob string) bool { ok, err := path.Match(glob, file); return ok && err == nil }) {
		add(child(child(spec, "files", yaml.MappingNode), "apps", yaml.SequenceNode), file)
	}
	layer := func(l fleet.Layer) bool { return l.Name == "cluster" }
	if slices.ContainsFunc(written, func(name string) bool { return strings.HasPrefix(name, path.Join(a.dir, "layers/cluster")+"/") }) && !slices.ContainsFunc(a.fleet.Spec.Layers, layer) {
		add(child(spec, "layers", yaml.SequenceNode), "cluster")
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// from reports whether an entry can be the one that the app is imported by.
func (a *App) from(entry fleet.Import) bool {
	if entry.Flux == nil {
		return entry.ArgoCD != nil && a.targets[0].Kind == "Application"
	}
	_, has := entry.Flux.Clusters[a.targets[0].Cluster]
	return has && a.targets[0].Kind != "Application"
}

// child returns the value of a key, which it adds if the mapping lacks it.
func child(mapping *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: kind}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	return value
}

func add(list *yaml.Node, text string) {
	list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: text})
}
