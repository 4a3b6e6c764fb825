package fleet

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Origin is one place that sets a value.
type Origin struct {
	Layer   string `json:"layer"`           // defaults, global, or a label key
	Value   string `json:"value,omitempty"` // of the label
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Set     any    `json:"set"`               // what stands there, references replaced
	Deletes bool   `json:"deletes,omitempty"` // a null, there or above
	Winner  bool   `json:"winner,omitempty"`
}

// Chain is every place that sets one value, lowest precedence first. The last one wins.
type Chain struct {
	Path    string   `json:"path"`
	Origins []Origin `json:"origins"`
}

// Defaults are a chart's own values, the lowest of all.
type Defaults struct {
	File string
	Data []byte
}

// Explain tells where a value of one of the target's Helm sources comes from; with an empty path, every value. Fleet-wide
// values stand below `global`.
func (f *Fleet) Explain(t Target, source, valuePath string, defaults Defaults) ([]Chain, error) {
	layers := []explained{{origin: Origin{Layer: "defaults", File: defaults.File}, data: defaults.Data}}
	for _, file := range f.ValuesFiles(t) {
		if file.Source != "" && file.Source != source {
			continue
		}
		v, err := f.valuesFile(file.Path)
		if err != nil {
			return nil, err
		}
		e := explained{origin: Origin{Layer: file.Layer, Value: file.Value, File: file.Path}, data: v.data}
		if file.FleetWide {
			e.below = []string{"global"}
		}
		layers = append(layers, e)
	}
	for i := range layers {
		if err := layers[i].parse(); err != nil {
			return nil, err
		}
	}
	paths := [][]string{strings.Split(valuePath, ".")}
	if valuePath == "" {
		paths = leaves(layers)
	}
	var out []Chain
	for _, p := range paths {
		if chain := explainPath(layers, p, t); len(chain.Origins) > 0 {
			out = append(out, chain)
		}
	}
	if len(out) == 0 && valuePath != "" {
		return nil, fmt.Errorf("nothing sets %s for %s: `sluice explain` without --value lists what is set", valuePath, t)
	}
	return out, nil
}

// explained is one layer's file as nodes.
type explained struct {
	origin Origin
	data   []byte
	below  []string
	node   *yaml.Node
}

func (e *explained) parse() error {
	if len(bytes.TrimSpace(e.data)) == 0 {
		return nil
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

func explainPath(layers []explained, p []string, t Target) Chain {
	chain := Chain{Path: strings.Join(p, ".")}
	for _, layer := range layers {
		rest, ok := trimPrefix(p, layer.below)
		if !ok || layer.node == nil {
			continue
		}
		node, exact := descend(layer.node, rest)
		if node == nil {
			continue
		}
		o := layer.origin
		o.Line, o.Column = node.Line, node.Column
		o.Deletes = node.Tag == "!!null" || !exact
		if exact {
			o.Set = t.shown(node)
		}
		chain.Origins = append(chain.Origins, o)
	}
	if n := len(chain.Origins); n > 0 {
		chain.Origins[n-1].Winner = true
	}
	return chain
}

func trimPrefix(p, prefix []string) ([]string, bool) {
	if len(p) < len(prefix) || !slices.Equal(p[:len(prefix)], prefix) {
		return nil, false
	}
	return p[len(prefix):], true
}

// descend follows a path through mappings. It stops early, with exact false, where a scalar, a list or a null above the
// path takes the place of the mapping.
func descend(n *yaml.Node, p []string) (found *yaml.Node, exact bool) {
	for i := range p {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind != yaml.MappingNode {
			return n, false
		}
		next := childByLongestKey(n, p[i:])
		if next == nil {
			return nil, false
		}
		if next.rest == 0 {
			return next.node, true
		}
		if used := len(p[i:]) - next.rest; used > 1 {
			return descend(next.node, p[i+used:])
		}
		n = next.node
	}
	return n, true
}

type step struct {
	node *yaml.Node
	rest int
}

// childByLongestKey takes keys with dots in them, such as those of annotations, for what they are.
func childByLongestKey(n *yaml.Node, p []string) *step {
	for used := len(p); used > 0; used-- {
		if c := child(n, strings.Join(p[:used], ".")); c != nil {
			return &step{c, len(p) - used}
		}
	}
	return nil
}

// shown is a node's value with references replaced; one that cannot be replaced stays as it is written.
func (t Target) shown(n *yaml.Node) any {
	v, err := freeValue(n)
	if err != nil {
		return n.Value
	}
	replaced, err := t.replaceValues(v, nil, "")
	if err != nil {
		return v
	}
	return replaced
}

// leaves are the paths of all values that are no mappings, in order.
func leaves(layers []explained) [][]string {
	found := map[string][]string{}
	var visit func(n *yaml.Node, p []string)
	visit = func(n *yaml.Node, p []string) {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
			found[strings.Join(p, ".")] = slices.Clone(p)
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			visit(n.Content[i+1], append(p, n.Content[i].Value))
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
