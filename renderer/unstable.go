package renderer

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// unstable returns the fields in which two renderings of one bundle differ. Both are ordered by identity.
func unstable(first, second []Object) ([]Field, error) {
	again := make(map[manifest.Identity]Object, len(second))
	for _, o := range second {
		again[o.ID] = o
	}
	var out []Field
	for _, o := range first {
		other, ok := again[o.ID]
		if !ok {
			out = append(out, Field{Object: o.ID})
			continue
		}
		delete(again, o.ID)
		if bytes.Equal(o.YAML, other.YAML) {
			continue
		}
		a, err := decodeOne(o.YAML)
		if err != nil {
			return nil, err
		}
		b, err := decodeOne(other.YAML)
		if err != nil {
			return nil, err
		}
		compare(map[string]any(a), map[string]any(b), nil, func(path []string) {
			out = append(out, Field{Object: o.ID, Path: path})
		})
	}
	return out, nil
}

func decodeOne(text []byte) (manifest.Object, error) {
	objects, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// compare calls report with the path of every difference, at the highest level at which the two values still have the
// same structure.
func compare(a, b any, path []string, report func([]string)) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			report(slices.Clone(path))
			return
		}
		compareMaps(x, y, path, report)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			report(slices.Clone(path))
			return
		}
		for i := range x {
			compare(x[i], y[i], append(path, strconv.Itoa(i)), report)
		}
	default:
		if !reflect.DeepEqual(a, b) {
			report(slices.Clone(path))
		}
	}
}

func compareMaps(x, y map[string]any, path []string, report func([]string)) {
	keys := make([]string, 0, len(x))
	for k := range x {
		keys = append(keys, k)
	}
	for k := range y {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		compare(x[k], y[k], append(path, k), report)
	}
}
