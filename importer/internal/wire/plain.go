package wire

import (
	"encoding/json"
	"math"
	"unicode/utf8"
)

// Plain returns a copy of a mapping in which values have the types, and texts the bytes, that they have after they were
// written as JSON and read again: every number is a float64.
func Plain(m map[string]any) (map[string]any, error) {
	if m == nil {
		return nil, nil
	}
	if out, ok := plain(m, 0); ok {
		return out.(map[string]any), nil //nolint:forcetypeassert // a mapping stays one
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(text, &out)
}

// plain returns false for what only encoding/json can tell.
func plain(v any, depth int) (any, bool) {
	if depth > maxLevels {
		return nil, false
	}
	switch v := v.(type) {
	case nil, bool:
		return v, true
	case string:
		return v, utf8.ValidString(v)
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case []any:
		if v == nil {
			return nil, true
		}
		out := make([]any, len(v))
		for n := range v {
			var ok bool
			if out[n], ok = plain(v[n], depth+1); !ok {
				return nil, false
			}
		}
		return out, true
	case map[string]any:
		if v == nil {
			return nil, true
		}
		out := make(map[string]any, len(v))
		for key, one := range v {
			inner, ok := plain(one, depth+1)
			if !ok || !utf8.ValidString(key) {
				return nil, false
			}
			out[key] = inner
		}
		return out, true
	}
	return nil, false
}
