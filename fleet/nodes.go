package fleet

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

type field struct {
	index    int
	required bool
	filled   bool // an empty string is an error
	enum     []string
}

// fieldsOf returns a struct's fields by YAML key.
func fieldsOf(t reflect.Type) map[string]field {
	if known, ok := fileFields()[t]; ok {
		return known
	}
	return readFields(t)
}

// fileFields returns the fields of every struct that a file of this package can have.
//
//nolint:gochecknoglobals // computed once, and constant
var fileFields = sync.OnceValue(func() map[reflect.Type]map[string]field {
	out := map[reflect.Type]map[string]field{}
	for _, kind := range fileKinds() {
		addFields(out, reflect.TypeOf(newFile(kind)))
	}
	return out
})

func addFields(out map[reflect.Type]map[string]field, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addFields(out, t.Elem())
	case reflect.Struct:
		if _, ok := out[t]; ok {
			return
		}
		out[t] = readFields(t)
		for _, f := range out[t] {
			addFields(out, t.Field(f.index).Type)
		}
	}
}

func readFields(t reflect.Type) map[string]field {
	out := make(map[string]field, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		entry := field{index: i, filled: f.Type == reflect.TypeFor[Duration]() || f.Type == reflect.TypeFor[Amount]()}
		for option := range strings.SplitSeq(f.Tag.Get("jsonschema"), ",") {
			if option == "required" {
				entry.required = true
			}
			if strings.HasPrefix(option, "pattern=") {
				entry.filled = true
			}
			if value, ok := strings.CutPrefix(option, "enum="); ok {
				entry.enum = append(entry.enum, value)
			}
		}
		out[name] = entry
	}
	return out
}

func fieldNames(fields map[string]field) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func named(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}
