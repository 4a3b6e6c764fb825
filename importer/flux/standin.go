package flux

import (
	"fmt"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// standInDir is the folder with values that stand in for ConfigMaps and Secrets that are not in Git, as
// NAMESPACE-NAME.yaml. A file is the object, or a mapping of its keys to texts.
const standInDir = "stand-ins/"

// referred returns the ConfigMap or Secret that a unit refers to; nil if it is not known. If it is not in Git, or is
// encrypted there, referred returns the values that stand in for it, and standIn is their file.
func (c *cluster) referred(key Key) (o manifest.Object, standIn string, err error) {
	o, ok := c.objects[key]
	if ok {
		if _, encrypted, err := dataOf(o); err != nil || !encrypted {
			return o, "", nil //nolint:nilerr // whoever reads it reports the error
		}
	}
	name := standInDir + key.Namespace + "-" + key.Name + ".yaml"
	if found, err := c.tree.Stat(name); err != nil || !found.Mode().IsRegular() {
		return o, "", nil //nolint:nilerr // there is none
	}
	data, err := c.tree.ReadFile(name)
	if err != nil {
		return nil, "", err
	}
	out, err := parseStandIn(key, data)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return out, name, nil
}

// parseStandIn reads a file with values that stand in for an object.
func parseStandIn(key Key, data []byte) (manifest.Object, error) {
	if err := manifest.Check(data, manifest.DefaultBudget()); err != nil {
		return nil, err
	}
	var kind struct {
		Kind string `yaml:"kind"`
	}
	if yaml.Unmarshal(data, &kind) == nil && kind.Kind != "" {
		objects, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			return nil, err
		}
		if len(objects) != 1 || keyOf(objects[0]).Kind != key.Kind {
			return nil, fmt.Errorf("it must have one %s, or a mapping of its keys to texts", key.Kind)
		}
		return objects[0], nil
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, err
	}
	field := "data"
	if key.Kind == kindSecret {
		field = "stringData"
	}
	return manifest.Object{
		"apiVersion": "v1", "kind": key.Kind, "metadata": map[string]any{"name": key.Name, "namespace": key.Namespace},
		field: values,
	}, nil
}

// standIns returns the files with values that stand in for objects from which a Kustomization substitutes.
func (c *cluster) standIns(namespace string, post *kustomizev1.PostBuild) []string {
	if post == nil {
		return nil
	}
	var out []string
	for _, ref := range post.SubstituteFrom {
		// load has reported an error
		if _, file, err := c.referred(Key{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}); err == nil &&
			file != "" {
			out = append(out, file)
		}
	}
	return union(out, nil)
}
