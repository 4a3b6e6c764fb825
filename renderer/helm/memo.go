package helm

import "encoding/binary"

// Files of a chart include the same templates with the same argument: names and labels, and whole files of which they print a checksum. This
// file keeps the texts of includes during one rendering. A text is kept only if its execution changed no map that it did not make itself, called
// no function whose result differs each time, and evaluated no template in values. It is used as long as the scope is unchanged.

// memo has the texts of includes of one rendering.
type memo struct {
	texts map[memoKey]*output
	bytes int
}

// memoKey identifies a call of an include: the address of the scope, and the template with its argument, in which a marker stands for the scope.
type memoKey struct {
	scope uintptr
	call  string
}

// Limits of the texts of one rendering, and of the items of an argument besides the scope.
const (
	maxMemoBytes = 4 << 20
	maxMemoItems = 48
)

func (m *memo) keep(key memoKey, out *output) {
	if m.bytes += len(key.call) + len(out.text); m.bytes > maxMemoBytes {
		return
	}
	if m.texts == nil {
		m.texts = map[memoKey]*output{}
	}
	m.texts[key] = out
}

// memorable returns the key of an include. It returns false if the text can depend on something else than the argument and the scope, or if it matters
// which branches of the file the include executes: those of a file that includes itself read only their argument.
func (e *execution) memorable(name string, data any) (memoKey, bool) {
	if e.reads == nil || e.reads.named || e.changed || e.lost {
		return memoKey{}, false
	}
	items := maxMemoItems
	key, ok := e.argument(appendTexts(make([]byte, 0, 128), name), data, &items)
	return memoKey{address(e.unit.scope), string(key)}, ok
}

// argument writes the argument of an include. The scope of the current file stands for itself.
func (e *execution) argument(out []byte, v any, items *int) ([]byte, bool) {
	if *items--; *items < 0 {
		return nil, false
	}
	switch x := v.(type) {
	case map[string]any:
		if address(x) == address(e.unit.scope) {
			return append(out, 'S'), true
		}
		if x == nil { // toJson tells it from an empty one
			return append(out, 'N'), true
		}
		if t := e.shared.table(x); t != nil {
			return append(append(out, 'D'), t.sum[:]...), true
		}
		if _, isScope := x["Subcharts"]; isScope || len(x) > *items { // of another chart
			return nil, false
		}
		out = binary.AppendUvarint(append(out, 'm'), uint64(len(x)))
		var few [16]string
		for _, key := range sortedKeys(few[:0], x) {
			var ok bool
			if out, ok = e.argument(appendTexts(out, key), x[key], items); !ok {
				return nil, false
			}
		}
		return out, true
	case []any:
		if x == nil {
			return append(out, 'L'), true
		}
		out = binary.AppendUvarint(append(out, 'l'), uint64(len(x)))
		for _, item := range x {
			var ok bool
			if out, ok = e.argument(out, item, items); !ok {
				return nil, false
			}
		}
		return out, true
	case nil, bool, string, int, int64, float64:
		return encode(out, v)
	}
	return nil, false
}

// once returns the text of an include that was executed with an equal argument before, or executes it.
func (e *execution) once(name string, data any, execute func() (string, error)) (string, error) {
	key, ok := e.memorable(name, data)
	if !ok {
		return execute()
	}
	if known, ok := e.memo.texts[key]; ok && e.nests(known) {
		return known.text, nil
	}
	between, reusable := e.between(name, data, key.call)
	if reusable {
		if known, ok := e.results.results.get(between, &e.results.results.texts); ok && e.nests(known) {
			e.memo.keep(key, known)
			return known.text, nil
		}
	}
	evaluated, written, deepest := e.evaluated, len(e.written), e.deepest
	e.evaluated, e.deepest = false, e.nesting
	text, err := execute()
	if err == nil && !e.evaluated && e.harmless(written, data) {
		out := &output{text: text, includes: e.deepest - e.nesting}
		e.memo.keep(key, out)
		if reusable {
			e.results.results.put(between, out)
		}
	}
	e.evaluated, e.deepest = e.evaluated || evaluated, max(e.deepest, deepest)
	return text, err
}

// nests reports whether the text of an include can be used here: its execution surely does not nest includes more deeply than allowed. Otherwise
// it would depend on what was rendered before whether a chart renders.
func (e *execution) nests(known *output) bool {
	if e.nesting+known.includes > maxIncludes {
		return false
	}
	e.deepest = max(e.deepest, e.nesting+known.includes)
	return true
}
