package fleet

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// kept keeps decoded files between runs: a run of the command line reads thousands of declarations, of which a commit changes a few. A file is
// kept with its text, so that errors find their line without the file. A nil memory keeps nothing.
type kept struct{ memory *memo.File }

// file returns a decoded file by the id of its content and its path.
func (k kept) file(id, name string) (decodedFile, bool) {
	data, ok := k.memory.Get(fileKey(id, name))
	if !ok {
		return decodedFile{}, false
	}
	out, err := decodeKept(name, data)
	return out, err == nil
}

// keepFile keeps a file if it has no problem, and the same documents come back.
func (k kept) keepFile(id, name string, f decodedFile) {
	if !k.memory.Puts() {
		return
	}
	if data, ok := comesBack(name, f); ok {
		k.memory.Put(fileKey(id, name), data)
	}
}

func fileKey(id, name string) memo.Key { return memo.KeyOf("declarations", id, name) }

// folder returns the files with the apps of a workspace, not decoded, and the ids of their content, by the id of the folder. The files are
// alone.
func (k kept) folder(id, dir string) (files appFiles, ids []string, ok bool) {
	data, ok := k.memory.Get(folderKey(id, dir))
	if !ok {
		return appFiles{}, nil, false
	}
	r := readKept(data)
	files.alone = true
	for range r.count() {
		files.names, ids = append(files.names, r.text()), append(ids, r.text())
	}
	for range r.count() {
		files.bare = append(files.bare, r.text())
	}
	return files, ids, r.err == nil
}

// keepFolder keeps what folder returns.
func (k kept) keepFolder(id, dir string, files appFiles, ids []string) {
	if !k.memory.Puts() {
		return
	}
	data := binary.AppendUvarint(nil, uint64(len(files.names)))
	for i, name := range files.names {
		data = appendBytes(appendBytes(data, name), ids[i])
	}
	data = binary.AppendUvarint(data, uint64(len(files.bare)))
	for _, name := range files.bare {
		data = appendBytes(data, name)
	}
	k.memory.Put(folderKey(id, dir), data)
}

func folderKey(id, dir string) memo.Key { return memo.KeyOf("apps of a workspace", id, dir) }

// encodeKept encodes the documents of a file: their number, and for each its kind, its line, the line before its text, the text and the value.
func encodeKept(f decodedFile) ([]byte, bool) {
	if f.lost || len(f.problems) > 0 {
		return nil, false
	}
	out := binary.AppendUvarint(nil, uint64(len(f.documents)))
	for _, d := range f.documents {
		kind := kindOf(d.value)
		if kind == "" || d.nodes == nil || d.nodes.text == nil || len(d.bad) > 0 {
			return nil, false // only documents that were decoded without a parser
		}
		out = appendBytes(out, kind)
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(d.line)), uint64(d.nodes.line)) //nolint:gosec // lines are positive
		out = appendValue(appendBytes(out, d.nodes.text), reflect.ValueOf(d.value).Elem())
	}
	return out, true
}

func decodeKept(name string, data []byte) (decodedFile, error) {
	r := readKept(data)
	var out decodedFile
	for range r.count() {
		value := newFile(r.text())
		line, before := r.count(), r.count()
		text := r.bytes()
		if value == nil {
			return decodedFile{}, errKept
		}
		r.value(reflect.ValueOf(value).Elem())
		out.documents = append(out.documents, document{file: name, line: line, nodes: &nodes{text: text, line: before}, value: value})
	}
	return out, r.err
}

func kindOf(value any) string {
	switch value.(type) {
	case *ClassFile:
		return "ClusterClass"
	case *ClusterFile:
		return "Cluster"
	case *AppFile:
		return "App"
	case *WorkspaceFile:
		return "Workspace"
	}
	return ""
}

func appendBytes[T string | []byte](to []byte, b T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(b))), b...)
}

var errKept = errors.New("what was kept cannot be decoded")

// keptReader reads numbers and texts. After an error it returns zero values.
type keptReader struct {
	data  []byte // what is left
	whole string // all of it once: the texts of a file share it
	err   error
}

func readKept(data []byte) keptReader { return keptReader{data: data, whole: string(data)} }

func (r *keptReader) count() int {
	n, size := binary.Uvarint(r.data)
	if size <= 0 || n > uint64(maxFile) {
		r.data, r.err = nil, errKept
		return 0
	}
	r.data = r.data[size:]
	return int(n)
}

func (r *keptReader) bytes() []byte {
	n := r.count()
	if n > len(r.data) {
		r.data, r.err = nil, errKept
		return nil
	}
	out := r.data[:n:n]
	r.data = r.data[n:]
	return out
}

// text is bytes as a text.
func (r *keptReader) text() string {
	n := len(r.bytes())
	end := len(r.whole) - len(r.data)
	return r.whole[end-n : end]
}

// appendValue encodes a value of the types of this package: the fields of a struct in their order, without names.
func appendValue(to []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		return appendBytes(to, v.String())
	case reflect.Bool:
		if v.Bool() {
			return append(to, 1)
		}
		return append(to, 0)
	case reflect.Uint8:
		return append(to, byte(v.Uint())) //nolint:gosec // it is a byte
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(to, v.Int())
	case reflect.Float64:
		return binary.BigEndian.AppendUint64(to, math.Float64bits(v.Float()))
	case reflect.Struct:
		for i := range v.NumField() {
			to = appendValue(to, v.Field(i))
		}
		return to
	case reflect.Pointer:
		if v.IsNil() {
			return append(to, 0)
		}
		return appendValue(append(to, 1), v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return append(to, 0)
		}
		to = binary.AppendUvarint(to, uint64(v.Len())+1) //nolint:gosec // not negative
		for i := range v.Len() {
			to = appendValue(to, v.Index(i))
		}
		return to
	case reflect.Map:
		if v.IsNil() {
			return append(to, 0)
		}
		to = binary.AppendUvarint(to, uint64(v.Len())+1) //nolint:gosec // not negative
		for k, item := range v.Seq2() {
			to = appendValue(appendValue(to, k), item)
		}
		return to
	case reflect.Interface:
		return appendAny(to, v.Elem())
	}
	return append(to, noKind) // it does not come back, so that the file is not kept
}

// Kinds of a value of any type.
const (
	anyNil = iota
	anyString
	anyBool
	anyInt
	anyFloat
	anyList
	anyMap
	noKind = 0xff
)

func appendAny(to []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Invalid:
		return append(to, anyNil)
	case reflect.String:
		return appendValue(append(to, anyString), v)
	case reflect.Bool:
		return appendValue(append(to, anyBool), v)
	case reflect.Int64:
		return appendValue(append(to, anyInt), v)
	case reflect.Float64:
		return appendValue(append(to, anyFloat), v)
	case reflect.Slice:
		return appendValue(append(to, anyList), v)
	case reflect.Map:
		return appendValue(append(to, anyMap), v)
	}
	return append(to, noKind)
}

// value reads what appendValue has written.
func (r *keptReader) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.text())
	case reflect.Bool:
		v.SetBool(r.byte() == 1)
	case reflect.Uint8:
		v.SetUint(uint64(r.byte()))
	case reflect.Int:
		v.SetInt(r.integer())
	case reflect.Struct:
		for i := range v.NumField() {
			r.value(v.Field(i))
		}
	case reflect.Pointer:
		if r.byte() == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			r.value(v.Elem())
		}
	case reflect.Slice:
		if n, ok := r.length(); ok {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				r.value(v.Index(i))
			}
		}
	case reflect.Map:
		r.mapping(v)
	default:
		r.data, r.err = nil, errKept
	}
}

func (r *keptReader) mapping(v reflect.Value) {
	switch m := v.Addr().Interface().(type) {
	case *map[string]string: // labels; faster than by reflection
		if n, ok := r.length(); ok {
			*m = make(map[string]string, n)
			for range n {
				k := r.text()
				(*m)[k] = r.text()
			}
		}
	case *map[string]any:
		*m = r.object()
	default:
		n, ok := r.length()
		if !ok {
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), n))
		for range n {
			key, item := r.text(), reflect.New(v.Type().Elem()).Elem()
			r.value(item)
			v.SetMapIndex(reflect.ValueOf(key), item)
		}
	}
}

// object reads a mapping with values of any type.
func (r *keptReader) object() map[string]any {
	n, ok := r.length()
	if !ok {
		return nil
	}
	out := make(map[string]any, n)
	for range n {
		k := r.text()
		out[k] = r.any()
	}
	return out
}

func (r *keptReader) any() any {
	switch r.byte() {
	case anyNil:
		return nil
	case anyString:
		return r.text()
	case anyBool:
		return r.byte() == 1
	case anyInt:
		return r.integer()
	case anyFloat:
		return r.float()
	case anyList:
		n, ok := r.length()
		if !ok {
			return []any(nil)
		}
		out := make([]any, n)
		for i := range out {
			out[i] = r.any()
		}
		return out
	case anyMap:
		return r.object()
	}
	r.data, r.err = nil, errKept
	return nil
}

func (r *keptReader) byte() byte {
	if len(r.data) == 0 {
		r.err = errKept
		return noKind
	}
	out := r.data[0]
	r.data = r.data[1:]
	return out
}

func (r *keptReader) integer() int64 {
	n, size := binary.Varint(r.data)
	if size <= 0 {
		r.data, r.err = nil, errKept
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *keptReader) float() float64 {
	const size = 8
	if len(r.data) < size {
		r.data, r.err = nil, errKept
		return 0
	}
	out := math.Float64frombits(binary.BigEndian.Uint64(r.data))
	r.data = r.data[size:]
	return out
}

// length reads the length of a list or mapping; false if it is nil. Each item has at least one byte.
func (r *keptReader) length() (int, bool) {
	n := r.count()
	if n > len(r.data)+1 {
		r.data, r.err = nil, errKept
		return 0, false
	}
	return n - 1, n > 0
}
