package fleet

import (
	"maps"
	"slices"
)

// Fact is a reference that a target's files or its app make, and what the registry says for it.
type Fact struct {
	Reference string // cluster.vars.domain
	Value     string
}

// Facts are the references by which a target's rendering depends on its cluster, with their values as text, by reference.
// References to mappings and lists are left out, and those whose file cannot be read.
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
