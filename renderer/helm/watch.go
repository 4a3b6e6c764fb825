package helm

import (
	"maps"
	"reflect"
	"text/template"
)

// watched returns the functions that change maps or differ each time, so that the execution sees that they are called, and those whose results
// it keeps. all has Sprig's.
func (e *execution) watched(all template.FuncMap) template.FuncMap {
	out := template.FuncMap{
		"toYaml": func(v any) string { return e.kept.toYAML(v, e.shared) }, "fromYaml": e.kept.fromYAML,
		"set": func(m map[string]any, key string, v any) (map[string]any, error) {
			if err := e.write(m); err != nil {
				return nil, err
			}
			m[key] = v
			return m, nil
		},
		"unset": func(m map[string]any, key string) (map[string]any, error) {
			if err := e.write(m); err != nil {
				return nil, err
			}
			delete(m, key)
			return m, nil
		},
	}
	for name, f := range all {
		switch merge := f.(type) {
		case func(map[string]any, ...map[string]any) any:
			out[name] = func(into map[string]any, from ...map[string]any) (any, error) {
				return e.merge(into, from, func(into, from map[string]any) (any, error) { return merge(into, from), nil })
			}
		case func(map[string]any, ...map[string]any) (any, error):
			out[name] = func(into map[string]any, from ...map[string]any) (any, error) {
				return e.merge(into, from, func(into, from map[string]any) (any, error) { return merge(into, from) })
			}
		default:
			if volatile(name) {
				out[name] = e.watchVolatile(name, f)
			}
		}
	}
	return out
}

// watchVolatile returns a function that calls f and records that the results of the file and of the rendering differ each time. In a probe, the
// functions of time return what they return at another time.
func (e *execution) watchVolatile(name string, f any) any {
	call := reflect.ValueOf(f)
	return reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
		e.evaluated, e.volatile = true, true
		switch {
		case e.probe && name == "now":
			return []reflect.Value{reflect.ValueOf(probeTime())}
		case e.probe:
			inProbe(name, args)
		}
		if call.Type().IsVariadic() {
			return call.CallSlice(args)
		}
		return call.Call(args)
	}).Interface()
}

// toWatch returns the functions that change maps or differ each time.
func toWatch(all template.FuncMap) template.FuncMap {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(name string, _ any) bool {
		kind := kindOfCall(name)
		return kind != mutatorCall && kind != volatileCall || name == "set" || name == "unset"
	})
	return out
}

// merge merges one map after the other, as Sprig does.
func (e *execution) merge(into map[string]any, from []map[string]any, merge func(into, from map[string]any) (any, error)) (any, error) {
	for _, next := range from {
		if e.shared != nil || e.watching && !e.lost {
			w := merging{changes: &e.changes, into: map[uintptr]bool{}, from: map[uintptr]bool{}}
			w.maps(into, next)
			if err := w.end(); err != nil {
				return nil, err
			}
		}
		out, err := merge(into, next)
		merged, ok := out.(map[string]any)
		if err != nil || !ok {
			return out, err
		}
		into = merged
	}
	return into, nil
}

// merging finds the maps that mergo changes: the first one, and each map in it for which the other has a map under the same key.
type merging struct {
	*changes
	into, from map[uintptr]bool
	unclear    bool  // any map can change
	err        error // the merge must not happen
}

// end records what is unclear.
func (w *merging) end() error {
	if w.err != nil || !w.unclear {
		return w.err
	}
	w.lost = true
	if w.shared == nil {
		return nil
	}
	w.shared.off.Store(true)
	return errShared
}

// maps records what changes. If that depends on the order of the keys, which is random, it is unclear: a map that is changed twice, or is both
// changed and read, can get items of the scope that are changed later.
func (w *merging) maps(into, from map[string]any) {
	if len(from) == 0 || w.unclear || w.err != nil {
		return
	}
	if w.err = w.write(into); w.err != nil {
		return
	}
	target, source := address(into), address(from)
	if w.into[target] || w.from[target] || w.into[source] || target == source {
		w.unclear = true
		return
	}
	w.into[target], w.from[source] = true, true
	for key, item := range from {
		w.items(into[key], item)
	}
}

func (w *merging) items(into, from any) {
	if plain(into) || plain(from) {
		return
	}
	target, ok := mapOf(into)
	source, both := mapOf(from)
	if !ok || !both { // mergo can change pointers, structures and other kinds of maps
		w.unclear = true
		return
	}
	w.maps(target, source)
}

// plain reports whether a value of a chart's values is no map.
func plain(v any) bool {
	switch v.(type) {
	case nil, bool, string, int, int64, float64, []any:
		return true
	}
	return false
}
