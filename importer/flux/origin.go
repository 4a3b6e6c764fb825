package flux

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// written finds the places of all Kustomizations and HelmReleases in the commit, once. Namespaces are left out: a
// kustomization sets them.
func (i *Importer) written() map[Key][]Origin {
	if i.origins != nil {
		return i.origins
	}
	i.origins = map[Key][]Origin{}
	for _, name := range i.commit.files {
		for _, w := range i.writtenIn(name) {
			i.origins[w.Key] = append(i.origins[w.Key], Origin{File: name, Line: w.Line})
		}
	}
	return i.origins
}

// writtenIn finds the places in a file.
func (i *Importer) writtenIn(name string) []mention {
	if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
		return nil
	}
	found, err := i.facts(name)
	if err != nil {
		return nil // whoever builds the file reports what is wrong with it; here it only has no lines to offer
	}
	return found.Mentions
}

// writtenElsewhere finds an object in the files of other repositories among those that were read for it. Their other
// files are not read: they may have to be fetched, and they describe other clusters.
func (i *Importer) writtenElsewhere(k Key, reads []string) (Origin, bool) {
	for _, name := range reads {
		if !i.elsewhere(name) {
			continue
		}
		found, ok := i.mentions[name]
		if !ok {
			found = i.writtenIn(name)
			i.mentions[name] = found
		}
		for _, w := range found {
			if w.Key == k {
				return Origin{File: name, Line: w.Line}, true
			}
		}
	}
	return Origin{}, false
}

// mention is a place of a Kustomization, HelmRelease or ResourceSet in a file.
type mention struct {
	Key  Key // without the namespace
	Line int
}

// facts are what an import has to know of every file of a commit.
type facts struct {
	Mentions []mention  `json:",omitempty"`
	Applies  []applying `json:",omitempty"`
	Sources  []string   `json:",omitempty"` // kinds and names of the sources in the file
	Syncs    []syncing  `json:",omitempty"`

	Installed []installed `json:",omitempty"`
}

// facts reads a file, or recalls what it says.
func (i *Importer) facts(name string) (facts, error) {
	var out facts
	var key string
	if i.Memory != nil {
		id, err := i.identify(name)
		if err != nil {
			return out, err
		}
		key = "facts\x00" + id + "\x00" + name
		if wire.Unmarshal(i.Memory.Get(key), &out) == nil {
			return out, nil
		}
	}
	data, err := i.tree.ReadFile(name)
	if err != nil {
		return out, err
	}
	out = facts{Mentions: mentions(data)}
	out.Applies, out.Sources = applications(data)
	out.Syncs, out.Installed = instances(data)
	out.Installed = append(out.Installed, installs(data)...)
	if i.Memory != nil {
		text, err := wire.Marshal(out)
		if err != nil {
			return out, err
		}
		i.Memory.Put(key, text)
	}
	return out, nil
}

// mentions finds the objects that become units. A file that does not decode has none.
func mentions(data []byte) []mention {
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
	k.Namespace = ""
	candidates := c.written()[k]
	for _, o := range candidates {
		if slices.Contains(reads, o.File) {
			return o
		}
	}
	if o, ok := c.writtenElsewhere(k, reads); ok {
		return o
	}
	if len(candidates) > 0 {
		return candidates[0]
	}
	if len(reads) > 0 {
		return Origin{File: reads[0]}
	}
	return Origin{}
}
