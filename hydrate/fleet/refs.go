package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// maxReference bounds a reference, so that a text of many unfinished ones costs no more than its length.
const maxReference = 1024

// reference is one ${…} that Sluice replaces.
type reference struct {
	text     string // as it stands, with ${ and }
	name     string // cluster.name, cluster.labels.x, cluster.vars.x, environment or app
	fallback string
	optional bool // a fallback is there
}

// segment is a piece of text: literal, or a reference.
type segment struct {
	literal string
	ref     *reference
}

// parseReferences splits a text. Only names that begin with `cluster.`, and `environment` and `app`, are references; any
// other ${…} stays as it is. `$${` is a literal `${`.
func parseReferences(text string) ([]segment, error) {
	var out []segment
	var literal strings.Builder
	for rest := text; rest != ""; {
		i := strings.Index(rest, "${")
		if i < 0 {
			literal.WriteString(rest)
			break
		}
		if i > 0 && rest[i-1] == '$' {
			literal.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		literal.WriteString(rest[:i])
		ref, length, err := readReference(rest[i:])
		if err != nil {
			return nil, err
		}
		if ref == nil {
			literal.WriteString("${")
			rest = rest[i+2:]
			continue
		}
		if literal.Len() > 0 {
			out = append(out, segment{literal: literal.String()})
			literal.Reset()
		}
		out = append(out, segment{ref: ref})
		rest = rest[i+length:]
	}
	if literal.Len() > 0 {
		out = append(out, segment{literal: literal.String()})
	}
	return out, nil
}

// readReference reads the reference that text begins with; nil if it is none of ours.
func readReference(text string) (*reference, int, error) {
	body := text[2:]
	if !own(body) {
		return nil, 0, nil
	}
	end := closing(body[:min(len(body), maxReference)])
	if end < 0 {
		return nil, 0, fmt.Errorf("%.40q has no closing } on its line within %d characters", text, maxReference)
	}
	name, fallback, optional := strings.Cut(body[:end], ":=")
	ref := &reference{text: text[:end+3], name: name, fallback: fallback, optional: optional}
	known := name == "cluster.name" || name == "environment" || name == "app"
	for _, prefix := range []string{"cluster.labels.", "cluster.vars."} {
		known = known || strings.HasPrefix(name, prefix) && len(name) > len(prefix)
	}
	if !known {
		return nil, 0, fmt.Errorf("%s is no reference: cluster.name, cluster.labels.…, cluster.vars.…, environment and app are; $${ is a literal ${", ref.text)
	}
	for i := range len(fallback) {
		if inner, found := strings.CutPrefix(fallback[i:], "${"); found && own(inner) {
			return nil, 0, fmt.Errorf("%s: a fallback cannot hold a reference", ref.text)
		}
	}
	return ref, end + 3, nil
}

// closing finds the brace that ends a reference, on its line; a fallback such as {} may have braces of its own.
func closing(body string) int {
	depth := 0
	for i := range len(body) {
		switch body[i] {
		case '\n':
			return -1
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// own says whether what follows a ${ begins like a reference of ours.
func own(body string) bool {
	return strings.HasPrefix(body, "cluster.") || ownName(body, "environment") || ownName(body, "app")
}

func ownName(body, name string) bool {
	return strings.HasPrefix(body, name+"}") || strings.HasPrefix(body, name+":=")
}

// lookup is the value of a reference on a target.
func (t Target) lookup(name string) (any, bool) {
	switch name {
	case "cluster.name":
		return t.Cluster.Name, true
	case "environment":
		return t.Cluster.Environment, true
	case "app":
		if t.App == nil {
			return nil, false
		}
		return t.App.Name, true
	}
	if label, ok := strings.CutPrefix(name, "cluster.labels."); ok {
		v, ok := t.Cluster.Labels[label]
		return v, ok
	}
	return dig(t.Cluster.Vars, strings.TrimPrefix(name, "cluster.vars."))
}

// dig finds a variable by its whole name, or by a path into nested ones.
func dig(vars map[string]any, name string) (any, bool) {
	if v, ok := vars[name]; ok {
		return v, true
	}
	first, rest, nested := strings.Cut(name, ".")
	inner, ok := vars[first].(map[string]any)
	if !nested || !ok {
		return nil, false
	}
	return dig(inner, rest)
}

// resolve is a reference's value with its YAML type.
func (t Target) resolve(ref *reference) (any, error) {
	if v, ok := t.lookup(ref.name); ok {
		return v, nil
	}
	if !ref.optional {
		return nil, fmt.Errorf("%s is not set for cluster %s%s", ref.text, t.Cluster.Name, t.known(ref.name))
	}
	return fallbackValue(ref.fallback), nil
}

// fallbackValue is a fallback with its YAML type: a scalar, a list in brackets or a mapping in braces. An empty one is empty text, and so is
// whatever else is no such value: it stands as it is written.
func fallbackValue(text string) any {
	var root yaml.Node
	if text == "" || manifest.Check([]byte(text), fileBudget()) != nil || yaml.Unmarshal([]byte(text), &root) != nil || len(root.Content) == 0 {
		return text
	}
	n := root.Content[0]
	if n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle == 0 {
		return text
	}
	v, err := freeValue(n)
	if err != nil {
		return text
	}
	return v
}

// resolveText is a reference's value inside a longer text.
func (t Target) resolveText(ref *reference) (string, error) {
	v, ok := t.lookup(ref.name)
	if !ok && ref.optional {
		return ref.fallback, nil
	}
	if !ok {
		_, err := t.resolve(ref)
		return "", err
	}
	switch v.(type) {
	case map[string]any, []any, nil:
		return "", fmt.Errorf("%s is no scalar for cluster %s: only a text that is nothing but the reference can take it", ref.text, t.Cluster.Name)
	}
	return scalarText(v), nil
}

func (t Target) known(name string) string {
	list := slices.Sorted(maps.Keys(t.Cluster.Vars))
	what := "vars"
	if strings.HasPrefix(name, "cluster.labels.") {
		list, what = slices.Sorted(maps.Keys(t.Cluster.Labels)), "labels"
	}
	if len(list) == 0 {
		return fmt.Sprintf(", which has no %s: set it on the cluster or its class, or write a fallback with :=", what)
	}
	return fmt.Sprintf(", which has the %s %s: set it on the cluster or its class, or write a fallback with :=", what, strings.Join(list, ", "))
}

// replace is a text with its references replaced: the variable itself if the text is exactly one reference, else text.
func (t Target) replace(text string) (any, error) {
	segments, err := parseReferences(text)
	if err != nil {
		return nil, err
	}
	if len(segments) == 1 && segments[0].ref != nil {
		return t.resolve(segments[0].ref)
	}
	return joinSegments(segments, t)
}

// text is a text with its references replaced by text.
func (t Target) text(s string) (string, error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	segments, err := parseReferences(s)
	if err != nil {
		return "", err
	}
	return joinSegments(segments, t)
}

func joinSegments(segments []segment, t Target) (string, error) {
	var b strings.Builder
	for _, s := range segments {
		if s.ref == nil {
			b.WriteString(s.literal)
			continue
		}
		v, err := t.resolveText(s.ref)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

func scalarText(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	default:
		out, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(out)
	}
}

// references lists what a file refers to, without repetition: what its text shows, and what only its parsed scalars do,
// such as a reference with escapes or line breaks in it. It may list too much, never too little.
func references(text string) []reference {
	if !strings.Contains(text, "${") {
		return nil
	}
	c := collector{seen: map[string]bool{}}
	c.text(text)
	c.yaml(text, 0)
	return c.found
}

type collector struct {
	found []reference
	seen  map[string]bool
}

func (c *collector) text(text string) {
	for i := strings.Index(text, "${"); i >= 0 && i < len(text); {
		if ref, _, err := readReference(text[i:]); err == nil && ref != nil && !c.seen[ref.text] {
			c.seen[ref.text] = true
			c.found = append(c.found, *ref)
		}
		next := strings.Index(text[i+2:], "${")
		if next < 0 {
			return
		}
		i += 2 + next
	}
}

// yaml looks into scalars, and into scalars that are YAML themselves.
func (c *collector) yaml(text string, depth int) {
	const deepest = 2
	if depth > deepest || manifest.Check([]byte(text), fileBudget()) != nil {
		return
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var root yaml.Node
		if dec.Decode(&root) != nil {
			return // the end, or no YAML: whoever replaces references says so
		}
		c.node(&root, depth)
	}
}

func (c *collector) node(n *yaml.Node, depth int) {
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
		c.text(n.Value)
		if strings.ContainsAny(n.Value, "\n\\") {
			c.yaml(n.Value, depth+1)
		}
	}
	for _, child := range n.Content {
		c.node(child, depth)
	}
}

// position finds a text in a file, for messages.
func position(data []byte, text string) (line, column int) {
	i := bytes.Index(data, []byte(text))
	if i < 0 {
		return 0, 0
	}
	return bytes.Count(data[:i], []byte("\n")) + 1, i - bytes.LastIndexByte(data[:i], '\n')
}

// appReferences checks the references in an app's strings and remembers them.
func (l *loader) appReferences(a *App) {
	for i := range a.Sources {
		for _, s := range a.Sources[i].strings() {
			l.appReference(a, *s)
		}
	}
	l.appReference(a, a.Spec.Namespace)
}

func (l *loader) appReference(a *App, s string) {
	segments, err := parseReferences(s)
	if err != nil {
		l.errorf(a.doc, []string{"spec"}, "", "%v", err)
		return
	}
	for _, segment := range segments {
		if segment.ref != nil {
			a.refs = append(a.refs, *segment.ref)
		}
	}
}

// strings are the strings of a source in which references are replaced.
func (s *Source) strings() []*string {
	switch {
	case s.Helm != nil:
		return []*string{&s.Helm.Chart, &s.Helm.Path, &s.Helm.Repo, &s.Helm.Version, &s.Helm.ReleaseName}
	case s.Kustomize != nil:
		return []*string{&s.Kustomize.Path}
	case s.Manifests != nil:
		return []*string{&s.Manifests.Path}
	}
	return nil
}
