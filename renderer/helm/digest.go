package helm

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"helm.sh/helm/v3/pkg/chartutil"
)

// digests computes what is at the paths of a scope. Equal digests of a path mean that a template that reads the path sees no difference.
// After a template changed the scope, they are computed again.
type digests struct {
	scope  map[string]any
	known  []digest // by the number of the path
	buffer []byte
}

type digest struct {
	state byte // of the computation
	sum   [sha256.Size]byte
}

const (
	computed   = 1
	impossible = 2 // a value has a type that is not known
)

// of returns the digest of the path with a number.
func (d *digests) of(number int, paths [][]string) ([sha256.Size]byte, bool) {
	if d.known == nil {
		d.known = make([]digest, len(paths))
	}
	if at := &d.known[number]; at.state == 0 {
		at.state = impossible
		if text, ok := encodePath(d.buffer[:0], d.scope, paths[number]); ok {
			at.state, at.sum, d.buffer = computed, sha256.Sum256(text), text
		}
	}
	return d.known[number].sum, d.known[number].state == computed
}

// encodePath writes what is at a path, or where the path ends and what is there.
func encodePath(out []byte, scope map[string]any, path []string) ([]byte, bool) {
	var v any = scope
	for i, key := range path {
		if c, ok := v.(*chartutil.Capabilities); ok {
			return encodeCapabilities(append(out, 'C'), c, key)
		}
		items, ok := mapOf(v)
		if ok && key == kindKey {
			return append(out, 'K'), true
		}
		if ok {
			v, ok = items[key]
			if !ok {
				return binary.AppendUvarint(append(out, 'A'), uint64(i)), true
			}
			continue
		}
		out = binary.AppendUvarint(append(out, 'E'), uint64(i))
		return encode(out, v)
	}
	return encode(append(out, 'V'), v)
}

func mapOf(v any) (map[string]any, bool) {
	switch x := v.(type) {
	case map[string]any:
		return x, true
	case chartutil.Values:
		return x, true
	}
	return nil, false
}

func encodeCapabilities(out []byte, c *chartutil.Capabilities, field string) ([]byte, bool) {
	switch field {
	case "KubeVersion":
		return appendTexts(out, c.KubeVersion.Version, c.KubeVersion.Major, c.KubeVersion.Minor), true
	case "APIVersions":
		return appendTexts(out, c.APIVersions...), true
	}
	return nil, false
}

func appendTexts(out []byte, texts ...string) []byte {
	out = binary.AppendUvarint(out, uint64(len(texts)))
	for _, text := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return out
}

// encode writes a value with its type, so that different values have different encodings. It returns false for a type that values of charts
// do not have, and for a value that is nested too deeply: a template can put a map into itself.
func encode(out []byte, v any) ([]byte, bool) { return encodeTo(out, v, maxScopeHeight) }

func encodeTo(out []byte, v any, depth int) ([]byte, bool) {
	if depth == 0 {
		return nil, false
	}
	switch x := v.(type) {
	case nil:
		return append(out, 'n'), true
	case bool:
		if x {
			return append(out, 't'), true
		}
		return append(out, 'f'), true
	case string:
		return appendTexts(append(out, 's'), x), true
	case int:
		return binary.AppendVarint(append(out, 'i'), int64(x)), true
	case int64:
		return binary.AppendVarint(append(out, 'I'), x), true
	case float64:
		return binary.BigEndian.AppendUint64(append(out, 'd'), math.Float64bits(x)), true
	case map[string]any:
		return encodeMap(append(out, 'm'), x, depth-1)
	case chartutil.Values:
		return encodeMap(append(out, 'M'), x, depth-1)
	case []any:
		return encodeList(append(out, 'l'), x, depth-1)
	}
	return nil, false
}

func encodeMap(out []byte, m map[string]any, depth int) ([]byte, bool) {
	if m == nil {
		return append(out, 'n'), true
	}
	out = binary.AppendUvarint(append(out, 'i'), uint64(len(m)))
	var few [16]string
	for _, key := range sortedKeys(few[:0], m) {
		var ok bool
		if out, ok = encodeTo(appendTexts(out, key), m[key], depth); !ok {
			return nil, false
		}
	}
	return out, true
}

// sortedKeys appends the keys of a map in order.
func sortedKeys(keys []string, m map[string]any) []string {
	keys = slices.Grow(keys, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func encodeList(out []byte, l []any, depth int) ([]byte, bool) {
	if l == nil {
		return append(out, 'n'), true
	}
	out = binary.AppendUvarint(append(out, 'i'), uint64(len(l)))
	for _, item := range l {
		var ok bool
		if out, ok = encodeTo(out, item, depth); !ok {
			return nil, false
		}
	}
	return out, true
}
