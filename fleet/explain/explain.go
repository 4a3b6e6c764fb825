// Package explain says which position of which file sets each value that a target gives a chart.
//
// It reads the commit that a fleet was loaded from, and nothing else. It renders nothing: what a template or a tool
// computes has the line of the object that it is in.
//
// The package is not API: it can change in every release.
package explain

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Origin is one position that sets a value.
type Origin struct {
	Layer     string `json:"layer"`           // defaults, global, or a label key
	Value     string `json:"value,omitempty"` // of the label
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	Set       any    `json:"set"`                 // the value after references were replaced
	Raw       string `json:"raw,omitempty"`       // the text before references were replaced; "" without references
	FleetWide bool   `json:"fleetWide,omitempty"` // every chart sees the file under `global:`
	Deletes   bool   `json:"deletes,omitempty"`   // a null, or a scalar or list that replaces a mapping
	Winner    bool   `json:"winner,omitempty"`
	// no file but a Secret contains the value as it is: it can be that of a Secret, and no page or comment shows it
	Elsewhere bool `json:"-"`
}

// Chain lists every position that sets one value, lowest precedence first. The last one applies.
type Chain struct {
	Path    string   `json:"path"`
	Origins []Origin `json:"origins"`
}

// Defaults are a chart's own values, which have the lowest precedence.
type Defaults struct {
	File string
	Data []byte
}

// Values lists the positions that set a value of one of the target's Helm sources: the value itself or, for a
// mapping, every value below it. An empty path means every value. Fleet-wide values are below `global`. A list counts
// as one value. The values of an imported target are one layer.
func Values(f *fleet.Fleet, t fleet.Target, source, valuePath string, defaults Defaults) ([]Chain, error) {
	layers := []explained{{origin: Origin{Layer: "defaults", File: defaults.File}, data: defaults.Data}}
	given, err := importedValues(f, t, source)
	if err != nil {
		return nil, err
	}
	layers = append(layers, given)
	for _, file := range f.ValuesFiles(t) {
		if file.Source != "" && file.Source != source {
			continue
		}
		origin := Origin{Layer: file.Layer, Value: file.Value, File: file.Path, FleetWide: file.FleetWide}
		data, err := f.LayerText(file)
		if err != nil {
			return nil, err
		}
		if file.IsText() {
			text := &yaml.Node{
				Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle,
				Value: strings.TrimSpace(string(data)), Line: 1, Column: 1,
			}
			layers = append(layers, explained{origin: origin, below: file.Keys(), node: text})
			continue
		}
		layers = append(layers, explained{origin: origin, data: data, below: file.Keys()})
	}
	for i := range layers {
		if err := layers[i].parse(); err != nil {
			return nil, err
		}
	}
	all := leaves(layers)
	paths := all
	if valuePath != "" {
		paths = below(layers, slices.Clone(all), valuePath)
	}
	for i := range layers {
		layers[i].origin.File = t.Locate(layers[i].origin.File)
	}
	var out []Chain
	for _, p := range paths {
		if chain := explainPath(layers, p, t); len(chain.Origins) > 0 {
			out = append(out, chain)
		}
	}
	if len(out) == 0 && valuePath != "" {
		similar := nearest.DidYouMean(valuePath, prefixes(all))
		return nil, fmt.Errorf("nothing sets %s for %s%s (`sluice explain` without --value lists what is set)",
			valuePath, t, similar)
	}
	return out, nil
}

// explained is the file of one layer as nodes.
type explained struct {
	origin Origin
	data   []byte
	below  []string
	node   *yaml.Node
	known  map[*yaml.Node]map[string]*yaml.Node // members of mappings, by key

	literal bool                  // of an imported object: references stay as they are
	written map[*yaml.Node]bool   // values that a file contains as they are
	files   map[*yaml.Node]string // of values that are set in another file than origin.File
}

func (e *explained) member(n *yaml.Node, key string) *yaml.Node {
	byKey, ok := e.known[n]
	if !ok {
		byKey = map[string]*yaml.Node{}
		for _, m := range yamlnode.Members(n) {
			byKey[m.Key] = m.Value
		}
		e.known[n] = byKey
	}
	return byKey[key]
}

func (e *explained) parse() error {
	e.known = map[*yaml.Node]map[string]*yaml.Node{}
	if len(bytes.TrimSpace(e.data)) == 0 {
		return nil
	}
	if err := manifest.Check(e.data, yamlnode.Budget()); err != nil {
		return fmt.Errorf("%s: %w", e.origin.File, err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(e.data, &root); err != nil {
		return fmt.Errorf("%s: %w", e.origin.File, err)
	}
	if len(root.Content) > 0 {
		e.node = root.Content[0]
	}
	return nil
}

func explainPath(layers []explained, p []string, t fleet.Target) Chain {
	chain := Chain{Path: strings.Join(p, ".")}
	for _, layer := range layers {
		rest, ok := trimPrefix(p, layer.below)
		if !ok || layer.node == nil {
			continue
		}
		node, exact := layer.descend(layer.node, rest)
		if node == nil {
			continue
		}
		o := layer.origin
		o.Line, o.Column = node.Line, node.Column
		if file, ok := layer.files[node]; ok {
			o.File = t.Locate(file)
		}
		o.Deletes = node.Tag == "!!null" || !exact
		if exact {
			o.Set, o.Elsewhere = layer.shown(t, node), layer.elsewhere(node)
			if !layer.literal && node.Kind == yaml.ScalarNode && strings.Contains(node.Value, "${") {
				o.Raw = node.Value
			}
		}
		chain.Origins = append(chain.Origins, o)
	}
	if n := len(chain.Origins); n > 0 {
		chain.Origins[n-1].Winner = true
	}
	return chain
}

// below returns the paths under a value. It also returns the value itself if a layer sets it as a whole, or if there
// are no paths below it.
func below(layers []explained, leaves [][]string, valuePath string) [][]string {
	itself := strings.Split(valuePath, ".")
	out := slices.DeleteFunc(leaves, func(p []string) bool {
		return !strings.HasPrefix(strings.Join(p, "."), valuePath+
			".")
	})
	if len(out) == 0 || replaces(layers, itself) {
		out = append([][]string{itself}, out...)
	}
	return out
}

// prefixes returns the paths of values and of the mappings that they are in.
func prefixes(paths [][]string) []string {
	known := map[string]bool{}
	for _, p := range paths {
		for n := range p {
			known[strings.Join(p[:n+1], ".")] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// replaces reports whether a layer sets the path to a scalar, a list or null.
func replaces(layers []explained, p []string) bool {
	return slices.ContainsFunc(layers, func(layer explained) bool {
		rest, ok := trimPrefix(p, layer.below)
		if !ok || layer.node == nil {
			return false
		}
		node, exact := layer.descend(layer.node, rest)
		return node != nil && (!exact || node.Kind != yaml.MappingNode)
	})
}

func trimPrefix(p, prefix []string) ([]string, bool) {
	if len(p) < len(prefix) || !slices.Equal(p[:len(prefix)], prefix) {
		return nil, false
	}
	return p[len(prefix):], true
}

// descend follows a path through mappings. At a scalar, list or null in place of a mapping it stops, with exact
// false.
func (e *explained) descend(n *yaml.Node, p []string) (found *yaml.Node, exact bool) {
	for i := range p {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind != yaml.MappingNode {
			return n, false
		}
		next := e.childByLongestKey(n, p[i:])
		if next == nil {
			return nil, false
		}
		if next.node.Kind == yaml.AliasNode {
			next.node = next.node.Alias
		}
		if next.rest == 0 {
			return next.node, true
		}
		if used := len(p[i:]) - next.rest; used > 1 {
			return e.descend(next.node, p[i+used:])
		}
		n = next.node
	}
	return n, true
}

type step struct {
	node *yaml.Node
	rest int
}

// childByLongestKey finds keys that contain dots, such as those of annotations.
func (e *explained) childByLongestKey(n *yaml.Node, p []string) *step {
	for used := len(p); used > 0; used-- {
		if value := e.member(n, strings.Join(p[:used], ".")); value != nil {
			return &step{value, len(p) - used}
		}
	}
	return nil
}

func (e *explained) shown(t fleet.Target, n *yaml.Node) any {
	if v, err := yamlnode.Value(n); e.literal && err == nil {
		return v
	}
	return t.NodeValue(n)
}

// leaves returns the sorted paths of all values that are not mappings.
func leaves(layers []explained) [][]string {
	found := map[string][]string{}
	var visit func(n *yaml.Node, p []string)
	visit = func(n *yaml.Node, p []string) {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if len(p) == 0 && (n.Kind != yaml.MappingNode || len(n.Content) == 0) {
			return
		}
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
			found[strings.Join(p, ".")] = slices.Clone(p)
			return
		}
		for _, m := range yamlnode.Members(n) {
			visit(m.Value, append(p, m.Key))
		}
	}
	for _, layer := range layers {
		if layer.node != nil {
			visit(layer.node, slices.Clone(layer.below))
		}
	}
	var out [][]string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out
}
