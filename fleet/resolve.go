package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Resolved is an app for one target: references replaced, defaults filled in.
type Resolved struct {
	Namespace string
	Sources   []Source
	Unstable  string // error or keep
}

// Selection is the input that a target's rendering takes from the fleet: the app with its references replaced, and the
// files of its layers, lowest precedence first.
type Selection struct {
	Target
	Resolved
	Values     []LayerFile // values files of Helm sources
	Components []LayerFile // directories of Kustomize components

	fleet *Fleet
	spec  []byte // JSON of Resolved; nil if other targets do not share it
}

// resolved is a Resolved that targets of an app share, and its JSON.
type resolved struct {
	Resolved
	spec []byte
}

// Select resolves a target in one pass. It parses values only if they hold the version of a chart.
func (f *Fleet) Select(t Target) (Selection, error) {
	s := Selection{Target: t, fleet: f}
	s.Values, s.Components = f.layerFiles(t)
	err := confined(f, t, s.Values, s.Components)
	if err != nil {
		return s, err
	}
	one, err := f.resolveOnce(t, s.Values)
	s.Resolved, s.spec = one.Resolved, one.spec
	return s, err
}

// resolveOnce resolves a target like resolve. Targets of an app share the result if it is the same on every cluster: no
// string of the app refers to the cluster, and no version of a chart comes from a file or from values. The caller does
// not change it.
func (f *Fleet) resolveOnce(t Target, values []LayerFile) (resolved, error) {
	v, memo := t.App.in(t.Cluster.Environment), f.perApp[t.App.Name]
	fromElsewhere := func(s Source) bool { return s.Helm != nil && s.Helm.VersionFrom != nil }
	if memo == nil || t.App.imported != nil || len(t.App.refs) > 0 || slices.ContainsFunc(v.sources, fromElsewhere) {
		out, err := f.resolve(t, values)
		return resolved{Resolved: out}, err
	}
	memo.mu.Lock()
	known, ok := memo.resolved[v]
	memo.mu.Unlock()
	if ok {
		return known, nil
	}
	out, err := f.resolve(t, values)
	if err != nil { // it names the cluster
		return resolved{Resolved: out}, err
	}
	spec, err := json.Marshal(out)
	if err != nil {
		return resolved{Resolved: out}, err
	}
	known = resolved{out, spec}
	memo.mu.Lock()
	memo.resolved[v] = known
	memo.mu.Unlock()
	return known, nil
}

// Resolve returns only the app with its references replaced. It reads layers only if values hold the version of a
// chart.
func (f *Fleet) Resolve(t Target) (Resolved, error) {
	var values []LayerFile
	if slices.ContainsFunc(t.App.sourcesIn(t.Cluster.Environment), func(s Source) bool {
		return s.Helm != nil && s.Helm.VersionFrom != nil && s.Helm.VersionFrom.Value != ""
	}) {
		values = f.ValuesFiles(t)
	}
	one, err := f.resolveOnce(t, values)
	return one.Resolved, err
}

func (f *Fleet) resolve(t Target, values []LayerFile) (Resolved, error) {
	if i := t.Imported(); i != nil {
		return i.resolve()
	}
	sources := t.App.sourcesIn(t.Cluster.Environment)
	out := Resolved{Unstable: cmp.Or(t.App.Spec.Unstable, "error"), Sources: make([]Source, len(sources))}
	var err error
	if err := f.layersAvailable(t); err != nil {
		return out, t.appError(err, "")
	}
	if out.Namespace, err = t.text(t.App.Spec.Namespace); err != nil {
		return out, t.appError(err, t.App.Spec.Namespace)
	}
	if err := mayDeployTo(t, out.Namespace); err != nil {
		return out, t.appError(err, t.App.Spec.Namespace)
	}
	for i, s := range sources {
		if out.Sources[i], err = f.resolveSource(t, s, values); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (f *Fleet) resolveSource(t Target, written Source, values []LayerFile) (Source, error) {
	s := written.clone()
	for _, p := range s.strings() {
		text := *p
		var err error
		if *p, err = t.text(text); err != nil {
			return s, t.appError(err, text)
		}
	}
	if err := t.confine(&s); err != nil {
		return s, t.appError(err, "")
	}
	if err := f.available(s.repository()); err != nil {
		return s, t.appError(err, s.repository())
	}
	if p := s.Path(); s.repository() != "" && leavesRepository(p) {
		return s, t.appError(fmt.Errorf("the path %q leaves the repository %s on cluster %s", p, s.repository(),
			t.Cluster.Name), "")
	}
	s.fillIn(t.App)
	if p := s.Path(); leavesRepository(p) {
		from, _ := bounds(t.App.workspace)
		return s, t.appError(fmt.Errorf("the path %q leaves %s on cluster %s", p, from, t.Cluster.Name), "")
	}
	if s.Helm == nil || s.Helm.VersionFrom == nil {
		return s, nil
	}
	from := s.Helm.VersionFrom
	if leavesRepository(from.File) {
		what, _ := bounds(t.App.workspace)
		return s, t.appError(fmt.Errorf("the path %q leaves %s on cluster %s", from.File, what, t.Cluster.Name),
			written.Helm.VersionFrom.File)
	}
	if from.File = path.Join(t.App.root(), from.File); t.App.workspace != nil && from.Value == "" &&
		!t.MayRead(f.tree.real(from.File)) {
		return s, t.appError(fmt.Errorf("the path %q leads out of the workspace %s", from.File, t.App.workspace.Name),
			written.Helm.VersionFrom.File)
	}
	version, err := f.chartVersion(t, values, s)
	if err != nil {
		return s, t.appError(err, cmp.Or(written.Helm.VersionFrom.File, written.Helm.VersionFrom.Value))
	}
	s.Helm.Version, s.Helm.VersionFrom = version, nil
	return s, nil
}

// appError is an error about a string of the app's file.
func (t Target) appError(err error, written string) error {
	p := Problem{File: t.App.File, Severity: SeverityError, Message: err.Error()}
	if n := t.App.doc.root; n != nil {
		p.Line, p.Column = n.Line, n.Column
		if at := findScalar(n, written); at != nil && written != "" {
			p.Line, p.Column = at.Line, at.Column
		}
	}
	return &FileError{Problem: p, Cluster: t.Cluster.Name}
}

// SourceError adds the place in the app's file that names a source to an error about it. index is that of
// Resolved.Sources. An error that has a place already, and one about an imported target, stay as they are.
func (t Target) SourceError(index int, err error) error {
	if _, placed := errors.AsType[*FileError](err); placed || err == nil || t.Imported() != nil ||
		t.App.doc.root == nil {
		return err
	}
	p := Problem{File: t.App.File, Severity: SeverityError, Message: err.Error()}
	if sources := t.App.sourcesIn(t.Cluster.Environment); index < len(sources) {
		if at := sources[index].findIn(t.App.doc.root); at != nil {
			p.Line, p.Column = at.Line, at.Column
		}
	}
	return &FileError{Problem: p, Cluster: t.Cluster.Name, err: err}
}

// findIn returns the scalar that names the source in the app's file, or the key of its engine; nil if neither is there.
func (s *Source) findIn(n *yaml.Node) *yaml.Node {
	engine, text := "manifests", s.Path()
	switch {
	case s.Helm != nil:
		engine, text = "helm", cmp.Or(s.Helm.Chart, s.Helm.Path)
	case s.Kustomize != nil:
		engine = "kustomize"
	}
	var key *yaml.Node
	if n == nil {
		return nil
	}
	var find func(n *yaml.Node) *yaml.Node
	find = func(n *yaml.Node) *yaml.Node {
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 && child.Value == engine && i+1 < len(n.Content) {
				if at := findScalar(n.Content[i+1], text); at != nil && text != "" {
					return at
				}
				key = cmp.Or(key, child)
			}
			if at := find(child); at != nil {
				return at
			}
		}
		return nil
	}
	return cmp.Or(find(n), key)
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

// Path is the place of a source in the repository, "" for a chart from elsewhere.
func (s *Source) Path() string {
	switch {
	case s.Helm != nil:
		return s.Helm.Path
	case s.Kustomize != nil:
		return s.Kustomize.Path
	case s.Manifests != nil:
		return s.Manifests.Path
	}
	return "" // objects of an importer have no place of their own
}

// repository is the name of the other repository that a source is in; "" for none.
func (s *Source) repository() string {
	switch {
	case s.Helm != nil:
		return s.Helm.Repository
	case s.Kustomize != nil:
		return s.Kustomize.Repository
	case s.Manifests != nil:
		return s.Manifests.Repository
	}
	return ""
}

func (s Source) clone() Source {
	switch {
	case s.Helm != nil:
		h := *s.Helm
		if h.VersionFrom != nil {
			v := *h.VersionFrom
			h.VersionFrom = &v
		}
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

// fillIn makes paths those of the fleet's tree, and uses the folder of app.yaml where none is given.
func (s *Source) fillIn(a *App) {
	root := a.root()
	if s.shared {
		root = ""
	}
	clean := func(p *string) {
		if name := s.repository(); name != "" {
			*p = mounted(name, *p)
			return
		}
		if *p != "" {
			*p = path.Join(root, *p)
		}
		*p = path.Clean(cmp.Or(*p, a.Dir, "."))
	}
	switch {
	case s.Helm != nil:
		s.Helm.ReleaseName = cmp.Or(s.Helm.ReleaseName, a.localName())
		if s.Helm.Chart == "" {
			clean(&s.Helm.Path)
		}
	case s.Kustomize != nil:
		clean(&s.Kustomize.Path)
	case s.Manifests != nil:
		clean(&s.Manifests.Path)
	}
}
