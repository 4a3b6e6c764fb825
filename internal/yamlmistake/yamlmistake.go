// Package yamlmistake explains in plain words what is wrong with a YAML file, for people who know neither Go nor the
// YAML library.
package yamlmistake

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// Mistake is one mistake in a file.
type Mistake struct {
	Line          int // 0 if it is unknown
	Message, Hint string
}

// In returns the mistake as text, with the name of the file: `config.yaml:3: unknown key secrt, did you mean secret?`.
func (m Mistake) In(file string) string {
	if m.Line > 0 {
		file += ":" + strconv.Itoa(m.Line)
	}
	text := file + ": " + m.Message
	if m.Hint != "" {
		text += " (" + m.Hint + ")"
	}
	return text
}

// Errors joins mistakes to one error, with the name of the file.
func Errors(file string, list []Mistake) error {
	out := make([]error, len(list))
	for i, m := range list {
		out[i] = errors.New(m.In(file))
	}
	return errors.Join(out...)
}

// Explain explains an error of package yaml that decodes data into a value of the type of into. It returns at least one
// mistake.
func Explain(err error, data []byte, into any) []Mistake {
	typed, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		line, message, hint := Syntax(err, data)
		return []Mistake{{line, message, hint}}
	}
	e := explainer{types: map[string]reflect.Type{}}
	e.collect(reflect.TypeOf(into))
	out := make([]Mistake, len(typed.Errors))
	for i, message := range typed.Errors {
		out[i] = e.explain(message)
	}
	return out
}

// The messages of package yaml about a value of the wrong type, an unknown key and a key that is there twice.
var (
	ofType  = regexp.MustCompile("(?s)^cannot unmarshal (!!\\w+)(?: `(.*)`)? into (.+)$")
	ofField = regexp.MustCompile(`^field (.+) not found in type (\S+)$`)
	ofTwice = regexp.MustCompile(`^mapping key (.+) already defined at line (\d+)$`)
)

// explainer knows the types that a file is decoded into, by the names that package yaml gives them.
type explainer struct{ types map[string]reflect.Type }

func (e explainer) collect(t reflect.Type) {
	if t == nil || e.types[t.String()] != nil {
		return
	}
	e.types[t.String()] = t
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		e.collect(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			e.collect(f.Type)
		}
	}
}

func (e explainer) explain(message string) Mistake {
	var out Mistake
	if m := lineOf.FindStringSubmatch(message); m != nil {
		out.Line, _ = strconv.Atoi(m[1]) // digits; 0 if there are too many
		message = strings.TrimPrefix(message, m[0])
	}
	if m := ofField.FindStringSubmatch(message); m != nil {
		known := e.keys(m[2])
		out.Message = fmt.Sprintf("unknown key %.60s%s", m[1], nearest.DidYouMean(m[1], known))
		if len(known) > 0 {
			out.Hint = "known here: " + strings.Join(known, ", ")
		}
		return out
	}
	if m := ofTwice.FindStringSubmatch(message); m != nil {
		key := m[1]
		if plain, err := strconv.Unquote(key); err == nil {
			key = plain
		}
		out.Message, out.Hint = fmt.Sprintf("%.60s is set twice, first in line %s", key, m[2]), "keep one"
		return out
	}
	m := ofType.FindStringSubmatch(message)
	if m == nil { // a type of our own says it
		out.Message = message
		return out
	}
	want := e.expected(m[3])
	switch m[1] {
	case "!!seq":
		out.Message = "a list stands where " + want + " must stand"
	case "!!map":
		out.Message = "a mapping stands where " + want + " must stand"
	default:
		out.Message = fmt.Sprintf("%.60q must be %s", m[2], want)
		if WithoutColon(m[2]) && want == mapping {
			out.Hint = MissingColon
		}
	}
	return out
}

const mapping = "a mapping"

// expected describes what a type is written as.
func (e explainer) expected(name string) string {
	t := e.types[name]
	if name == "time.Duration" {
		return "a duration such as 5m"
	}
	if t == nil {
		return "another kind of value"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return mapping
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// keys returns the keys that a type knows, sorted.
func (e explainer) keys(name string) []string {
	t := e.types[name]
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case key == "-" || !f.IsExported():
		case strings.Contains(options, "inline"):
			out = append(out, e.keys(f.Type.String())...)
		default:
			out = append(out, cmp.Or(key, strings.ToLower(f.Name)))
		}
	}
	slices.Sort(out)
	return out
}
