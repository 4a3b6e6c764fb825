package explain

import (
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
)

// importedValues is the layer of the values that the user's object gives a chart. A value has the line that sets it: in
// the object, in a patch, in a values file or in a ConfigMap. One for which none is found, such as one that a template
// computes, has the line of the object.
func importedValues(f *fleet.Fleet, t fleet.Target, source string) (explained, error) {
	i := t.Imported()
	out := explained{literal: true}
	if i == nil {
		return out, nil
	}
	for n := range i.Sources {
		if len(i.Sources) > 1 && source != strconv.Itoa(n) || i.Sources[n].Helm == nil {
			continue
		}
		values := i.Sources[n].Given()
		if len(values) == 0 {
			continue
		}
		out.origin, out.node = Origin{Layer: i.Kind, File: i.File}, &yaml.Node{}
		if err := out.node.Encode(values); err != nil {
			return out, err
		}
		setLine(out.node, i.Line)
		w := written{
			in: map[*yaml.Node]bool{}, file: map[*yaml.Node]string{},
			known: map[*yaml.Node]map[string]*yaml.Node{},
		}
		object := f.Object(i)
		own := yamlnode.Child(helmOf(object, n), "valuesObject")
		if i.Kind == kindHelmRelease {
			own = yamlnode.Child(object, "spec", "values")
		}
		w.place(out.node, own)
		w.placeOthers(out.node, nil, func() []setter { return settersOf(f, i, object, own, n) })
		out.written, out.files = w.in, w.file
		return out, nil
	}
	return out, nil
}

// Imported returns the position that sets a value of an imported target: the value itself, its object if the file does
// not contain it as it is. line is 0 if the target does not give the value.
func Imported(f *fleet.Fleet, t fleet.Target, source string, at []string) (file string, line, column int, err error) {
	given, err := importedValues(f, t, source)
	if err != nil || given.node == nil {
		return "", 0, 0, err
	}
	n := yamlnode.Child(given.node, at...)
	if n == nil {
		return "", 0, 0, nil
	}
	file = given.origin.File
	for leaf := n; ; leaf = leaf.Content[1] { // positions belong to the values below a mapping
		if other, ok := given.files[leaf]; ok {
			file = other
		}
		if leaf.Kind != yaml.MappingNode || len(leaf.Content) == 0 {
			return file, leaf.Line, leaf.Column, nil
		}
	}
}

// setLine gives a node and all below it a line.
func setLine(n *yaml.Node, line int) {
	n.Line, n.Column = line, 1
	for _, inner := range n.Content {
		setLine(inner, line)
	}
}

// written collects the positions of values.
type written struct {
	in    map[*yaml.Node]bool                  // values that a file contains as they are
	file  map[*yaml.Node]string                // of values that are set in another file than the object's
	known map[*yaml.Node]map[string]*yaml.Node // members of the object's mappings: a mapping can have very many

	others []setter // what sets values outside the object; nil before the first one is looked for
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
	a, aErr := yamlnode.Value(values)
	b, bErr := yamlnode.Value(object)
	if aErr == nil && bErr == nil && reflect.DeepEqual(yamlnode.HelmNumbers(a), yamlnode.HelmNumbers(b)) {
		values.Line, values.Column = object.Line, object.Column
		w.in[values] = true
	}
}

// placeOthers gives the other values the positions that set them.
func (w *written) placeOthers(values *yaml.Node, at []string, all func() []setter) {
	if values.Kind == yaml.MappingNode && len(values.Content) > 0 {
		for n := 0; n+1 < len(values.Content); n += 2 {
			w.placeOthers(values.Content[n+1], append(slices.Clip(at), values.Content[n].Value), all)
		}
		return
	}
	if w.in[values] {
		return
	}
	if w.others == nil {
		w.others = append([]setter{}, all()...)
	}
	want, err := yamlnode.Value(values)
	if err != nil {
		return
	}
	found, ok := whatSets(w.others, at, want)
	if !ok || found.node == nil {
		return
	}
	values.Line, values.Column = found.node.Line, found.node.Column
	w.file[values] = found.file
	if found.open {
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

// elsewhere reports whether no file contains a value, or one below it, as it is.
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
