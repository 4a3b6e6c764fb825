package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/internal/yamlmistake"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// valuesFile is a parsed values file, shared by all targets that use it.
type valuesFile struct {
	data      []byte
	tree      any
	refs      bool // contains a ${
	duplicate duplicateKey
	err       error
}

// duplicateKey is the position of the first duplicate key in a file; line is 0 if there is none.
type duplicateKey struct {
	key                 string
	line, column, first int
}

// FileError is a problem of a file for one cluster.
type FileError struct {
	Problem
	Cluster string

	err error // nil, or the underlying error
}

// Error returns the position, the message and the hint on one line.
func (e *FileError) Error() string { return e.place() + ": " + e.text() }

// Unwrap returns the underlying error, or nil.
func (e *FileError) Unwrap() error { return e.err }

func (f *Fleet) valuesFile(name string) (*valuesFile, error) {
	id, err := f.contentID(name)
	if err != nil {
		return nil, err
	}
	if known, ok := f.cache.values.Load(id); ok {
		return known.(*valuesFile), nil //nolint:forcetypeassert // only this function stores here
	}
	data, err := readBounded(f.tree, name)
	if err != nil {
		return nil, err
	}
	v := &valuesFile{data: data, refs: strings.Contains(string(data), "${")}
	v.parse()
	f.cache.values.Store(id, v)
	return v, nil
}

func (v *valuesFile) parse() {
	if v.err = manifest.Check(v.data, yamlnode.Budget()); v.err != nil {
		return
	}
	var root yaml.Node
	strict := sigsyaml.UnmarshalStrict(v.data, &v.tree)
	if strict == nil && !v.refs {
		return
	}
	if v.err = sigsyaml.Unmarshal(v.data, &v.tree); v.err != nil {
		return
	}
	if v.err = yaml.Unmarshal(v.data, &root); v.err != nil || len(root.Content) == 0 {
		return
	}
	if strict != nil { // the strict parser differs only in refusing duplicate keys
		v.duplicate = findDuplicate(root.Content[0])
	}
	if v.refs {
		v.tree = markQuoted(v.tree, root.Content[0])
	}
}

// findDuplicate returns the first duplicate key of a mapping.
func findDuplicate(n *yaml.Node) duplicateKey {
	seen := map[string]int{}
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && item.Tag != "!!merge" {
			if first, ok := seen[item.Value]; ok {
				return duplicateKey{item.Value, item.Line, item.Column, first}
			}
			seen[item.Value] = item.Line
		}
		if found := findDuplicate(item); found.line > 0 {
			return found
		}
	}
	return duplicateKey{}
}

// quotedText is a quoted scalar with references: its value is always a string.
type quotedText string

// markQuoted converts quoted scalars with references in a file's tree to quotedText.
func markQuoted(v any, n *yaml.Node) any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch x := v.(type) {
	case map[string]any:
		if n.Kind != yaml.MappingNode {
			return v
		}
		for _, m := range yamlnode.Members(n) {
			if item, ok := x[m.Key]; ok {
				x[m.Key] = markQuoted(item, m.Value)
			}
		}
	case []any:
		if n.Kind != yaml.SequenceNode || len(n.Content) != len(x) {
			return v
		}
		for i, item := range n.Content {
			x[i] = markQuoted(x[i], item)
		}
	case string:
		if isQuoted(n) && strings.Contains(x, "${") {
			return quotedText(x)
		}
	}
	return v
}

// typedTag marks a quoted scalar whose reference keeps the variable's type, as in {replicas: !typed
// "${cluster.vars.replicas}"}: inside {…} and […], YAML allows no unquoted reference.
const typedTag = "!typed"

func isQuoted(n *yaml.Node) bool {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n.Kind == yaml.ScalarNode && n.Style&quoted != 0 && n.Tag != typedTag
}

// Values returns the values of one of the target's Helm sources, without the chart's defaults: the files of all
// layers, lowest precedence first, merged as Helm merges -f files, with references replaced. It keeps null, so that
// Helm deletes the default. The result may share parts with that of other targets; do not change it.
func (f *Fleet) Values(t Target, source string) (map[string]any, error) {
	return f.mergeValues(t, f.ValuesFiles(t), source)
}

// MergedValues is Fleet.Values for a selected target.
func (s *Selection) MergedValues(source string) (map[string]any, error) {
	return s.fleet.mergeValues(s.Target, s.Values, source)
}

func (f *Fleet) mergeValues(t Target, files []LayerFile, source string) (map[string]any, error) {
	if i := t.Imported(); i != nil {
		return i.values(source), nil
	}
	var merged map[string]any
	for _, file := range files {
		if file.Source != "" && file.Source != source {
			continue
		}
		values, err := f.layerValues(t, file)
		if err != nil {
			return nil, err
		}
		merged = merge(merged, values)
	}
	if merged == nil { // nil would become null, which deletes the chart's defaults
		merged = map[string]any{}
	}
	return merged, nil
}

// layerValues returns the values of one file, below the keys that the layer sets for it.
func (f *Fleet) layerValues(t Target, file LayerFile) (map[string]any, error) {
	content, err := f.LayerContent(t, file)
	if err != nil || content == nil {
		return nil, err
	}
	for _, key := range slices.Backward(file.Keys()) {
		content = map[string]any{key: content}
	}
	values, _ := content.(map[string]any) // LayerContent returns only mappings for a file without keys
	return values, nil
}

// Keys returns the keys below which the file's content is put.
func (l LayerFile) Keys() []string {
	switch {
	case l.FleetWide:
		return []string{"global"}
	case l.At != "":
		return strings.Split(l.At, ".")
	}
	return nil
}

// LayerContent returns a file's content with references replaced; nil if it is empty.
func (f *Fleet) LayerContent(t Target, file LayerFile) (any, error) {
	if file.IsText() {
		data, err := readBounded(f.tree, file.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %s", file.Path, readError(err))
		}
		text, err := t.text(strings.TrimSpace(string(data)))
		if err != nil {
			return nil, t.referenceError(err, string(data), data, file.Path)
		}
		return text, nil
	}
	v, err := f.valuesFile(file.Path)
	if err != nil {
		return nil, &FileError{
			Problem: Problem{File: file.Path, Severity: SeverityError, Message: readError(err)},
			Cluster: t.Cluster.Name,
		}
	}
	if v.err != nil {
		return nil, v.problem(t, file.Path)
	}
	if v.duplicate.line > 0 && enabled(f.Spec.Strict.DuplicateKeys) {
		p := Problem{
			File: file.Path, Line: v.duplicate.line, Column: v.duplicate.column, Severity: SeverityError,
			Message: fmt.Sprintf("the key %s is set twice, first in line %d", v.duplicate.key, v.duplicate.first),
			Hint:    "keep one; spec.strict.duplicateKeys: false lets the last one win",
		}
		return nil, &FileError{Problem: p, Cluster: t.Cluster.Name}
	}
	content := v.tree
	if v.refs {
		if content, err = t.replaceValues(v.tree); err != nil {
			return nil, t.firstError(v, file.Path)
		}
	}
	if values, ok := content.(map[string]any); file.At == "" && (!ok || len(values) == 0) {
		if content != nil && !ok {
			p := Problem{File: file.Path, Line: 1, Severity: SeverityError, Message: "a values file must be a mapping"}
			if text, scalar := content.(string); scalar && yamlmistake.WithoutColon(text) {
				p.Hint = fmt.Sprintf("a colon is missing in %.60q", text)
			}
			return nil, &FileError{Problem: p, Cluster: t.Cluster.Name}
		}
		return nil, nil //nolint:nilnil // an empty file sets nothing
	}
	return content, nil
}

// IsText reports whether the file's whole text is one string.
func (l LayerFile) IsText() bool { return l.At != "" && !isYAML(l.Path) }

// LayerText returns the text of a values file of a layer. The caller does not change it.
func (f *Fleet) LayerText(file LayerFile) ([]byte, error) {
	if file.IsText() {
		return f.ReadFile(file.Path)
	}
	v, err := f.valuesFile(file.Path)
	if err != nil {
		return nil, err
	}
	return v.data, nil
}

// enabled returns an option that is on unless it is set to false.
func enabled(option *bool) bool { return option == nil || *option }

// problem returns the error of a values file that cannot be parsed.
func (v *valuesFile) problem(t Target, name string) error {
	line, message, hint := yamlmistake.Syntax(errors.New(strings.TrimPrefix(v.err.Error(),
		"error converting YAML to JSON: ")), v.data)
	if strings.HasPrefix(message, "json: ") { // the parser's message names Go types
		message = "a values file must be a mapping"
	}
	hint = cmp.Or(hint, "a values file is a YAML mapping")
	if strings.Contains(message, "did not find expected") && strings.Contains(string(v.data), "${") {
		hint = "inside {…} and […], put references in quotes; !typed \"${…}\" keeps the variable's type"
	}
	p := Problem{File: name, Line: max(line, 1), Severity: SeverityError, Message: message, Hint: hint}
	return &FileError{Problem: p, Cluster: t.Cluster.Name}
}

// NodeValue returns the value of a node of a values file with references replaced, numbers as Helm reads them. It
// keeps references that cannot be replaced. The text must have been checked as those of this package are.
func (t Target) NodeValue(n *yaml.Node) any {
	v, err := yamlnode.Value(n)
	if err != nil {
		return n.Value
	}
	replaced, err := t.replaceValues(markQuoted(yamlnode.HelmNumbers(v), n))
	if err != nil {
		return v
	}
	return replaced
}

// replaceValues returns a copy with references replaced.
func (t Target) replaceValues(v any) (any, error) {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			replaced, err := t.replaceValues(item)
			if err != nil {
				return nil, err
			}
			out[k] = replaced
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, item := range x {
			replaced, err := t.replaceValues(item)
			if err != nil {
				return nil, err
			}
			out[i] = replaced
		}
		return out, nil
	case quotedText:
		return t.text(string(x))
	case string:
		if !strings.Contains(x, "${") {
			return x, nil
		}
		replaced, err := t.replace(x)
		return yamlnode.HelmNumbers(replaced), err
	default:
		return v, nil
	}
}

// firstError returns the error of the first reference in a file that cannot be replaced.
func (t Target) firstError(v *valuesFile, name string) error {
	var root yaml.Node
	if err := yaml.Unmarshal(v.data, &root); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if p := t.badReference(&root); p != nil {
		p.File = name
		return &FileError{Problem: *p, Cluster: t.Cluster.Name}
	}
	return fmt.Errorf("%s: a reference cannot be replaced for cluster %s", name, t.Cluster.Name)
}

// badReference returns the first scalar whose references cannot be replaced. References in keys are not replaced.
func (t Target) badReference(n *yaml.Node) *Problem {
	if n.Kind == yaml.ScalarNode {
		if !strings.Contains(n.Value, "${") {
			return nil
		}
		replace := t.replace
		if isQuoted(n) {
			replace = func(text string) (any, error) { return t.text(text) }
		}
		if _, err := replace(n.Value); err != nil {
			p := &Problem{Line: n.Line, Column: n.Column, Severity: SeverityError, Message: err.Error()}
			return p
		}
		return nil
	}
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		if p := t.badReference(item); p != nil {
			return p
		}
	}
	return nil
}

// referenceError adds the position of the reference to an error of replacing it.
func (t Target) referenceError(err error, text string, data []byte, file string) error {
	p := Problem{File: file, Severity: SeverityError, Message: err.Error()}
	for _, ref := range references(text) {
		if strings.HasPrefix(err.Error(), ref.text) {
			p.Line, p.Column = position(data, ref.text)
			break
		}
	}
	return &FileError{Problem: p, Cluster: t.Cluster.Name}
}

// merge merges two values files as Helm merges -f files: maps merge; any other value of b, including null, replaces
// that of a. It changes neither.
func merge(a, b map[string]any) map[string]any {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make(map[string]any, len(a)+len(b))
	maps.Copy(out, a)
	for k, v := range b {
		if inner, ok := v.(map[string]any); ok {
			if below, ok := out[k].(map[string]any); ok {
				out[k] = merge(below, inner)
				continue
			}
		}
		out[k] = v
	}
	return out
}
