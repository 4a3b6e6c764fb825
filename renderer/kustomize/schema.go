package kustomize

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// maxPaths limits the paths from one definition of `crds` through its references: the library walks each of them.
const maxPaths = 10_000

// crd adds a file of `crds`. It refuses cycles of references, on which the library would not end.
func (s *scan) crd(ref string, at place) error {
	data, err := s.readYAML(ref, at)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return at.refuse(ref, "is empty: add the definitions or remove the entry")
	}
	var types map[string]struct{ Schema spec.Schema }
	if err := yaml.Unmarshal(data, &types); err != nil {
		return at.refuse(ref, "does not decode as type definitions: %w", err)
	}
	links := map[string][]string{}
	for name := range types {
		properties := types[name].Schema.Properties
		for property := range properties {
			r := properties[property].Ref
			if r.GetURL() != nil {
				links[name] = append(links[name], r.String())
			}
		}
	}
	known := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		switch n := paths(links, name, known); {
		case n < 0:
			return at.refuse(ref, "has a cycle of $ref through the type %s: break it", shown(name))
		case n > maxPaths:
			return at.refuse(ref, "refers from the type %s along more than %d paths of $ref: flatten them", shown(name),
				maxPaths)
		}
	}
	return nil
}

// paths counts the paths from a name through links; it is negative if one of them is a cycle.
func paths(links map[string][]string, name string, known map[string]int) int {
	if n, ok := known[name]; ok {
		return n
	}
	known[name] = -1 // marks a name on the current path
	total := 1
	for _, next := range links[name] {
		n := paths(links, next, known)
		if n < 0 {
			return -1
		}
		total = min(total+n, maxPaths+1)
	}
	known[name] = total
	return total
}

// description adds an API description of `openapi`. Its references must name definitions of the same file and form no
// cycle, because the library follows them to the end.
func (s *scan) description(ref string, at place) error {
	data, err := s.readYAML(ref, at)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return at.refuse(ref, "does not decode as an API description: %w", err)
	}
	if foreign := foreignRef(doc); foreign != "" {
		return at.refuse(ref, "holds the $ref %s: only references of the form #/definitions/<name> are allowed",
			shown(foreign))
	}
	links := map[string][]string{}
	for key, value := range doc {
		definitions, ok := value.(map[string]any)
		if !ok || !strings.EqualFold(key, "definitions") {
			continue
		}
		for name, definition := range definitions {
			if target, ok := directRef(definition); ok {
				links[name] = append(links[name], strings.TrimPrefix(target, localRef))
			}
		}
	}
	known := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if paths(links, name, known) < 0 {
			return at.refuse(ref, "has a cycle of $ref through the definition %s: break it", shown(name))
		}
	}
	return nil
}

const localRef = "#/definitions/"

func directRef(v any) (string, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return "", false
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if target, ok := m[key].(string); ok && strings.EqualFold(key, "$ref") {
			return target, true
		}
	}
	return "", false
}

// foreignRef returns the first $ref, in order of keys, that does not name a definition of the same description.
func foreignRef(v any) string {
	if target, ok := directRef(v); ok {
		name, local := strings.CutPrefix(target, localRef)
		if !local || name == "" || strings.ContainsAny(name, "/~%#") {
			return target
		}
	}
	switch x := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			if found := foreignRef(x[key]); found != "" {
				return found
			}
		}
	case []any:
		for _, item := range x {
			if found := foreignRef(item); found != "" {
				return found
			}
		}
	}
	return ""
}
