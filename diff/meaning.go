package diff

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// stored returns an object of a built-in kind as the API server stores it: quantities and durations in canonical form,
// without empty fields that its type omits, and with the API's defaults. It is nil for other kinds, and for an object
// that does not fit its type or has fields that the type does not know, because nothing can be said about the meaning
// of these.
func stored(o manifest.Object) map[string]any {
	gv, err := schema.ParseGroupVersion(o.APIVersion())
	if err != nil {
		return nil
	}
	typed, err := scheme.Scheme.New(gv.WithKind(o.Kind()))
	if err != nil {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o, typed, true); err != nil {
		return nil
	}
	setDefaults(typed)
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil
	}
	return out
}

// settled returns after with the parts of before where the API server stores the same for both. What differs between
// before and the result is what changes in the cluster.
func settled(before, after manifest.Object) manifest.Object {
	if before.APIVersion() != after.APIVersion() || before.Kind() != after.Kind() {
		return after
	}
	was, is := stored(before), stored(after)
	if was == nil || is == nil {
		return after
	}
	return settleMap(before, after, was, is)
}

// settle settles one value: before and after as written, was and is as stored. name is the key of a list, which decides
// how elements pair.
func settle(name string, before, after, was, is any) any {
	if reflect.DeepEqual(was, is) {
		return before
	}
	switch x := after.(type) {
	case map[string]any:
		b, ok1 := before.(map[string]any)
		w, ok2 := was.(map[string]any)
		i, ok3 := is.(map[string]any)
		if ok1 && ok2 && ok3 {
			return settleMap(b, x, w, i)
		}
	case []any:
		b, ok1 := before.([]any)
		w, ok2 := was.([]any)
		i, ok3 := is.([]any)
		if ok1 && ok2 && ok3 && len(b) == len(w) && len(x) == len(i) {
			return settleList(name, b, x, w, i)
		}
	}
	return after
}

func settleMap(before, after, was, is map[string]any) map[string]any {
	out := make(map[string]any, len(after))
	for k, v := range after {
		old, written := before[k]
		switch {
		case written:
			out[k] = settle(k, old, v, was[k], is[k])
		case !reflect.DeepEqual(was[k], is[k]): // else after writes what is stored anyway
			out[k] = v
		}
	}
	for k, old := range before {
		if _, written := after[k]; !written && reflect.DeepEqual(was[k], is[k]) {
			out[k] = old
		}
	}
	return out
}

// settleList pairs elements by their merge keys as stored, or by place where the lists are equally long.
func settleList(name string, before, after, was, is []any) []any {
	pair := make(map[int]int, len(after))
	if la, lb, ok := labels(name, was, is); ok {
		at := positionsOf(la)
		for j, l := range lb {
			if i, known := at[l]; known {
				pair[j] = i
			}
		}
	} else if len(before) == len(after) {
		for i := range after {
			pair[i] = i
		}
	}
	out := make([]any, len(after))
	for j := range after {
		out[j] = after[j]
		if i, ok := pair[j]; ok {
			out[j] = settle("", before[i], after[j], was[i], is[j])
		}
	}
	return out
}

// without returns the changes of all whose path is not among those of some.
func without(all, some []FieldChange) []FieldChange {
	paths := make(map[string]bool, len(some))
	for _, f := range some {
		paths[f.Path] = true
	}
	var out []FieldChange
	for _, f := range all {
		if !paths[f.Path] {
			out = append(out, f)
		}
	}
	return out
}
