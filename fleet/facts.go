package fleet

import (
	"maps"
	"slices"
)

// Fact is a reference in a target's files or its app, with its value in the registry.
type Fact struct {
	Reference string // cluster.vars.domain
	Value     string
}

// Facts lists the references that a target's rendering uses, with their values as text, sorted by reference. It
// leaves out references to mappings, lists and booleans, and files that cannot be read.
func (f *Fleet) Facts(t Target) []Fact {
	found := map[string]string{}
	add := func(refs []reference) {
		for _, ref := range refs {
			v, ok, err := t.lookup(&ref)
			if !ok || err != nil {
				continue
			}
			switch v.(type) {
			case map[string]any, []any, nil, bool:
				continue
			}
			if name, err := t.nameOf(&ref); err == nil {
				found[name] = scalarText(v)
			}
		}
	}
	var files []LayerFile
	files = append(append(files, f.ValuesFiles(t)...), f.Components(t)...)
	for _, file := range files {
		id, err := f.contentID(file.Path)
		if err != nil {
			continue
		}
		if refs, err := f.references(id, file.Path); err == nil {
			add(refs)
		}
	}
	add(t.App.refs)
	out := make([]Fact, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, Fact{Reference: name, Value: found[name]})
	}
	return out
}
