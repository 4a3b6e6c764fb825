package fleet

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"

	"go.yaml.in/yaml/v3"
)

// Resolved is an app as one target gets it: references replaced, defaults filled in.
type Resolved struct {
	Namespace string
	Sources   []Source
	Unstable  string // error or keep
}

// Resolve replaces the references in the app's strings.
func (f *Fleet) Resolve(t Target) (Resolved, error) {
	out := Resolved{Unstable: cmp.Or(t.App.Spec.Unstable, "error"), Sources: make([]Source, len(t.App.Sources))}
	var err error
	if out.Namespace, err = t.text(t.App.Spec.Namespace); err != nil {
		return out, t.appError(err, t.App.Spec.Namespace)
	}
	if !validNamespace(out.Namespace) {
		return out, t.appError(fmt.Errorf("%q cannot be a namespace on cluster %s", out.Namespace, t.Cluster.Name), t.App.Spec.Namespace)
	}
	for i, s := range t.App.Sources {
		out.Sources[i] = s.clone()
		for _, p := range out.Sources[i].strings() {
			written := *p
			if *p, err = t.text(written); err != nil {
				return out, t.appError(err, written)
			}
		}
		out.Sources[i].fillIn(t.App)
		if p := out.Sources[i].path(); leavesRepository(p) {
			return out, t.appError(fmt.Errorf("the path %q leaves the repository on cluster %s", p, t.Cluster.Name), "")
		}
	}
	return out, nil
}

// appError is an error about a string of the app's file.
func (t Target) appError(err error, written string) error {
	p := Problem{File: t.App.File, Severity: SeverityError, Message: err.Error()}
	if n := t.App.doc.node; n != nil {
		p.Line, p.Column = n.Line, n.Column
		if at := findScalar(n, written); at != nil && written != "" {
			p.Line, p.Column = at.Line, at.Column
		}
	}
	return &FileError{p, t.Cluster.Name}
}

func findScalar(n *yaml.Node, text string) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.Value == text {
		return n
	}
	for _, child := range n.Content {
		if found := findScalar(child, text); found != nil {
			return found
		}
	}
	return nil
}

// path is the place of a source in the repository, "" for a chart from elsewhere.
func (s *Source) path() string {
	switch {
	case s.Helm != nil:
		return s.Helm.Path
	case s.Kustomize != nil:
		return s.Kustomize.Path
	case s.Manifests != nil:
		return s.Manifests.Path
	}
	return ""
}

func (s Source) clone() Source {
	switch {
	case s.Helm != nil:
		h := *s.Helm
		s.Helm = &h
	case s.Kustomize != nil:
		k := *s.Kustomize
		s.Kustomize = &k
	case s.Manifests != nil:
		m := *s.Manifests
		s.Manifests = &m
	}
	return s
}

// fillIn puts the folder of app.yaml where no path is given, and cleans paths.
func (s *Source) fillIn(a *App) {
	clean := func(p *string) { *p = path.Clean(cmp.Or(*p, a.Dir, ".")) }
	switch {
	case s.Helm != nil:
		s.Helm.ReleaseName = cmp.Or(s.Helm.ReleaseName, a.Name)
		if s.Helm.Chart == "" {
			clean(&s.Helm.Path)
		}
	case s.Kustomize != nil:
		clean(&s.Kustomize.Path)
	case s.Manifests != nil:
		clean(&s.Manifests.Path)
	}
}

// AppendKey adds to dst all that the target's rendering depends on in the registry, the app's file and the layers: two
// targets of equal keys whose sources are equal too render alike. It costs microseconds and parses no values.
func (f *Fleet) AppendKey(dst []byte, t Target) ([]byte, error) {
	resolved, err := f.Resolve(t)
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(resolved)
	if err != nil {
		return nil, err
	}
	dst = appendText(dst, string(spec), t.Cluster.KubeVersion)
	dst = binary.AppendUvarint(dst, uint64(len(t.Cluster.APIVersions)))
	for _, v := range t.Cluster.APIVersions {
		dst = appendText(dst, v)
	}
	for _, file := range f.ValuesFiles(t) {
		kind := "values"
		if file.FleetWide {
			kind = "fleet-wide values"
		}
		dst = appendText(dst, kind, file.Source)
		if dst, err = f.appendFile(dst, t, file.Path); err != nil {
			return nil, err
		}
	}
	for _, dir := range f.Components(t) {
		dst = appendText(dst, "component")
		if dst, err = f.appendFile(dst, t, dir.Path); err != nil {
			return nil, err
		}
	}
	return dst, nil
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
		if err != nil || !ok { // the fallback stands in the file; with an error, rendering fails
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

// references are those of a file, or of all files in a directory.
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
