package fleet

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"
)

// AppendKey appends to dst everything in the registry, the app's file and the layers that the target's rendering
// depends on. Two targets with equal keys and equal sources have equal output, if the same version of Helm renders
// their charts: Helm is not part of the key, because the caller knows which sources have charts. It costs microseconds
// and parses values only if they hold the version of a chart.
func (f *Fleet) AppendKey(dst []byte, t Target) ([]byte, error) {
	s, err := f.Select(t)
	if err != nil {
		return nil, err
	}
	return s.AppendKey(dst)
}

// AppendKey is Fleet.AppendKey for a selected target.
func (s *Selection) AppendKey(dst []byte) ([]byte, error) {
	spec, err := s.spec, error(nil)
	if spec == nil {
		if spec, err = json.Marshal(s.Resolved); err != nil {
			return nil, err
		}
	}
	dst = appendText(dst, string(spec), s.Cluster.ChartVersion())
	if w := s.App.workspace; w != nil { // what it may contain is checked when it is rendered
		bounds, err := json.Marshal(w.rendered())
		if err != nil {
			return nil, err
		}
		dst = appendText(dst, "workspace", w.Name, string(bounds))
	}
	dst = appendList(dst, s.Cluster.APIVersions)
	dst = appendList(dst, s.fleet.Spec.Kinds.Cluster)
	dst = appendList(dst, s.fleet.Spec.Kinds.Namespaced)
	if s.fleet.ForceHookJobs(s.Cluster.Environment) {
		dst = appendText(dst, "force hook jobs")
	}
	if i := s.Imported(); i != nil {
		return i.appendKey(dst)
	}
	for _, file := range s.Values {
		kind := "values"
		if file.FleetWide {
			kind = "fleet-wide values"
		}
		dst = appendText(dst, kind, file.Source, file.At)
		if file.At != "" && !isYAML(file.Path) {
			dst = appendText(dst, "text")
		}
		if dst, err = s.fleet.appendFile(dst, s.Target, file.Path); err != nil {
			return nil, err
		}
	}
	for _, dir := range s.Components {
		dst = appendText(dst, "component")
		if dst, err = s.fleet.appendFile(dst, s.Target, dir.Path); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func appendList(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	return appendText(dst, list...)
}

func appendText(dst []byte, parts ...string) []byte {
	for _, p := range parts {
		dst = binary.AppendUvarint(dst, uint64(len(p)))
		dst = append(dst, p...)
	}
	return dst
}

// appendFile adds a file's or directory's content and the values of the references in it.
func (f *Fleet) appendFile(dst []byte, t Target, name string) ([]byte, error) {
	id, err := f.contentID(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	dst = appendText(dst, id)
	refs, err := f.references(id, name)
	if err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, uint64(len(refs)))
	for _, ref := range refs {
		v, ok, err := t.lookup(&ref)
		if err != nil || !ok { // the fallback is part of the file's content; after an error, rendering fails
			dst = appendText(dst, "")
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		name, err := t.nameOf(&ref)
		if err != nil {
			return nil, err
		}
		dst = appendText(dst, name, string(text))
	}
	return dst, nil
}

// references returns the references in a file, or in all files of a directory.
func (f *Fleet) references(id, name string) ([]reference, error) {
	if known, ok := f.cache.refs.Load(id); ok {
		return known.([]reference), nil //nolint:forcetypeassert // only this function stores here
	}
	info, err := f.tree.Stat(name)
	if err != nil {
		return nil, err
	}
	var out []reference
	if info.IsDir() {
		entries, err := f.tree.ReadDir(name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			inner := path.Join(name, e.Name())
			if !e.IsDir() && !e.Type().IsRegular() {
				continue
			}
			innerID, err := f.contentID(inner)
			if err != nil {
				return nil, err
			}
			refs, err := f.references(innerID, inner)
			if err != nil {
				return nil, err
			}
			out = append(out, refs...)
		}
	} else {
		data, err := f.tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = references(string(data))
	}
	f.cache.refs.Store(id, out)
	return out, nil
}
