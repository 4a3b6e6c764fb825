package helm

import "encoding/binary"

// Files of a chart include the same templates with the same argument: names and labels, and whole files of which they print a checksum. This
// file keeps the texts of includes during one rendering. A text is kept only if its execution called no function that changes a map or whose
// result differs each time, and evaluated no template in values. It is used as long as the scope is unchanged.

// memo has the texts of includes by template and argument.
type memo struct {
	texts map[string]string
	bytes int
}

// Limits of the texts of one rendering, and of the items of an argument besides the scope.
const (
	maxMemoBytes = 4 << 20
	maxMemoItems = 48
)

func (m *memo) keep(key, text string) {
	if m.bytes += len(key) + len(text); m.bytes > maxMemoBytes {
		return
	}
	if m.texts == nil {
		m.texts = map[string]string{}
	}
	m.texts[key] = text
}

// memorable returns the key of an include in the current file. It returns false if the text can depend on something else, or if it matters
// which branches of the file the include executes: those of a file that includes itself read only their argument.
func (e *execution) memorable(name string, data any) (string, bool) {
	if e.reads == nil || e.reads.named || e.changed || e.lost {
		return "", false
	}
	items := maxMemoItems
	key, ok := e.argument(append(append(make([]byte, 0, 128), name...), 0), data, &items)
	return string(key), ok
}

// argument writes the argument of an include. The scope of the current file stands for itself.
func (e *execution) argument(out []byte, v any, items *int) ([]byte, bool) {
	if *items--; *items < 0 {
		return nil, false
	}
	switch x := v.(type) {
	case map[string]any:
		if address(x) == address(e.scope) {
			return binary.BigEndian.AppendUint64(append(out, 'S'), uint64(address(x))), true
		}
		if x == nil { // toJson tells it from an empty one
			return append(out, 'N'), true
		}
		if len(x) > *items {
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
	if text, ok := e.memo.texts[key]; ok {
		return text, nil
	}
	evaluated, writes := e.evaluated, e.writes
	e.evaluated = false
	text, err := execute()
	if err == nil && !e.evaluated && e.writes == writes {
		e.memo.keep(key, text)
	}
	e.evaluated = e.evaluated || evaluated
	return text, err
}
