// Package layered divides values into layers, and writes them so that the fleet reads them unchanged.
package layered

import (
	"reflect"
	"strings"
)

// Escape keeps references of other tools as they are.
func Escape(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// Escaped escapes all strings of a value.
func Escaped(v any) any {
	switch v := v.(type) {
	case string:
		return Escape(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Escaped(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = Escaped(v[k])
		}
		return out
	}
	return v
}

// Common returns what all values have in common. A merge of it with rest gives the values again.
func Common(list []map[string]any) map[string]any {
	out := map[string]any{}
	for key, first := range list[0] {
		mappings, same := make([]map[string]any, 0, len(list)), true
		for _, values := range list {
			v, ok := values[key]
			if m, isMap := v.(map[string]any); isMap && len(m) > 0 {
				mappings = append(mappings, m)
			}
			same = same && ok && reflect.DeepEqual(v, first)
		}
		switch {
		case same:
			out[key] = first
		case len(mappings) == len(list):
			if part := Common(mappings); len(part) > 0 {
				out[key] = part
			}
		}
	}
	return out
}

// Rest returns what values have beyond the common part.
func Rest(values, shared map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range values {
		other, ok := shared[key]
		if ok && reflect.DeepEqual(v, other) {
			continue
		}
		m, isMap := v.(map[string]any)
		o, wasMap := other.(map[string]any)
		if isMap && wasMap {
			out[key] = Rest(m, o)
			continue
		}
		out[key] = v
	}
	return out
}
