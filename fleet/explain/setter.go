package explain

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
)

// setter is what sets values of an imported chart beside the user's object: a patch, a values file, an entry of a
// ConfigMap.
type setter struct {
	file   string
	path   []string   // of the value that it sets; empty for all values
	node   *yaml.Node // of the value; nil if its text is not YAML in the file, such as base64
	at     *yaml.Node // the position where node is nil
	text   bool       // the tool reads the type of the value out of its text, as `helm --set` does
	secret bool       // no page or comment shows the value

	known map[*yaml.Node]map[string]*yaml.Node // members of mappings, by key
}

// foundAt is the position that sets a value.
type foundAt struct {
	file string
	node *yaml.Node
	open bool // the file has the value as it is, and pages may show it
}

// whatSets finds the position that sets a value: the first that has the value as it is, or a variable in its place.
// Otherwise it is one that changes a part of the value.
func whatSets(all []setter, p []string, want any) (foundAt, bool) {
	var part *foundAt
	secret := false // a Secret that is not read here may set the value
	for n := range all {
		s := &all[n]
		if len(s.path) > len(p) || s.node == nil {
			at := s.position()
			if at == nil || !overlaps(s.path, p) {
				continue
			}
			here := foundAt{file: s.file, node: at}
			if s.secret && slices.Equal(s.path, p) { // nothing after it can set the value
				return here, true
			}
			secret = secret || s.secret
			part = cmp.Or(part, &here)
			continue
		}
		node := s.find(p)
		if node == nil {
			continue
		}
		here := foundAt{file: s.file, node: node, open: !s.secret && !secret}
		if s.has(node, want) {
			return here, true
		}
		if hasVariable(node) { // the variable has the value, which can be that of a Secret
			here.open = false
			return here, true
		}
	}
	if part != nil {
		return *part, true
	}
	return foundAt{}, false
}

// find returns the node of a value; nil if the setter does not set it.
func (s *setter) find(p []string) *yaml.Node {
	rest, ok := trimPrefix(p, s.path)
	if !ok {
		return nil
	}
	if s.known == nil {
		s.known = map[*yaml.Node]map[string]*yaml.Node{}
	}
	e := explained{known: s.known}
	node, exact := e.descend(s.node, rest)
	if !exact {
		return nil
	}
	return node
}

func hasVariable(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (strings.Contains(n.Value, "${") || strings.Contains(n.Value, "{{"))
}

func (s *setter) position() *yaml.Node {
	if s.node != nil {
		return s.node
	}
	return s.at
}

// overlaps reports whether one path begins with the other.
func overlaps(a, b []string) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

// has reports whether a node is the value.
func (s *setter) has(node *yaml.Node, want any) bool {
	v, err := yamlnode.Value(node)
	if err != nil {
		return false
	}
	if v, want := yamlnode.HelmNumbers(v), yamlnode.HelmNumbers(want); reflect.DeepEqual(v, want) {
		return true
	}
	return s.text && node.Kind == yaml.ScalarNode && strings.Trim(node.Value, `'"`) == asText(want)
}

// asText is a scalar as `helm --set` reads it.
func asText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
