package diff

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// fields appends the differences between two values, by path. It matches lists of mappings by their merge keys, and
// other lists by position from both ends. Another order of a list is a change of the list itself.
func fields(at, name string, a, b any, out []FieldChange) []FieldChange {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return mapFields(at, x, y, out)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return listFields(at, name, x, y, out)
		}
	}
	if equal(a, b) {
		return out
	}
	return append(out, FieldChange{Path: at, Old: a, New: b, Had: true, Has: true})
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

func mapFields(at string, a, b map[string]any, out []FieldChange) []FieldChange {
	keys := slices.AppendSeq(make([]string, 0, len(a)+len(b)), maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		x, had := a[k]
		y, has := b[k]
		path := join(at, k)
		switch {
		case had && has:
			out = fields(path, k, x, y, out)
		case had:
			out = append(out, FieldChange{Path: path, Old: x, Had: true})
		default:
			out = append(out, FieldChange{Path: path, New: y, Has: true})
		}
	}
	return out
}

func listFields(at, name string, a, b []any, out []FieldChange) []FieldChange {
	la, lb, ok := labels(name, a, b)
	if !ok {
		return positions(at, a, b, out)
	}
	if reordered(name, a, la, lb) {
		out = append(out, FieldChange{
			Path: at, Old: "order: " + strings.Join(la, ", "), New: "order: " + strings.Join(lb, ", "), Had: true, Has: true,
		})
	}
	before, after := positionsOf(la), positionsOf(lb)
	for i, l := range la {
		path := at + "[" + l + "]"
		if j, ok := after[l]; ok {
			out = fields(path, "", a[i], b[j], out)
		} else {
			out = append(out, FieldChange{Path: path, Old: a[i], Had: true})
		}
	}
	for j, l := range lb {
		if _, ok := before[l]; !ok {
			out = append(out, FieldChange{Path: at + "[" + l + "]", New: b[j], Has: true})
		}
	}
	return out
}

// positions compares lists whose elements have no keys. It skips equal elements at both ends and compares the others
// pair by pair.
func positions(at string, a, b []any, out []FieldChange) []FieldChange {
	start := 0
	for start < len(a) && start < len(b) && equal(a[start], b[start]) {
		start++
	}
	tail := 0
	for tail < len(a)-start && tail < len(b)-start && equal(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	for i := start; i < max(len(a), len(b))-tail; i++ {
		path := at + "[" + strconv.Itoa(i) + "]"
		switch {
		case i < len(a)-tail && i < len(b)-tail:
			out = fields(path, "", a[i], b[i], out)
		case i < len(a)-tail:
			out = append(out, FieldChange{Path: path, Old: a[i], Had: true})
		case i < len(b)-tail:
			out = append(out, FieldChange{Path: path, New: b[i], Has: true})
		}
	}
	return out
}

// join adds a key to a path. A key with a dot or bracket is quoted: metadata.labels["app.kubernetes.io/name"].
func join(at, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\"= ") {
		return at + "[" + strconv.Quote(key) + "]"
	}
	if at == "" {
		return key
	}
	return at + "." + key
}

// noisy reports whether a field does not affect what runs: a chart's version, or a checksum of content that is itself
// part of the change.
func noisy(f FieldChange) bool {
	for _, parent := range []string{
		"metadata.labels[", "metadata.annotations[", "metadata.labels.",
		"metadata.annotations.",
	} {
		i := strings.LastIndex(f.Path, parent)
		if i < 0 || i > 0 && f.Path[i-1] != '.' {
			continue
		}
		if noisyKey(strings.Trim(f.Path[i+len(parent):], `"[]`)) {
			return true
		}
	}
	return false
}

func noisyKey(key string) bool {
	switch key {
	case "helm.sh/chart", "app.kubernetes.io/version", "chart", "heritage", "app.kubernetes.io/managed-by", "rollme",
		"checksum", "configHash", "config-hash":
		return true
	}
	return strings.HasPrefix(key, "checksum/") || strings.HasPrefix(key, "checksum.") ||
		strings.HasSuffix(key, "/checksum") ||
		strings.HasPrefix(key, "checksum-") || strings.HasSuffix(key, "-checksum") || strings.HasSuffix(key, "-hash")
}

// quiet returns a copy of to with the noisy labels and annotations of from.
func quiet(name string, from, to map[string]any) map[string]any {
	out := maps.Clone(to)
	for k, v := range to {
		x, ok := v.(map[string]any)
		if !ok {
			continue
		}
		before, had := from[k].(map[string]any)
		if name != "metadata" || k != "labels" && k != "annotations" {
			out[k] = quiet(k, before, x)
			continue
		}
		if x = quietKeys(before, x); len(x) > 0 || had {
			out[k] = x
		} else {
			delete(out, k)
		}
	}
	return out
}

// quietKeys returns now with the noisy keys of before.
func quietKeys(before, now map[string]any) map[string]any {
	out := maps.Clone(now)
	for k := range now {
		if noisyKey(k) {
			delete(out, k)
		}
	}
	for k, v := range before {
		if noisyKey(k) {
			out[k] = v
		}
	}
	return out
}
