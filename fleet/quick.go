package fleet

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// quickDocuments decodes the documents of a file without a YAML parser. It returns false for every file in which the parser could find a
// problem or another value: an unknown key, a wrong type, a style that manifest.Quick does not read.
//
// FuzzDecode holds it against decodeNodes.
func quickDocuments(file string, data []byte) ([]document, bool) {
	var out []document
	for line := 0; len(data) > 0; {
		text, rest := firstDocument(data)
		first := firstKey(text)
		if first == 0 && !printable(text) {
			return nil, false
		}
		if first > 0 {
			value, ok := quickDocument(text)
			if !ok {
				return nil, false
			}
			out = append(out, document{file: file, line: line + first, nodes: &nodes{text: text, line: line}, value: value})
		}
		line += bytes.Count(data[:len(data)-len(rest)], []byte("\n"))
		data = rest
	}
	return out, len(out) > 0
}

// firstDocument divides a text after the first line that separates documents. YAML allows no such line inside a document.
func firstDocument(data []byte) (document, rest []byte) {
	const separator = "---\n"
	if bytes.HasPrefix(data, []byte(separator)) {
		return nil, data[len(separator):]
	}
	if i := bytes.Index(data, []byte("\n"+separator)); i >= 0 {
		return data[:i+1], data[i+1+len(separator):]
	}
	return data, nil
}

// firstKey returns the number of the first line that is neither empty nor a comment; 0 if there is none.
func firstKey(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimLeft(line, " "); len(line) > 0 && line[0] != '\n' && line[0] != '#' {
			return n
		}
	}
	return 0
}

// printable reports whether a text is ASCII without control characters, which YAML refuses even in comments.
func printable(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c != '\n' && (c < ' ' || c > '~') })
}

// quickDocument decodes one document. Fleets and repositories are left to the parser: a repository has few of them, and their checks need
// nodes.
func quickDocument(text []byte) (any, bool) {
	m, ok := manifest.Quick(text, fileBudget())
	if !ok || m["apiVersion"] != APIVersion {
		return nil, false
	}
	var value any
	switch kind := m["kind"]; kind {
	case "ClusterClass", "Cluster", "App", "Workspace":
		value = newFile(fmt.Sprint(kind))
	default:
		return nil, false
	}
	q := quickDecoder{}
	if !q.decode(m, reflect.ValueOf(value).Elem()) || q.bools && hasOldBool(text) {
		return nil, false
	}
	return value, true
}

// hasOldBool reports whether a text has a word that is a boolean in YAML 1.1 and a string in YAML 1.2.
func hasOldBool(text []byte) bool {
	for word := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r < 'A' || r > 'Z' && r < 'a' || r > 'z' }) {
		switch string(word) {
		case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF":
			return true
		}
	}
	return false
}

// quickDecoder writes plain data into values of the types of this package. Its methods return false for everything that decoder reports.
type quickDecoder struct {
	bools bool // the document has a boolean
}

func (q *quickDecoder) decode(from any, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		if from == nil {
			return false
		}
		v.Set(reflect.New(v.Type().Elem()))
		return q.decode(from, v.Elem())
	case reflect.Struct:
		return q.structure(from, v)
	case reflect.Slice:
		return q.list(from, v)
	case reflect.Map:
		return q.mapping(from, v)
	case reflect.Interface:
		return q.free(from, v)
	default:
		return q.scalar(from, v)
	}
}

func (q *quickDecoder) structure(from any, v reflect.Value) bool {
	m, ok := from.(map[string]any)
	if !ok {
		short := shortForm(v)
		return short.IsValid() && q.scalar(from, short)
	}
	fields := fieldsOf(v.Type())
	for name, f := range fields {
		item, set := m[name]
		if !set {
			if f.required {
				return false
			}
			continue
		}
		if !q.decode(item, v.Field(f.index)) || !allowed(v.Field(f.index), f) {
			return false
		}
	}
	for name := range m {
		if _, known := fields[name]; !known {
			return false
		}
	}
	return true
}

// allowed reports whether a string may have its value.
func allowed(v reflect.Value, f field) bool {
	if v.Kind() != reflect.String {
		return true
	}
	return (!f.filled || v.String() != "") && (len(f.enum) == 0 || slices.Contains(f.enum, v.String()))
}

func (q *quickDecoder) list(from any, v reflect.Value) bool {
	items, ok := from.([]any)
	if !ok {
		return false
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		if !q.decode(item, v.Index(i)) {
			return false
		}
	}
	return true
}

func (q *quickDecoder) mapping(from any, v reflect.Value) bool {
	m, ok := from.(map[string]any)
	if !ok {
		return false
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(m)))
	for key, from := range m {
		item := reflect.New(v.Type().Elem()).Elem()
		if !q.decode(from, item) {
			return false
		}
		v.SetMapIndex(reflect.ValueOf(key), item)
	}
	return true
}

// free takes a value of any type as it is.
func (q *quickDecoder) free(from any, v reflect.Value) bool {
	if from == nil {
		return true
	}
	if !q.plain(from) {
		return false
	}
	v.Set(reflect.ValueOf(from))
	return true
}

// plain reports whether freeValue reads the same value.
func (q *quickDecoder) plain(v any) bool {
	switch x := v.(type) {
	case map[string]any:
		for _, item := range x {
			if !q.plain(item) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(x, func(item any) bool { return !q.plain(item) })
	case bool:
		q.bools = true
	case string:
		return ordinaryText(x)
	}
	return true
}

// ordinaryText reports whether a word has a meaning of its own in no version of YAML.
func ordinaryText(s string) bool { return s != "<<" && s != "=" }

func (q *quickDecoder) scalar(from any, v reflect.Value) bool {
	switch x := from.(type) {
	case string:
		if v.Kind() != reflect.String || !ordinaryText(x) {
			return false
		}
		v.SetString(x)
		return true
	case bool:
		q.bools = true
		if v.Kind() != reflect.Bool {
			return false
		}
		v.SetBool(x)
		return true
	case int64:
		if v.Kind() != reflect.Int || v.OverflowInt(x) {
			return false
		}
		v.SetInt(x)
		return true
	}
	return false
}
