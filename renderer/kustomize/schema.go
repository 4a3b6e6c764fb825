package kustomize

import (
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// maxPaths is how many ways a definition of `crds` may have through its references; the library walks each.
const maxPaths = 10_000

// crd takes a file of `crds`: definitions of types, which the library walks without looking for cycles.
func (s *scan) crd(ref string, at place) error {
	data, err := s.parsed(ref, at)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return at.refuse(ref, "is empty: add the definitions or remove the entry")
	}
	var types map[string]struct{ Schema spec.Schema }
	if err := yaml.Unmarshal(data, &types); err != nil {
		return at.refuse(ref, "holds no definitions of types: %w", err)
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
	for name := range links {
		switch n := paths(links, name, known); {
		case n < 0:
			return at.refuse(ref, "refers in a cycle through the type %s: break the cycle of $ref", shown(name))
		case n > maxPaths:
			return at.refuse(ref, "refers from the type %s in more than %d ways: flatten its $ref", shown(name), maxPaths)
		}
	}
	return nil
}

// paths counts the ways from a name through links; negative if one of them is a cycle.
func paths(links map[string][]string, name string, known map[string]int) int {
	if n, ok := known[name]; ok {
		return n
	}
	known[name] = -1 // while it is open
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

// description takes an API description of `openapi`. Its references must stay inside, and lead somewhere: the library
// follows them until there is none.
func (s *scan) description(ref string, at place) error {
	data, err := s.parsed(ref, at)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return at.refuse(ref, "is no API description: %w", err)
	}
	if foreign := foreignRef(doc); foreign != "" {
		return at.refuse(ref, "holds the $ref %s: only references of the form #/definitions/<name> are taken", shown(foreign))
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
	for name := range links {
		if paths(links, name, known) < 0 {
			return at.refuse(ref, "refers in a cycle through the definition %s: break the cycle of $ref", shown(name))
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
	for key, value := range m {
		if target, ok := value.(string); ok && strings.EqualFold(key, "$ref") {
			return target, true
		}
	}
	return "", false
}

// foreignRef finds a reference that is none to a definition of the same description.
func foreignRef(v any) string {
	if target, ok := directRef(v); ok {
		name, local := strings.CutPrefix(target, localRef)
		if !local || name == "" || strings.ContainsAny(name, "/~%#") {
			return target
		}
	}
	switch x := v.(type) {
	case map[string]any:
		for _, item := range x {
			if found := foreignRef(item); found != "" {
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
