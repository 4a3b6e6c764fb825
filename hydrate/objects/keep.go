package objects

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// DecodeOne decodes YAML that holds exactly one object.
func DecodeOne(text []byte) (manifest.Object, error) {
	objects, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("%d objects where one is expected", len(objects))
	}
	return objects[0], nil
}

// ByIdentity reads the objects of a target's tree, keyed by the identity that the renderer gave them. An object in
// the app's namespace has two keys, with and without the namespace.
func ByIdentity(ctx context.Context, store *gitstore.Store, tree gitstore.Hash,
	namespace string,
) (map[manifest.Identity]manifest.Object, error) {
	out := map[manifest.Identity]manifest.Object{}
	if tree.IsZero() {
		return out, nil
	}
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := store.Blob(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		list, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			continue // Sluice did not write this file, so it has no value to keep
		}
		for _, o := range list {
			id := o.Identity()
			out[id] = o
			if id.Namespace == namespace {
				id.Namespace = ""
				out[id] = o
			}
		}
	}
	return out, nil
}

// KeepFields copies fields from old into an object, given as YAML. A field that old lacks keeps its new value.
func KeepFields(text []byte, old manifest.Object, paths [][]string) ([]byte, error) {
	object, err := DecodeOne(text)
	if err != nil {
		return nil, fmt.Errorf("keep fields of an object: %w", err)
	}
	for _, p := range paths {
		if v, ok := lookUp(map[string]any(old), p); ok {
			set(map[string]any(object), p, v)
		}
	}
	return manifest.Encode(object)
}

func lookUp(v any, p []string) (any, bool) {
	for _, key := range p {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, ok := index(key, len(x))
			if !ok {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func set(v any, p []string, value any) {
	if len(p) == 0 {
		return
	}
	parent, ok := lookUp(v, p[:len(p)-1])
	if !ok {
		return
	}
	last := p[len(p)-1]
	switch x := parent.(type) {
	case map[string]any:
		x[last] = value
	case []any:
		if i, ok := index(last, len(x)); ok {
			x[i] = value
		}
	}
}

// index parses an index into a list of a given length.
func index(s string, length int) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && n < length
}

// WithNamespace sets the namespace of an object, given as YAML.
func WithNamespace(text []byte, namespace string) ([]byte, error) {
	if out, ok := manifest.InsertNamespace(text, namespace); ok {
		return out, nil
	}
	object, err := DecodeOne(text)
	if err != nil {
		return nil, fmt.Errorf("set the namespace of an object: %w", err)
	}
	object.SetNamespace(namespace)
	return manifest.Encode(object)
}
