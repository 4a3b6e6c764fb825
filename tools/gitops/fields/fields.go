// Package fields compares the tables of docs/from-*.md with the types of the tools' APIs. It has no dependencies,
// because the modules that use it need different versions of the same libraries.
package fields

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

var token = regexp.MustCompile("`([^`]+)`")

// Table is the table below one heading of a page.
type Table struct{ rows []row }

type row struct {
	names map[string]bool
	text  string
}

// Read reads the table below a heading of the third level.
func Read(page, heading string) (*Table, error) {
	data, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, section, ok := strings.Cut(string(data), "\n### "+heading+"\n")
	if !ok {
		return nil, fmt.Errorf("%s has no section %s", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n### ")
	out := &Table{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			out.rows = append(out.rows, row{named(cells[1]), strings.TrimSpace(cells[2])})
		}
	}
	if len(out.rows) == 0 {
		return nil, fmt.Errorf("the section %s of %s has no table of two columns", heading, page)
	}
	return out, nil
}

// named returns the fields that a cell names. A name in parentheses is below the one before them. Others are also
// beside each name with a dot before them: `valuesFrom` (`kind`), and `install.crds`, `replace`.
func named(cell string) map[string]bool {
	out := map[string]bool{}
	var parents, last []string
	for _, m := range token.FindAllStringSubmatchIndex(cell, -1) {
		name, _, _ := strings.Cut(cell[m[2]:m[3]], ":") // `type: Static`
		if before := cell[:m[0]]; strings.Count(before, "(") > strings.Count(before, ")") {
			for _, parent := range last {
				out[parent+"."+name] = true
			}
			continue
		}
		last = []string{name}
		for _, parent := range parents {
			last = append(last, parent+"."+name)
		}
		for _, full := range last {
			out[full] = true
		}
		if at := strings.LastIndex(name, "."); at > 0 {
			parents = append(parents, name[:at])
		}
	}
	return out
}

// Of returns what the table says of a field: the text of the rows that name it, or of those that name the nearest field
// above it and say that Sluice refuses or ignores that one. It is "" for a field that the table does not have.
func (t *Table) Of(field string) string {
	if text := t.text(field); text != "" {
		return text
	}
	for at := strings.LastIndex(field, "."); at > 0; at = strings.LastIndex(field[:at], ".") {
		if text := t.text(field[:at]); text != "" {
			if strings.HasPrefix(text, "ignored") || strings.Contains(text, "refused") {
				return text
			}
			return ""
		}
	}
	return ""
}

func (t *Table) text(field string) string {
	var out []string
	for _, r := range t.rows {
		if r.names[field] {
			out = append(out, r.text)
		}
	}
	return strings.Join(out, "\n")
}

// Refuses reports whether the rows that name the field itself say that Sluice refuses it.
func (t *Table) Refuses(field string) bool { return strings.Contains(t.text(field), "refused") }

// Names returns the names that the fields of a type have in JSON, with those of the fields below them:
// `chart.spec.version`. It does not go into the types of Kubernetes, and not into fields that whole names.
func Names(t reflect.Type, whole ...string) []string {
	var out []string
	var visit func(t reflect.Type, prefix string)
	visit = func(t reflect.Type, prefix string) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || strings.HasPrefix(t.PkgPath(), "k8s.io/") {
			return
		}
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if strings.Contains(options, "inline") {
				visit(f.Type, prefix)
				continue
			}
			if name == "-" || !f.IsExported() {
				continue
			}
			out = append(out, prefix+name)
			if !slices.Contains(whole, prefix+name) {
				visit(f.Type, prefix+name+".")
			}
		}
	}
	visit(t, "")
	return out
}
