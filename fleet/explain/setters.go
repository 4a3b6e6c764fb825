package explain

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
)

// Limits of what is looked at to explain one target. Beyond them, values have the line of the object.
const (
	maxSetterFiles   = 200
	maxSetters       = 200
	maxSetterPattern = 1000 // bytes of a selector
)

// setters collects what sets values of one target.
type setters struct {
	f      *fleet.Fleet
	target *fleet.Imported
	object *yaml.Node // the user's; nil if it is not known
	read   map[string][]*yaml.Node
	found  []setter // highest precedence first
}

// settersOf finds what may set values of a source of a target, highest precedence first. It looks at the files that the
// tool reads for the target; what cannot be read sets nothing here. own are the values in the object itself.
func settersOf(f *fleet.Fleet, i *fleet.Imported, object, own *yaml.Node, source int) []setter {
	s := &setters{f: f, target: i, object: object, read: map[string][]*yaml.Node{}}
	if i.Kind == kindHelmRelease {
		refs := yamlnode.Child(object, "spec", "valuesFrom")
		s.valuesFrom(refs, true)
		s.patches()
		s.add(setter{file: i.File, node: own}) // for its variables
		s.valuesFrom(refs, false)
	} else {
		s.helm(helmOf(object, source), own)
	}
	for _, name := range slices.Backward(i.Sources[source].ValuesFiles) {
		if docs := s.documents(name); len(docs) > 0 {
			s.add(setter{file: name, node: docs[0]})
		}
	}
	return s.found
}

const kindHelmRelease = "HelmRelease"

func (s *setters) add(one setter) {
	if len(s.found) < maxSetters {
		s.found = append(s.found, one)
	}
}

// documents returns the documents of a file; nil if it cannot be read.
func (s *setters) documents(name string) []*yaml.Node {
	if known, ok := s.read[name]; ok || len(s.read) >= maxSetterFiles {
		return known
	}
	var out []*yaml.Node
	if data, err := s.f.ReadFile(name); err == nil {
		out = yamlnode.Documents(data)
	}
	s.read[name] = out
	return out
}

// inner parses the text of a scalar. The lines of what it returns are those of the file for a block scalar, and the
// scalar's own for others.
func inner(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.ScalarNode {
		return nil
	}
	out := yamlnode.Documents([]byte(n.Value))
	for _, document := range out {
		if n.Style&yaml.LiteralStyle != 0 {
			shift(document, n.Line)
		} else {
			setLine(document, n.Line)
		}
	}
	return out
}

func shift(n *yaml.Node, lines int) {
	n.Line, n.Column = n.Line+lines, 1
	for _, one := range n.Content {
		shift(one, lines)
	}
}

// sources are the files that the tool read to build the object of the target, those of the nearest parent first.
func (s *setters) sources() []string {
	var out []string
	for _, p := range fleet.Parents(s.f, s.target) {
		out = append(out, p.Reads...)
	}
	return out
}

// valuesFrom adds the references of a HelmRelease, the last one first: those that set one value, or those with a whole
// file.
func (s *setters) valuesFrom(refs *yaml.Node, single bool) {
	list := yamlnode.Items(refs)
	for _, ref := range slices.Backward(list[max(0, len(list)-maxSetters):]) {
		target := yamlnode.Text(ref, "targetPath")
		if (target != "") != single {
			continue
		}
		key := yamlnode.Text(ref, "valuesKey")
		if key == "" {
			key = "values.yaml"
		}
		one := setter{secret: yamlnode.Text(ref, "kind") == "Secret", text: single}
		if single {
			one.path = strings.Split(target, ".")
		}
		for _, name := range s.sources() {
			for _, doc := range s.documents(name) {
				one.file = name
				if yamlnode.Text(doc, "kind") == yamlnode.Text(ref, "kind") &&
					yamlnode.Text(doc, "metadata", "name") == yamlnode.Text(ref, "name") {
					s.entry(one, doc, key)
				}
				s.generated(one, doc, yamlnode.Text(ref, "name"), key)
			}
		}
	}
}

// entry adds an entry of a ConfigMap or Secret.
func (s *setters) entry(one setter, object *yaml.Node, key string) {
	for _, field := range []string{"stringData", "data"} {
		value := yamlnode.Child(yamlnode.Child(object, field), key)
		switch {
		case value == nil:
		case one.secret && field == "data":
			one.at = value // base64
			s.add(one)
		case one.text:
			one.node = value
			s.add(one)
		default:
			for _, doc := range inner(value) {
				one.node = doc
				s.add(one)
			}
		}
	}
}

// generated adds an entry of a ConfigMap or Secret that a kustomization generates.
func (s *setters) generated(one setter, kustomization *yaml.Node, name, key string) {
	field := "configMapGenerator"
	if one.secret {
		field = "secretGenerator"
	}
	for _, g := range yamlnode.Items(yamlnode.Child(kustomization, field)) {
		if yamlnode.Text(g, "name") != name {
			continue
		}
		for _, file := range yamlnode.Items(yamlnode.Child(g, "files")) {
			as, at, named := strings.Cut(file.Value, "=")
			if !named {
				as, at = path.Base(file.Value), file.Value
			}
			if as != key {
				continue
			}
			from := one
			from.file = path.Join(path.Dir(one.file), at)
			if docs := s.documents(from.file); len(docs) > 0 {
				from.node = docs[0]
				s.add(from)
			}
		}
		for _, literal := range yamlnode.Items(yamlnode.Child(g, "literals")) {
			if as, text, _ := strings.Cut(literal.Value, "="); as == key {
				value := *literal
				value.Value, value.Tag = text, "!!str"
				one.node, one.text = &value, true
				s.add(one)
			}
		}
	}
}

// patches adds the patches of a HelmRelease: those of the Kustomization that applies it, then those of the
// kustomizations that it builds.
func (s *setters) patches() {
	parents := fleet.Parents(s.f, s.target)
	if len(parents) == 0 {
		return
	}
	if object := s.f.Object(parents[0]); object != nil {
		s.patchList(parents[0].File, yamlnode.Child(object, "spec", "patches"))
	}
	for _, name := range parents[0].Reads {
		for _, doc := range s.documents(name) {
			for _, field := range []string{"patches", "patchesJson6902", "patchesStrategicMerge"} {
				s.patchList(name, yamlnode.Child(doc, field))
			}
		}
	}
}

func (s *setters) patchList(file string, list *yaml.Node) {
	for _, p := range slices.Backward(yamlnode.Items(list)) {
		var target *yaml.Node
		at, docs := file, []*yaml.Node(nil)
		switch name := yamlnode.Text(p, "path"); {
		case p.Kind == yaml.ScalarNode && strings.Contains(p.Value, "\n"): // of patchesStrategicMerge
			docs = inner(p)
		case p.Kind == yaml.ScalarNode:
			at = path.Join(path.Dir(file), p.Value)
			docs = s.documents(at)
		case name != "":
			at, target = path.Join(path.Dir(file), name), yamlnode.Child(p, "target")
			docs = s.documents(at)
		default:
			docs, target = inner(yamlnode.Child(p, "patch")), yamlnode.Child(p, "target")
		}
		for _, doc := range docs {
			s.patch(at, doc, target)
		}
	}
}

// patch adds one patch, if it is for the target.
func (s *setters) patch(file string, doc, target *yaml.Node) {
	_, name, _ := strings.Cut(s.target.App, ".")
	if target == nil {
		target = &yaml.Node{Kind: yaml.MappingNode}
		if yamlnode.Text(doc, "kind") != kindHelmRelease || yamlnode.Text(doc, "metadata", "name") != name {
			return
		}
	}
	for field, value := range map[string]string{"kind": kindHelmRelease, "name": name} {
		if pattern := yamlnode.Text(target, field); pattern != "" && !matchesWhole(pattern, value) {
			return
		}
	}
	if doc.Kind == yaml.MappingNode {
		if values := yamlnode.Child(doc, "spec", "values"); values != nil {
			s.add(setter{file: file, node: values})
		}
		return
	}
	for _, op := range slices.Backward(yamlnode.Items(doc)) {
		pointer, ok := strings.CutPrefix(yamlnode.Text(op, "path"), "/spec/values")
		if !ok || pointer != "" && pointer[0] != '/' {
			continue
		}
		one := setter{file: file, node: yamlnode.Child(op, "value"), at: op}
		if pointer != "" {
			for part := range strings.SplitSeq(pointer[1:], "/") {
				one.path = append(one.path, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
			}
		}
		s.add(one)
	}
}

// matchesWhole matches as a selector of Kustomize does. The pattern is the user's, so it cannot be compiled once for
// the package.
func matchesWhole(pattern, text string) bool {
	if len(pattern) > maxSetterPattern {
		return false
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err == nil && re.MatchString(text)
}

// helmOf returns the Helm fields of a source of an Application, or of the template of an ApplicationSet.
func helmOf(object *yaml.Node, source int) *yaml.Node {
	spec := yamlnode.Child(object, "spec")
	if template := yamlnode.Child(spec, "template", "spec"); template != nil {
		spec = template
	}
	if list := yamlnode.Items(yamlnode.Child(spec, "sources")); len(list) > 0 {
		for _, one := range list {
			if yamlnode.Text(one, "ref") != "" && yamlnode.Text(one, "path") == "" &&
				yamlnode.Text(one, "chart") == "" {
				continue // it only has values files
			}
			if source--; source < 0 {
				return yamlnode.Child(one, "helm")
			}
		}
		return nil
	}
	return yamlnode.Child(spec, "source", "helm")
}

// helm adds the Helm fields of an Application.
func (s *setters) helm(h, own *yaml.Node) {
	for _, field := range []string{"fileParameters", "parameters"} {
		for _, p := range slices.Backward(yamlnode.Items(yamlnode.Child(h, field))) {
			s.add(setter{
				file: s.target.File, path: strings.Split(yamlnode.Text(p, "name"), "."),
				node: yamlnode.Child(p, "value"),
				at:   p, text: true,
			})
		}
	}
	s.add(setter{file: s.target.File, node: own})
	for _, doc := range inner(yamlnode.Child(h, "values")) {
		s.add(setter{file: s.target.File, node: doc})
	}
}
