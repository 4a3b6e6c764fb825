package helm

import "strings"

// conversions keeps the results of toYaml and fromYaml: the parts of the values that templates print are the same for most targets. One
// goroutine at a time uses it.
type conversions struct {
	texts  map[string]string         // by encoded value
	values map[string]map[string]any // by text
	bytes  int
}

// Limits of the bytes of one value and of all.
const (
	maxConversion  = 32 << 10
	maxConversions = 2 << 20
)

// toYAML returns what the function toYAML does. The digest of a shared map stands for it.
func (c *conversions) toYAML(v any, shared *defaults) string {
	if !worth(v) {
		return toYAML(v)
	}
	key, ok := []byte(nil), false
	if m, isMap := v.(map[string]any); isMap && shared.table(m) != nil {
		key, ok = append(append(key, 'S'), shared.table(m).sum[:]...), true
	} else {
		key, ok = encode(make([]byte, 0, 512), v)
	}
	if !ok {
		return toYAML(v)
	}
	if text, ok := c.texts[string(key)]; ok {
		return text
	}
	text := toYAML(v)
	if c.room(len(key) + len(text)) {
		c.texts[string(key)] = text
	}
	return text
}

// worth reports whether converting a value takes longer than a search.
func worth(v any) bool {
	switch x := v.(type) {
	case []any:
		return len(x) > 0
	case string:
		return true
	}
	m, ok := mapOf(v)
	return ok && len(m) > 0
}

// fromYAML returns what Helm's fromYaml does. The caller can change the result.
func (c *conversions) fromYAML(text string) map[string]any {
	if known, ok := c.values[text]; ok {
		return copyMap(known)
	}
	out := decodeMap(text, unmarshalYAML)
	// Null gives a nil map, which set refuses, and aliases can make a small text a large value.
	if out != nil && !strings.Contains(text, "*") && c.room(4*len(text)) {
		c.values[text] = copyMap(out)
	}
	return out
}

// room reports whether there is room for more bytes. If not, it makes room for the next conversion.
func (c *conversions) room(bytes int) bool {
	if bytes > maxConversion {
		return false
	}
	if c.bytes += bytes; c.texts == nil || c.bytes > maxConversions {
		c.texts, c.values, c.bytes = map[string]string{}, map[string]map[string]any{}, bytes
	}
	return true
}
