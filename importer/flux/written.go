package flux

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Declared is a Kustomization, HelmRelease or ResourceSet that is written in a file.
type Declared struct {
	Kind, Name string
	Origin     Origin // as that of the Unit that Import makes of it
}

// Written returns the Kustomizations, HelmReleases and ResourceSets in the files of the commit, in the order of the
// files. It leaves out files that Ignore matches, and patches, which name no source, chart or resources. It fails if a
// file cannot be read; a file that does not decode has none.
func (i *Importer) Written() ([]Declared, error) {
	var out []Declared
	for _, name := range i.commit.files {
		if !isYAML(name) || i.Ignore != nil && i.Ignore(name) {
			continue
		}
		data, err := i.tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if !describes(data) || manifest.Check(data, manifest.DefaultBudget()) != nil {
			continue
		}
		out = append(out, declared(name, data)...)
	}
	return out, nil
}

// declared returns the objects of one file that Written lists.
func declared(name string, data []byte) (out []Declared) {
	for node := range documents(data) {
		var o struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Metadata   struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
			Spec map[string]yaml.Node `yaml:"spec"`
		}
		if node.Decode(&o) != nil || !expands(Key{Group: manifest.GroupOf(o.APIVersion), Kind: o.Kind}) {
			continue
		}
		for _, field := range []string{"sourceRef", "chart", "chartRef", "resources", "resourcesTemplate", "steps"} {
			if _, ok := o.Spec[field]; ok {
				out = append(out, Declared{
					Kind: o.Kind, Name: o.Metadata.Name,
					Origin: Origin{File: name, Line: node.Content[0].Line},
				})
				break
			}
		}
	}
	return out
}
