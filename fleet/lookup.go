package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// lookup is the value of a reference on a target. An error means that a reference in its name is not set.
func (t Target) lookup(ref *reference) (any, bool, error) {
	name, err := t.nameOf(ref)
	if err != nil {
		return nil, false, err
	}
	v, ok := t.named(name)
	return v, ok, nil
}

// nameOf is a reference's name with the references in it replaced.
func (t Target) nameOf(ref *reference) (string, error) {
	if ref.inner == nil {
		return ref.name, nil
	}
	return joinSegments(ref.inner, t)
}

func (t Target) named(name string) (any, bool) {
	switch name {
	case "cluster.name":
		return t.Cluster.Name, true
	case "environment":
		return t.Cluster.Environment, true
	case "app":
		if t.App == nil {
			return nil, false
		}
		if t.App.each != nil {
			return t.App.declared, true
		}
		return t.App.localName(), true
	}
	if label, ok := strings.CutPrefix(name, refLabels); ok {
		v, ok := t.Cluster.Labels[label]
		return v, ok
	}
	if variable, ok := strings.CutPrefix(name, refAppVars); ok {
		if t.App == nil {
			return nil, false
		}
		return dig(t.App.Spec.Vars, variable)
	}
	if member, ok := strings.CutPrefix(name, refEach); ok {
		return t.App.eachValue(member)
	}
	return dig(t.Cluster.Vars, strings.TrimPrefix(name, refVars))
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

// resolve returns a reference's value with its YAML type.
func (t Target) resolve(ref *reference) (any, error) {
	v, ok, err := t.lookup(ref)
	if ok || err != nil {
		return v, err
	}
	if !ref.optional {
		return nil, t.unset(ref)
	}
	return fallbackValue(ref.fallback), nil
}

// unset is the error of a reference without a value.
func (t Target) unset(ref *reference) error {
	list, what, owner := slices.Sorted(maps.Keys(t.Cluster.Vars)), "vars", "cluster "+t.Cluster.Name
	place := "the cluster or its class"
	switch {
	case strings.HasPrefix(ref.name, refLabels):
		list, what = slices.Sorted(maps.Keys(t.Cluster.Labels)), "labels"
	case strings.HasPrefix(ref.name, refAppVars) && t.App != nil:
		list, owner, place = slices.Sorted(maps.Keys(t.App.Spec.Vars)), "app "+t.App.Name, "the app"
	case strings.HasPrefix(ref.name, refEach) && (t.App == nil || t.App.each == nil):
		return fmt.Errorf("%s is not set: the app has no forEach (write it for an app that describes clusters, or a fallback with :=)",
			ref.text)
	case strings.HasPrefix(ref.name, refEach+"labels."):
		list, what, owner = slices.Sorted(maps.Keys(t.App.each.Labels)), "labels", "cluster "+t.App.each.Name
	case strings.HasPrefix(ref.name, refEach+"vars."):
		list, owner = slices.Sorted(maps.Keys(t.App.each.Vars)), "cluster "+t.App.each.Name
	case strings.HasPrefix(ref.name, refEach):
		return fmt.Errorf("%s is not set for cluster %s: set it on the cluster or its class, or write a fallback with :=",
			ref.text, t.App.each.Name)
	}
	has := "no " + what
	if len(list) > 0 {
		has = "the " + what + " " + strings.Join(list, ", ")
	}
	return fmt.Errorf("%s is not set for %s, which has %s: set it on %s, or write a fallback with :=", ref.text, owner,
		has, place)
}

// fallbackValue decodes a fallback as YAML: a scalar, a list in brackets or a mapping in braces. An empty fallback, and
// one that is not such a value, is a string.
func fallbackValue(text string) any {
	var root yaml.Node
	if text == "" || manifest.Check([]byte(text), yamlnode.Budget()) != nil ||
		yaml.Unmarshal([]byte(text), &root) != nil ||
		len(root.Content) == 0 {
		return text
	}
	n := root.Content[0]
	if n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle == 0 {
		return text
	}
	v, err := yamlnode.Value(n)
	if err != nil {
		return text
	}
	return v
}

// resolveText returns a reference's value as part of a longer text.
func (t Target) resolveText(ref *reference) (string, error) {
	v, ok, err := t.lookup(ref)
	switch {
	case err != nil:
		return "", err
	case !ok && ref.optional:
		return ref.fallback, nil
	case !ok:
		return "", t.unset(ref)
	}
	switch v.(type) {
	case map[string]any, []any, nil:
		return "", fmt.Errorf("%s is not a scalar for cluster %s: only an unquoted text that is nothing but the reference can take it", ref.text, t.Cluster.Name)
	}
	return scalarText(v), nil
}

// replace replaces the references of an unquoted text. It gives the variable itself if the text is exactly one
// reference, a string otherwise.
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

// text replaces the references of a text by strings.
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

// appReferences checks the references in an app's strings and remembers them.
func (l *loader) appReferences(a *App) {
	for _, source := range a.AllSources() {
		for _, s := range source.strings() {
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

// strings returns pointers to the strings of a source in which references are replaced.
func (s *Source) strings() []*string {
	switch {
	case s.Helm != nil:
		out := []*string{
			&s.Helm.Chart, &s.Helm.Path, &s.Helm.Repo, &s.Helm.Version, &s.Helm.ReleaseName,
			&s.Helm.Namespace,
		}
		if v := s.Helm.VersionFrom; v != nil {
			out = append(out, &v.File, &v.Key, &v.Value)
		}
		return out
	case s.Kustomize != nil:
		return []*string{&s.Kustomize.Path}
	case s.Manifests != nil:
		return []*string{&s.Manifests.Path}
	}
	return nil
}
