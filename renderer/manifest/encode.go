package manifest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Encode returns the canonical YAML of an object: block style, two spaces, lists at the indentation of their key, the
// keys apiVersion, kind, metadata, name and namespace first and the others in byte order. It quotes a string that a
// reader of YAML 1.1 or 1.2 could read as another type, and writes a string of several lines as a literal block. Equal
// objects give equal bytes, and Decode of the result returns the object.
//
// It fails for values that YAML cannot represent: invalid UTF-8, NaN and infinities, and types that Object excludes.
func Encode(o Object) ([]byte, error) {
	return Append(make([]byte, 0, 1024), map[string]any(o))
}

// EncodeWithin is Encode with a limit of bytes. It stops shortly after the limit with a BudgetError, so that a small
// text whose aliases repeat a large value cannot use more memory.
func EncodeWithin(o Object, limit int) ([]byte, error) {
	e := emitter{out: make([]byte, 0, 1024), limit: limit}
	if err := e.document(map[string]any(o)); err != nil {
		return nil, err
	}
	if err := e.within(); err != nil {
		return nil, err
	}
	return e.out, nil
}

// Append appends the canonical YAML of any JSON-like value, with a final newline, to dst.
func Append(dst []byte, v any) ([]byte, error) {
	e := emitter{out: dst}
	if err := e.document(v); err != nil {
		return nil, err
	}
	return e.out, nil
}

type emitter struct {
	out   []byte
	limit int // bytes; 0 means none
}

func (e *emitter) within() error {
	if e.limit > 0 && len(e.out) > e.limit {
		return &BudgetError{"bytes of canonical text", len(e.out), e.limit}
	}
	return nil
}

func (e *emitter) document(v any) error {
	switch x := v.(type) {
	case map[string]any:
		if len(x) > 0 {
			return e.mapping(x, 0, false)
		}
	case []any:
		if len(x) > 0 {
			return e.sequence(x, 0, false)
		}
	}
	if err := e.scalar(v, 2); err != nil {
		return err
	}
	e.out = append(e.out, '\n')
	return nil
}

// mapping writes a mapping at the given indentation; inline puts the first key on the current line, after a dash.
func (e *emitter) mapping(m map[string]any, indent int, inline bool) error {
	for _, key := range sortedKeys(m) {
		if !inline {
			e.indent(indent)
		}
		inline = false
		if err := e.within(); err != nil {
			return err
		}
		if err := e.key(key, indent); err != nil {
			return err
		}
		e.out = append(e.out, ':')
		if err := e.value(m[key], indent); err != nil {
			return at(key, err)
		}
	}
	return nil
}

// value writes the value after a key's colon, including the end of the line.
func (e *emitter) value(v any, indent int) error {
	switch x := v.(type) {
	case map[string]any:
		if len(x) > 0 {
			e.out = append(e.out, '\n')
			return e.mapping(x, indent+2, false)
		}
	case []any:
		if len(x) > 0 {
			e.out = append(e.out, '\n')
			return e.sequence(x, indent, false)
		}
	}
	e.out = append(e.out, ' ')
	if err := e.scalar(v, indent+2); err != nil {
		return err
	}
	e.out = append(e.out, '\n')
	return nil
}

// at prefixes an error with its place. A BudgetError concerns the whole object and gets no prefix.
func at(place string, err error) error {
	if _, ok := errors.AsType[*BudgetError](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}

func (e *emitter) sequence(list []any, indent int, inline bool) error {
	for i, item := range list {
		if !inline {
			e.indent(indent)
		}
		inline = false
		if err := e.within(); err != nil {
			return err
		}
		e.out = append(e.out, '-', ' ')
		if err := e.item(item, indent); err != nil {
			return at("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

func (e *emitter) item(v any, indent int) error {
	switch x := v.(type) {
	case map[string]any:
		if len(x) > 0 {
			return e.mapping(x, indent+2, true)
		}
	case []any:
		if len(x) > 0 {
			return e.sequence(x, indent+2, true)
		}
	}
	if err := e.scalar(v, indent+2); err != nil {
		return err
	}
	e.out = append(e.out, '\n')
	return nil
}

func (e *emitter) indent(n int) {
	const spaces = "                                                                "
	for n > len(spaces) {
		e.out = append(e.out, spaces...)
		n -= len(spaces)
	}
	e.out = append(e.out, spaces[:n]...)
}

// key writes a key. A key that is too long for YAML's implicit keys is written with `?`.
func (e *emitter) key(key string, indent int) error {
	const most = 500 // YAML's limit is 1,024 characters, including escapes
	if len(key) > most {
		e.out = append(e.out, '?', ' ')
		if err := e.quoted(key); err != nil {
			return err
		}
		e.out = append(e.out, '\n')
		e.indent(indent)
		return nil
	}
	if plainIsSafe(key) {
		e.out = append(e.out, key...)
		return nil
	}
	return e.quoted(key)
}

// scalar writes a scalar, or an empty mapping or list. It writes the lines of a block scalar at the given indentation.
func (e *emitter) scalar(v any, indent int) error {
	switch x := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, x)
	case int64:
		e.out = strconv.AppendInt(e.out, x, 10)
	case int:
		e.out = strconv.AppendInt(e.out, int64(x), 10)
	case uint64:
		e.out = strconv.AppendUint(e.out, x, 10)
	case float64:
		return e.float(x)
	case string:
		return e.text(x, indent)
	case map[string]any:
		e.out = append(e.out, "{}"...)
	case []any:
		e.out = append(e.out, "[]"...)
	default:
		return fmt.Errorf("a value of type %T has no YAML", v)
	}
	return nil
}

// float always writes a decimal point, so that every reader reads a float.
func (e *emitter) float(x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("%v is no number that Kubernetes can hold", x)
	}
	digits := strconv.FormatFloat(x, 'g', -1, 64)
	mantissa, exponent, scientific := strings.Cut(digits, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	e.out = append(e.out, mantissa...)
	if scientific {
		e.out = append(e.out, 'e')
		e.out = append(e.out, exponent...)
	}
	return nil
}

func (e *emitter) text(s string, indent int) error {
	switch {
	case plainIsSafe(s):
		e.out = append(e.out, s...)
		return nil
	case strings.IndexByte(s, '\n') >= 0 && blockIsSafe(s):
		e.block(s, indent)
		return nil
	default:
		return e.quoted(s)
	}
}

// block writes a literal block scalar without the final newline, which the caller adds.
func (e *emitter) block(s string, indent int) {
	e.out = append(e.out, '|')
	body := strings.TrimRight(s, "\n")
	switch len(s) - len(body) {
	case 0:
		e.out = append(e.out, '-')
	case 1:
	default:
		e.out = append(e.out, '+')
	}
	for line := range strings.SplitSeq(body, "\n") {
		e.out = append(e.out, '\n')
		if line != "" {
			e.indent(indent)
			e.out = append(e.out, line...)
		}
	}
	for range len(s) - len(body) - 1 {
		e.out = append(e.out, '\n')
	}
}

// quoted writes a string in double quotes, or in single quotes where double quotes would need many escapes.
func (e *emitter) quoted(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("the text %.60q is not valid UTF-8: put bytes into binaryData or base64", s)
	}
	if strings.ContainsAny(s, `"\`) && !strings.ContainsRune(s, '\'') && allPrintable(s) {
		e.out = append(e.out, '\'')
		e.out = append(e.out, s...)
		e.out = append(e.out, '\'')
		return nil
	}
	e.out = append(e.out, '"')
	for _, r := range s {
		e.escaped(r)
	}
	e.out = append(e.out, '"')
	return nil
}

func (e *emitter) escaped(r rune) {
	switch r {
	case '"', '\\':
		e.out = append(e.out, '\\', byte(r))
	case '\n':
		e.out = append(e.out, '\\', 'n')
	case '\t':
		e.out = append(e.out, '\\', 't')
	case '\r':
		e.out = append(e.out, '\\', 'r')
	default:
		switch {
		case isPrintable(r):
			e.out = utf8.AppendRune(e.out, r)
		case r <= 0xff:
			e.out = fmt.Appendf(e.out, `\x%02x`, r)
		case r <= 0xffff:
			e.out = fmt.Appendf(e.out, `\u%04x`, r)
		default:
			e.out = fmt.Appendf(e.out, `\U%08x`, r)
		}
	}
}

// sortedKeys returns the keys of a mapping in canonical order.
func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if x, y := rank(a), rank(b); x != y {
			return x - y
		}
		return strings.Compare(a, b)
	})
	return keys
}

func rank(key string) int {
	switch key {
	case "apiVersion":
		return 0
	case "kind":
		return 1
	case "metadata":
		return 2
	case "name":
		return 3
	case "namespace":
		return 4
	default:
		return 5
	}
}
