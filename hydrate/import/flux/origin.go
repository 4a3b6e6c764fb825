package flux

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// written finds the places of all Kustomizations and HelmReleases in the commit, once. Namespaces are left out: a kustomization sets them.
func (i *Importer) written() map[Key][]Origin {
	if i.origins != nil {
		return i.origins
	}
	i.origins = map[Key][]Origin{}
	for _, name := range i.files {
		if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
			continue
		}
		data, err := i.tree.ReadFile(name)
		// Whoever builds the file reports what is wrong with it; here it only has no lines to offer.
		if err != nil || !describes(data) || manifest.Check(data, manifest.DefaultBudget()) != nil {
			continue
		}
		i.index(name, data)
	}
	return i.origins
}

func (i *Importer) index(name string, data []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := dec.Decode(&node); errors.Is(err, io.EOF) || err != nil {
			return // as above
		}
		var head struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Metadata   struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		}
		if node.Decode(&head) != nil || len(node.Content) == 0 {
			continue
		}
		k := Key{Group: manifest.GroupOf(head.APIVersion), Kind: head.Kind, Name: head.Metadata.Name}
		if expands(k) {
			i.origins[k] = append(i.origins[k], Origin{File: name, Line: node.Content[0].Line})
		}
	}
}

// describes reports whether a file may hold an object that becomes a unit.
func describes(data []byte) bool {
	return bytes.Contains(data, []byte(".toolkit.fluxcd.io/")) || bytes.Contains(data, []byte(groupOperator+"/"))
}

// Origin is where an object is written.
type Origin struct {
	File string
	Line int
}

// String is `file:line`.
func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// origin finds where an object is written: in one of the files that were read for it, if there are several places.
func (c *cluster) origin(k Key, reads []string) Origin {
	candidates := c.written()[Key{Group: k.Group, Kind: k.Kind, Name: k.Name}]
	for _, o := range candidates {
		if slices.Contains(reads, o.File) {
			return o
		}
	}
	if len(candidates) > 0 {
		return candidates[0]
	}
	if len(reads) > 0 {
		return Origin{File: reads[0]}
	}
	return Origin{}
}
