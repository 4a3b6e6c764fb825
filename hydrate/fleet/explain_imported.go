package fleet

import (
	"bytes"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// importedValues is the layer of the values that the user's object gives a chart. A value that the object itself contains has its line there;
// one that comes from elsewhere, such as a ConfigMap or another values file, or that the tool changed, has the line of the object.
func (f *Fleet) importedValues(t Target, source string) (explained, error) {
	i := t.Imported()
	out := explained{literal: true}
	if i == nil {
		return out, nil
	}
	for n := range i.Sources {
		if len(i.Sources) > 1 && source != strconv.Itoa(n) || i.Sources[n].Helm == nil || len(i.Sources[n].Values) == 0 {
			continue
		}
		out.origin, out.node = Origin{Layer: i.Kind, File: i.File}, &yaml.Node{}
		if err := out.node.Encode(i.Sources[n].Values); err != nil {
			return out, err
		}
		setLine(out.node, i.Line)
		w := written{in: map[*yaml.Node]bool{}, known: map[*yaml.Node]map[string]*yaml.Node{}}
		object := f.writtenObject(i)
		for _, at := range [][]string{{"spec", "values"}, {"spec", "source", "helm", "valuesObject"}, {"spec", "sources", strconv.Itoa(n), "helm", "valuesObject"}} {
			w.place(out.node, child(object, at...))
		}
		out.written = w.in
		return out, nil
	}
	return out, nil
}

// setLine gives a node and all below it a line.
func setLine(n *yaml.Node, line int) {
	n.Line, n.Column = line, 1
	for _, inner := range n.Content {
		setLine(inner, line)
	}
}

// writtenObject returns the user's object, nil if its file does not contain it as it is, such as one that a template creates.
func (f *Fleet) writtenObject(i *Imported) *yaml.Node {
	data, err := readBounded(f.tree, i.File)
	if err != nil || manifest.Check(data, fileBudget()) != nil {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if dec.Decode(&document) != nil { // the end, or a mistake: the line of the object stays
			return nil
		}
		if len(document.Content) == 1 && document.Content[0].Line == i.Line && child(document.Content[0], "kind") != nil {
			return document.Content[0]
		}
	}
}

// written collects the values that the user's object contains literally.
type written struct {
	in    map[*yaml.Node]bool                  // values that the object contains
	known map[*yaml.Node]map[string]*yaml.Node // members of the object's mappings: a mapping can have very many
}

// place gives the values that an object contains their lines in it.
func (w *written) place(values, object *yaml.Node) {
	if object != nil && object.Kind == yaml.AliasNode {
		object = object.Alias
	}
	if object == nil {
		return
	}
	if values.Kind == yaml.MappingNode {
		for n := 0; n+1 < len(values.Content); n += 2 {
			w.place(values.Content[n+1], w.member(object, values.Content[n].Value))
		}
		return
	}
	a, aErr := freeValue(values)
	b, bErr := freeValue(object)
	if aErr == nil && bErr == nil && reflect.DeepEqual(helmNumbers(a), helmNumbers(b)) {
		values.Line, values.Column = object.Line, object.Column
		w.in[values] = true
	}
}

func (w *written) member(n *yaml.Node, key string) *yaml.Node {
	byKey, ok := w.known[n]
	if !ok {
		byKey = map[string]*yaml.Node{}
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			byKey[n.Content[i].Value] = n.Content[i+1]
		}
		w.known[n] = byKey
	}
	return byKey[key]
}

// elsewhere reports whether a value, or one below it, is not in the object as it is.
func (e *explained) elsewhere(n *yaml.Node) bool {
	if !e.literal {
		return false
	}
	if n.Kind != yaml.MappingNode {
		return !e.written[n]
	}
	for i := 1; i < len(n.Content); i += 2 {
		if e.elsewhere(n.Content[i]) {
			return true
		}
	}
	return false
}
