package fleet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/internal/yamlmistake"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const narrow = "narrow spec.files in sluice.yaml if the file is not Sluice's"

// document is one decoded object of a file.
type document struct {
	file  string
	line  int             // of its first key
	root  *yaml.Node      // gives errors their line and column; nil for the zero document
	value any             // a pointer to one of the files' types
	bad   map[[2]int]bool // lines and columns of the nodes that could not be decoded; the rest of value is valid
}

// broken reports whether a node at or below n could not be decoded.
func (d document) broken(n *yaml.Node) bool {
	return len(d.bad) > 0 && (d.bad[[2]int{n.Line, n.Column}] || slices.ContainsFunc(n.Content, d.broken))
}

// decodeFile decodes every document of a file and reports all its problems.
func decodeFile(file string, data []byte) decodedFile {
	if err := manifest.CheckPointer(data); err != nil {
		return decodedFile{lost: true, problems: Problems{{File: file, Severity: SeverityError, Message: err.Error()}}}
	}
	if err := manifest.Check(data, yamlnode.Budget()); err != nil {
		return decodedFile{lost: true, problems: Problems{{
			File: file, Severity: SeverityError, Message: err.Error(),
			Hint: "split the file, and write values out in place of aliases",
		}}}
	}
	d := decoder{file: file}
	var out decodedFile
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var root yaml.Node
		err := dec.Decode(&root)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, message, hint := yamlmistake.Syntax(err, data)
			d.problems = append(d.problems, Problem{
				File: file, Line: line, Severity: SeverityError, Message: message,
				Hint: cmp.Or(hint, "write valid YAML"),
			})
			out.lost = true
			break
		}
		if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
			continue
		}
		before := len(d.problems)
		if value := d.object(root.Content[0]); value != nil {
			out.documents = append(out.documents, document{
				file: file, line: root.Content[0].Line,
				root: root.Content[0], value: value, bad: d.bad(before),
			})
		} else {
			out.lost = true
		}
	}
	if len(out.documents) == 0 && len(d.problems) == 0 {
		d.problems = Problems{{
			File: file, Line: 1, Severity: SeverityError, Message: "the file is empty",
			Hint: "remove the file, or fill it in",
		}}
	}
	out.problems = d.problems
	return out
}

type decoder struct {
	file     string
	problems Problems
}

func (d *decoder) errorf(n *yaml.Node, hint, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		File: d.file, Line: n.Line, Column: n.Column, Severity: SeverityError, Message: fmt.Sprintf(format, args...),
		Hint: hint,
	})
}

// object decodes one document by its kind. Fields that cannot be decoded are reported and stay zero. The value is nil
// if the kind is unknown.
func (d *decoder) object(n *yaml.Node) any {
	if n.Kind != yaml.MappingNode {
		if n.Kind == yaml.ScalarNode && yamlmistake.WithoutColon(n.Value) {
			d.errorf(n, yamlmistake.MissingColon, "a colon is missing: %.60q", n.Value)
			return nil
		}
		d.errorf(n, "write apiVersion, kind, metadata and spec, or "+narrow, "a document must be a mapping")
		return nil
	}
	version, kind := yamlnode.Child(n, "apiVersion"), yamlnode.Child(n, "kind")
	if version == nil || kind == nil {
		d.errorf(n, "write apiVersion: "+APIVersion+" and kind, or "+narrow, "apiVersion and kind are needed")
		return nil
	}
	if version.Value != APIVersion {
		d.errorf(version, "change it to "+APIVersion+", or "+narrow, "unknown apiVersion %q", version.Value)
		return nil
	}
	value := newFile(kind.Value)
	if value == nil {
		kinds := fileKinds()
		d.errorf(kind, "one of "+strings.Join(kinds, ", "), "unknown kind %q%s", kind.Value,
			nearest.DidYouMean(kind.Value, kinds))
		return nil
	}
	d.decode(n, reflect.ValueOf(value).Elem(), "")
	return value
}

func fileKinds() []string {
	return []string{"Fleet", "ClusterClass", "Cluster", "App", "Repository", "Workspace", "GateSet", "CatalogApp"}
}

// newFile returns a pointer to an empty value of a kind's type; nil for an unknown kind.
func newFile(kind string) any {
	switch kind {
	case "Fleet":
		return &FleetFile{}
	case "ClusterClass":
		return &ClassFile{}
	case "Cluster":
		return &ClusterFile{}
	case "App":
		return &AppFile{}
	case "Repository":
		return &RepositoryFile{}
	case "Workspace":
		return &WorkspaceFile{}
	case "GateSet":
		return &GateSetFile{}
	case "CatalogApp":
		return &CatalogFile{}
	}
	return nil
}

// bad returns the lines and columns of the problems after the first `before` ones.
func (d *decoder) bad(before int) map[[2]int]bool {
	if len(d.problems) == before {
		return nil
	}
	out := map[[2]int]bool{}
	for _, p := range d.problems[before:] {
		out[[2]int{p.Line, p.Column}] = true
	}
	return out
}

// decode writes a node into a value of the types of this package.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch v.Kind() {
	case reflect.Pointer:
		if n.Tag == "!!null" {
			d.errorf(n, "fill it in or leave it out; {} is an empty mapping", "%s is empty", named(path))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if short := shortForm(v); short.IsValid() && n.Kind == yaml.ScalarNode {
		d.scalar(n, short, path)
		return
	}
	if n.Kind != yaml.MappingNode {
		if n.Tag == "!!null" {
			d.errorf(n, "fill it in or leave it out", "%s is empty", named(path))
			return
		}
		d.notMapping(n, path)
		return
	}
	fields := fieldsOf(v.Type())
	seen, meant := map[string]int{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, ok := seen[key.Value]; ok {
			d.errorf(key, "keep one", "%s is set twice, first in line %d", join(path, key.Value), line)
			continue
		}
		seen[key.Value] = key.Line
		f, ok := fields[key.Value]
		if !ok {
			names := fieldNames(fields)
			meant[nearest.Name(key.Value, names)] = true
			d.errorf(key, "known here: "+strings.Join(names, ", "), "unknown key %s%s", join(path, key.Value),
				nearest.DidYouMean(key.Value, names))
			continue
		}
		before := len(d.problems)
		if d.decode(value, v.Field(f.index), join(path, key.Value)); len(d.problems) == before {
			d.enum(value, v.Field(f.index), f, join(path, key.Value))
		}
	}
	for name, f := range fields { // map order does not matter: problems are sorted later
		// a misspelled key is the cause, and has been reported
		if _, ok := seen[name]; f.required && !ok && !meant[name] {
			d.errorf(n, "add it; the schema in docs/schema says what it is", "%s is missing", join(path, name))
		}
	}
}

// shortForm is the field that a scalar stands for; not valid for types without a short form.
func shortForm(v reflect.Value) reflect.Value {
	switch v.Type() {
	case reflect.TypeFor[Layer]():
		return v.FieldByName("Name")
	case reflect.TypeFor[ValuesPath]():
		return v.FieldByName("Path")
	case reflect.TypeFor[Follow]():
		return v.FieldByName("MergeRequest")
	}
	return reflect.Value{}
}

// enum checks strings that must not be empty or must be one of a list, and numbers that must be one of a list.
func (d *decoder) enum(n *yaml.Node, v reflect.Value, f field, path string) {
	if v.Kind() == reflect.Int && len(f.enum) > 0 && n.Tag == "!!int" &&
		!slices.Contains(f.enum, strconv.FormatInt(v.Int(), 10)) {
		d.errorf(n, "one of "+strings.Join(f.enum, ", "), "%s: unknown value %d", path, v.Int())
		return
	}
	if v.Kind() != reflect.String || n.Tag == "!!null" {
		return
	}
	if f.filled && n.Kind == yaml.ScalarNode && n.Value == "" {
		d.errorf(n, "fill it in or leave it out", "%s is empty", path)
	}
	if len(f.enum) == 0 || n.Kind != yaml.ScalarNode || n.Tag != "!!str" || slices.Contains(f.enum, v.String()) {
		return
	}
	d.errorf(n, "one of "+strings.Join(f.enum, ", "), "%s: unknown value %q%s", path, v.String(),
		nearest.DidYouMean(v.String(), f.enum))
}

func (d *decoder) notMapping(n *yaml.Node, path string) {
	hint := ""
	if n.Kind == yaml.ScalarNode && yamlmistake.WithoutColon(n.Value) {
		hint = fmt.Sprintf("a colon is missing in %.60q", n.Value)
	}
	d.errorf(n, hint, "%s must be a mapping", named(path))
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.errorf(n, "write it as [a, b]", "%s must be a list", named(path))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.decode(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.notMapping(n, path)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			d.errorf(key, "what clusters share stands in a class",
				"%s: a key must be a string, and << is not known here", named(path))
			continue
		}
		k := reflect.ValueOf(key.Value)
		if v.MapIndex(k).IsValid() {
			d.errorf(key, "keep one", "%s is there twice", join(path, key.Value))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if item.Kind() == reflect.Interface {
			free, err := yamlnode.Value(value)
			if err != nil {
				d.errorf(value, "", "%s: %v", join(path, key.Value), err)
				continue
			}
			if free != nil {
				item.Set(reflect.ValueOf(free))
			}
		} else {
			d.decode(value, item, join(path, key.Value))
		}
		v.SetMapIndex(k, item)
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.errorf(n, "", "%s must be %s", named(path), typeName(v.Kind()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		count := n.Tag == "!!int" && (v.Type() == reflect.TypeFor[Amount]() || v.Type() == reflect.TypeFor[CatalogVersion]())
		if n.Tag != "!!str" && n.Tag != "!!timestamp" && !count {
			d.errorf(n, fmt.Sprintf("put it in quotes: %q", n.Value), "%s must be a string", named(path))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		b, err := strconv.ParseBool(strings.ToLower(n.Value))
		if n.Tag != "!!bool" || err != nil {
			d.errorf(n, "write true or false, without quotes", "%s must be true or false", named(path))
			return
		}
		v.SetBool(b)
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if n.Tag != "!!int" || err != nil {
			d.errorf(n, "such as 3, without quotes", "%s must be a whole number", named(path))
			return
		}
		v.SetInt(int64(i))
	default:
		d.errorf(n, "", "%s cannot be decoded", named(path))
	}
}

func typeName(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	default:
		return "a string"
	}
}
