package helm

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The values of most targets differ from the defaults in a few places, but a validation looks at all of them. In a schema, most tables have
// keywords that look at one property at a time. So a valid table of default values stays valid below other values of other targets, and this
// file keeps which shared tables are valid. It decides only that values are valid. Otherwise the whole validation decides, and has the
// messages.

// parts says which schemas look at one property at a time.
type parts map[*jsonschema.Schema]bool

// partsOf returns nil for a schema with references that depend on the schemas around them.
func partsOf(document any, s *jsonschema.Schema) parts {
	if dynamic(document) {
		return nil
	}
	out := parts{}
	out.add(s)
	return out
}

func dynamic(document any) bool {
	switch x := document.(type) {
	case map[string]any:
		for key, item := range x {
			switch key {
			case "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor":
				return true
			}
			if dynamic(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, dynamic)
	}
	return false
}

func (p parts) add(s *jsonschema.Schema) {
	if _, known := p[s]; known || s == nil {
		return
	}
	p[s] = separate(s)
	if !p[s] {
		return
	}
	p.add(s.Ref)
	for _, below := range s.Properties {
		p.add(below)
	}
	if below, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		p.add(below)
	}
}

// separate reports whether a schema has no other keywords than those that valid knows, and annotations. The meta-schemas that the library has
// built in have dynamic references, so a schema that refers to one is validated as a whole.
func separate(s *jsonschema.Schema) bool {
	if s.Ref != nil && !strings.HasPrefix(s.Ref.Location, schemaURL+"#") {
		return false
	}
	fields := reflect.ValueOf(*s)
	for i := range fields.NumField() {
		switch f := fields.Type().Field(i); f.Name {
		case "DraftVersion", "Location", "ID", "Anchor", "Ref", "Types", "Required", "Properties", "AdditionalProperties",
			"Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated":
		default:
			if f.IsExported() && !fields.Field(i).IsZero() {
				return false
			}
		}
	}
	return true
}

// allows reports whether the keyword `type` allows values of a type.
func allows(s *jsonschema.Schema, name string) bool {
	var one jsonschema.Types
	one.Add(name)
	return s.Types == nil || s.Types.IsEmpty() || *s.Types&one != 0
}

// checked is a schema for which a shared table is valid.
type checked struct {
	schema *jsonschema.Schema
	next   *checked
}

func (t *sharedTable) isValid(s *jsonschema.Schema) bool {
	for known := t.valid.Load(); known != nil; known = known.next {
		if known.schema == s {
			return true
		}
	}
	return false
}

// maxReferences is the number of references that valid follows for one value.
const maxReferences = 10

// valid reports whether a value is known to be valid.
func (p parts) valid(s *jsonschema.Schema, v any, shared *defaults, references int) bool {
	m, ok := v.(map[string]any)
	if !ok || m == nil || references > maxReferences {
		return p.typed(s, v) || s.Validate(v) == nil
	}
	known := shared.table(m)
	if known == nil {
		return p.table(s, m, shared, references)
	}
	if known.isValid(s) {
		return true
	}
	first := known.valid.Load()
	valid := p.table(s, m, shared, references)
	if valid { // if another rendering was faster, a later one adds this schema
		known.valid.CompareAndSwap(first, &checked{s, first})
	}
	return valid
}

// typed reports whether a value that is no table is known to be valid: of the keywords of such a schema, only the type concerns it.
func (p parts) typed(s *jsonschema.Schema, v any) bool {
	if !p[s] || s.Ref != nil {
		return false
	}
	switch x := v.(type) {
	case nil:
		return allows(s, "null")
	case bool:
		return allows(s, "boolean")
	case string:
		return allows(s, "string")
	case []any:
		return allows(s, "array")
	case int, int64:
		return allows(s, "number") || allows(s, "integer")
	case float64:
		return !math.IsNaN(x) && !math.IsInf(x, 0) && (allows(s, "number") || x == math.Trunc(x) && allows(s, "integer"))
	}
	return false
}

func (p parts) table(s *jsonschema.Schema, m map[string]any, shared *defaults, references int) bool {
	if !p[s] {
		return s.Validate(m) == nil
	}
	if !allows(s, "object") {
		return false
	}
	if s.Ref != nil && !p.valid(s.Ref, m, shared, references+1) {
		return false
	}
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	for name, item := range m {
		if !p.property(s, name, item, shared) {
			return false
		}
	}
	return true
}

func (p parts) property(s *jsonschema.Schema, name string, v any, shared *defaults) bool {
	if below, ok := s.Properties[name]; ok {
		return p.valid(below, v, shared, 0)
	}
	switch more := s.AdditionalProperties.(type) {
	case nil:
		return true
	case bool:
		return more
	case *jsonschema.Schema:
		return p.valid(more, v, shared, 0)
	}
	return false
}
