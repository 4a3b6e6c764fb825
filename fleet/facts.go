package fleet

// Facts maps the references that a target's rendering uses (cluster.vars.domain) to their values in the registry, as
// text. It leaves out references to mappings, lists and booleans, and files that cannot be read.
func (f *Fleet) Facts(t Target) map[string]string {
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
	return found
}
