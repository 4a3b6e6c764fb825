package helm

import (
	"math"
	"unicode/utf8"

	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"
	yamlv2 "sigs.k8s.io/yaml/goyaml.v2"
)

// toYAML returns "" for a value that YAML cannot represent, as Helm does.
//
// Helm's function writes JSON, reads it as YAML, and writes that as YAML. Most values are the same after these two steps, so toYAML leaves
// them out. FuzzToYAML compares the two.
func toYAML(v any) string {
	marshal := yaml.Marshal
	if plain, ok := sameInJSON(v, maxSameDepth); ok {
		v, marshal = plain, yamlv2.Marshal
	}
	out, err := marshal(v)
	if err != nil || len(out) == 0 {
		return ""
	}
	if out[len(out)-1] == '\n' {
		out = out[:len(out)-1]
	}
	return string(out)
}

const maxSameDepth = 100

// sameInJSON returns what a value is after it is written as JSON and read as YAML. It returns false if it does not know: for large numbers
// and fractions, types that JSON writes in a form of its own, and characters that one of the two steps escapes, replaces or refuses.
func sameInJSON(v any, depth int) (any, bool) {
	switch x := v.(type) {
	case nil, bool:
		return x, true
	case string:
		return x, sameText(x)
	case int:
		return x, true
	case int64:
		return x, true
	case float64:
		const exact = 1 << 53
		if x != math.Trunc(x) || math.Abs(x) > exact || x == 0 && math.Signbit(x) {
			return nil, false
		}
		return int64(x), true
	case map[string]any:
		return sameTable(x, depth-1)
	case chartutil.Values:
		return sameTable(x, depth-1)
	case []any:
		if x == nil || depth <= 0 {
			return nil, false
		}
		out := make([]any, len(x))
		for i := range x {
			var ok bool
			if out[i], ok = sameInJSON(x[i], depth-1); !ok {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

func sameTable(m map[string]any, depth int) (any, bool) {
	if m == nil || depth <= 0 {
		return nil, false
	}
	out := make(map[string]any, len(m))
	for key, value := range m {
		const longest = 500 // YAML's limit is 1,024 characters, including escapes
		if len(key) > longest || !sameText(key) {
			return nil, false
		}
		var ok bool
		if out[key], ok = sameInJSON(value, depth); !ok {
			return nil, false
		}
	}
	return out, true
}

// sameText reports whether a string stays the same as JSON and as YAML.
func sameText(s string) bool {
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c <= '~' || c == '\n' || c == '\t' {
			i++
			continue
		}
		const first = '\u00a0' // after the control characters
		r, size := utf8.DecodeRuneInString(s[i:])
		if r < first || r == utf8.RuneError || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffe' || r == '\uffff' {
			return false
		}
		i += size
	}
	return true
}
