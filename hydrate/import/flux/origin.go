package flux

import (
	"bytes"
	"encoding/json"
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
		found, err := fact(i, "mentions", name, mentions)
		if err != nil {
			continue // whoever builds the file reports what is wrong with it; here it only has no lines to offer
		}
		for _, w := range found {
			i.origins[w.Key] = append(i.origins[w.Key], Origin{File: name, Line: w.Line})
		}
	}
	return i.origins
}

// mention is a place of a Kustomization, HelmRelease or ResourceSet in a file.
type mention struct {
	Key  Key // without the namespace
	Line int
}

// fact returns what find makes of a file, or recalls it. kind is the name of find.
func fact[T any](i *Importer, kind, name string, find func(name string, data []byte) T) (T, error) {
	var out T
	var key string
	if i.Memory != nil {
		id, err := i.identify(name)
		if err != nil {
			return out, err
		}
		key = digest([]byte(kind), []byte(name), []byte(id))
		if known := i.Memory.Get(key); known != nil && json.Unmarshal(known, &out) == nil {
			return out, nil
		}
	}
	data, err := i.tree.ReadFile(name)
	if err != nil {
		return out, err
	}
	out = find(name, data)
	if i.Memory == nil {
		return out, nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	i.Memory.Put(key, text)
	return out, nil
}

// mentions finds the objects that become units. A file that does not decode has none.
func mentions(_ string, data []byte) []mention {
	if !describes(data) || manifest.Check(data, manifest.DefaultBudget()) != nil {
		return nil
	}
	var out []mention
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := dec.Decode(&node); errors.Is(err, io.EOF) || err != nil {
			return out
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
			out = append(out, mention{Key: k, Line: node.Content[0].Line})
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
