// Package wire encodes texts, numbers and values in few bytes, for the pipe to worker processes and for results that
// are kept between runs. Decoding expects hostile bytes: it takes memory in proportion to their number.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// AppendUint appends a number.
func AppendUint(out []byte, n uint64) []byte { return binary.AppendUvarint(out, n) }

// AppendText appends a text or bytes.
func AppendText[T ~string | ~[]byte](out []byte, text T) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// AppendTexts appends a list of texts.
func AppendTexts(out []byte, list []string) []byte {
	out = AppendUint(out, uint64(len(list)))
	for _, text := range list {
		out = AppendText(out, text)
	}
	return out
}

// Types of values.
const (
	null = iota
	no
	yes
	integer
	unsigned
	float
	text
	list
	mapping
)

// maxDepth bounds the lists and maps in one another of a value.
const maxDepth = 1000

var errDepth = fmt.Errorf("a value has more than %d levels", maxDepth)

// AppendValue appends nil, a bool, string or number, or a []any or map[string]any of these. An int becomes an int64.
func AppendValue(out []byte, v any) ([]byte, error) { return appendValue(out, v, 0) }

func appendValue(out []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case nil:
		return append(out, null), nil
	case bool:
		if v {
			return append(out, yes), nil
		}
		return append(out, no), nil
	case int:
		return binary.AppendVarint(append(out, integer), int64(v)), nil
	case int64:
		return binary.AppendVarint(append(out, integer), v), nil
	case uint64:
		return AppendUint(append(out, unsigned), v), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(out, float), math.Float64bits(v)), nil
	case string:
		return AppendText(append(out, text), v), nil
	case []any:
		return appendList(out, v, depth)
	case map[string]any:
		return appendMap(out, v, depth)
	}
	return nil, fmt.Errorf("a value of type %T cannot be encoded", v)
}

func appendList(out []byte, all []any, depth int) (_ []byte, err error) {
	out = AppendUint(append(out, list), uint64(len(all)))
	for _, one := range all {
		if out, err = appendValue(out, one, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func appendMap(out []byte, all map[string]any, depth int) (_ []byte, err error) {
	out = AppendUint(append(out, mapping), uint64(len(all)))
	for key, one := range all {
		if out, err = appendValue(AppendText(out, key), one, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ErrDamaged is the error of bytes that were not appended by this package, or only in part.
var ErrDamaged = errors.New("damaged data")

// Reader reads what was appended, in the same order. After an error there is nothing left to read; who loops looks at
// Err.
type Reader struct {
	data []byte
	err  error
}

// NewReader returns a reader of data. What it returns may share data.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Err returns ErrDamaged if something could not be read.
func (r *Reader) Err() error { return r.err }

// More reports whether there is something to read, and no error.
func (r *Reader) More() bool { return len(r.data) > 0 }

// Rest returns what was not read.
func (r *Reader) Rest() []byte { return r.data }

// Fail makes Err return ErrDamaged: what was read says nothing to the caller.
func (r *Reader) Fail() { r.fail() }

func (r *Reader) fail() {
	r.data, r.err = nil, ErrDamaged
}

// Uint reads a number.
func (r *Reader) Uint() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[size:]
	return n
}

// Count reads the number of elements that follow, each of at least one byte.
func (r *Reader) Count() int {
	n := r.Uint()
	if n > uint64(len(r.data)) {
		r.fail()
		return 0
	}
	return int(n) //nolint:gosec // at most the bytes that are left
}

// Bytes reads a text.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	out := r.data[:n:n]
	r.data = r.data[n:]
	return out
}

// Text reads a text.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Texts reads a list of texts; nil if it is empty.
func (r *Reader) Texts() []string {
	var out []string
	for n := r.Count(); n > 0 && r.err == nil; n-- {
		out = append(out, r.Text())
	}
	return out
}

// Value reads a value.
func (r *Reader) Value() any { return r.value(0) }

func (r *Reader) value(depth int) any {
	if len(r.data) == 0 || depth > maxDepth {
		r.fail()
		return nil
	}
	kind := r.data[0]
	r.data = r.data[1:]
	switch kind {
	case null:
		return nil
	case no, yes:
		return kind == yes
	case integer:
		n, size := binary.Varint(r.data)
		if size <= 0 {
			r.fail()
			return nil
		}
		r.data = r.data[size:]
		return n
	case unsigned:
		return r.Uint()
	case float:
		return r.float()
	case text:
		return r.Text()
	case list:
		out := []any{}
		for n := r.Count(); n > 0 && r.err == nil; n-- {
			out = append(out, r.value(depth+1))
		}
		return out
	case mapping:
		out := map[string]any{}
		for n := r.Count(); n > 0 && r.err == nil; n-- {
			key := r.Text()
			out[key] = r.value(depth + 1)
		}
		return out
	}
	r.fail()
	return nil
}

func (r *Reader) float() any {
	const size = 8
	if len(r.data) < size {
		r.fail()
		return nil
	}
	f := math.Float64frombits(binary.BigEndian.Uint64(r.data))
	r.data = r.data[size:]
	return f
}
