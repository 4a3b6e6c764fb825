package flux

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// allOrigins finds the places of all objects of the commit that become units, once. The keys have no namespace, because
// a kustomization can set it.
func (i *Importer) allOrigins() map[Key][]Origin {
	if i.origins != nil {
		return i.origins
	}
	i.origins = map[Key][]Origin{}
	for _, name := range i.commit.files {
		for _, w := range i.mentionsIn(name) {
			i.origins[w.Key] = append(i.origins[w.Key], Origin{File: name, Line: w.Line})
		}
	}
	return i.origins
}

// mentionsIn finds the objects of a file that become units.
func (i *Importer) mentionsIn(name string) []mention {
	if !isYAML(name) {
		return nil
	}
	found, err := i.factsOf(name)
	if err != nil {
		return nil // whoever builds the file reports what is wrong with it; here it only has no lines to offer
	}
	return found.Mentions
}

// originElsewhere finds an object in those files of other repositories that were read for it. Their other files are not
// read: they may have to be fetched, and they describe other clusters.
func (i *Importer) originElsewhere(k Key, reads []string) (Origin, bool) {
	for _, name := range reads {
		if !i.elsewhere(name) {
			continue
		}
		found, ok := i.mentions[name]
		if !ok {
			found = i.mentionsIn(name)
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

// facts are what Import and Detect have to know of every file of a commit. They are kept in Memory.
type facts struct {
	Mentions []mention  `json:",omitempty"`
	Applies  []applying `json:",omitempty"`
	Sources  []string   `json:",omitempty"` // kinds and names of the sources in the file
	Syncs    []syncing  `json:",omitempty"`

	Installed []installed `json:",omitempty"`
}

// factsOf reads a file, or recalls its facts from Memory.
func (i *Importer) factsOf(name string) (facts, error) {
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

// mentions finds the objects of a file that become units. A file that does not decode has none.
func mentions(data []byte) []mention {
	if !describes(data) || manifest.Check(data, manifest.DefaultBudget()) != nil {
		return nil
	}
	var out []mention
	for node := range documents(data) {
		var head struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Metadata   struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		}
		if node.Decode(&head) != nil {
			continue
		}
		k := Key{Group: manifest.GroupOf(head.APIVersion), Kind: head.Kind, Name: head.Metadata.Name}
		if expands(k) {
			out = append(out, mention{Key: k, Line: node.Content[0].Line})
		}
	}
	return out
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

// origin finds where an object is written. Of several places, one in the files that were read for it counts.
func (c *cluster) origin(k Key, reads []string) Origin {
	k.Namespace = ""
	candidates := c.allOrigins()[k]
	for _, o := range candidates {
		if slices.Contains(reads, o.File) {
			return o
		}
	}
	if o, ok := c.originElsewhere(k, reads); ok {
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
