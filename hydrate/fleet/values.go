package fleet

import (
	"fmt"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"
)

// valuesFile is a parsed values file, shared by all targets that take it.
type valuesFile struct {
	data []byte
	tree map[string]any
	refs bool // holds a ${
	err  error
}

// FileError is a problem in a file that shows only for a certain cluster.
type FileError struct {
	Problem
	Cluster string
}

// Error gives the problem on one line.
func (e *FileError) Error() string { return e.Problem.String() }

func (f *Fleet) valuesFile(name string) (*valuesFile, error) {
	id, err := contentID(f.tree, name)
	if err != nil {
		return nil, err
	}
	if known, ok := f.cache.values.Load(id); ok {
		return known.(*valuesFile), nil //nolint:forcetypeassert // only this function stores here
	}
	data, err := f.tree.ReadFile(name)
	if err != nil {
		return nil, err
	}
	v := &valuesFile{data: data, refs: strings.Contains(string(data), "${")}
	if len(data) > maxFile {
		v.err = fmt.Errorf("the file is larger than %d MiB", maxFile>>20)
	} else {
		v.err = sigsyaml.Unmarshal(data, &v.tree)
	}
	f.cache.values.Store(id, v)
	return v, nil
}

// Values are the values that one of the target's Helm sources gets on top of the chart's defaults: every layer's file,
// lowest first, merged as Helm merges -f files, references replaced. A null stays in them for Helm to delete a default
// with. The result may share parts with other targets' and must not be changed.
func (f *Fleet) Values(t Target, source string) (map[string]any, error) {
	merged := map[string]any{}
	for _, file := range f.ValuesFiles(t) {
		if file.Source != "" && file.Source != source {
			continue
		}
		values, err := f.layerValues(t, file)
		if err != nil {
			return nil, err
		}
		merged = merge(merged, values)
	}
	return merged, nil
}

func (f *Fleet) layerValues(t Target, file LayerFile) (map[string]any, error) {
	v, err := f.valuesFile(file.Path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Path, err)
	}
	if v.err != nil {
		line, message := splitYAMLError(v.err)
		message = strings.TrimPrefix(message, "error converting YAML to JSON: ")
		return nil, &FileError{Problem{File: file.Path, Line: line, Severity: SeverityError, Message: message, Hint: "a values file is a YAML mapping"}, t.Cluster.Name}
	}
	values := v.tree
	if v.refs {
		replaced, err := t.replaceValues(v.tree, v.data, file.Path)
		if err != nil {
			return nil, err
		}
		values, _ = replaced.(map[string]any)
	}
	if file.FleetWide {
		return map[string]any{"global": values}, nil
	}
	return values, nil
}

// replaceValues copies what holds references; the rest is shared.
func (t Target) replaceValues(v any, data []byte, file string) (any, error) {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			replaced, err := t.replaceValues(item, data, file)
			if err != nil {
				return nil, err
			}
			out[k] = replaced
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, item := range x {
			replaced, err := t.replaceValues(item, data, file)
			if err != nil {
				return nil, err
			}
			out[i] = replaced
		}
		return out, nil
	case string:
		if !strings.Contains(x, "${") {
			return x, nil
		}
		replaced, err := t.replace(x)
		if err != nil {
			return nil, t.referenceError(err, x, data, file)
		}
		return replaced, nil
	default:
		return v, nil
	}
}

// referenceError says where in a file the reference stands that cannot be replaced.
func (t Target) referenceError(err error, text string, data []byte, file string) error {
	p := Problem{File: file, Severity: SeverityError, Message: err.Error()}
	for _, ref := range references(text) {
		if strings.HasPrefix(err.Error(), ref.text) {
			p.Line, p.Column = position(data, ref.text)
			break
		}
	}
	return &FileError{p, t.Cluster.Name}
}

// merge is Helm's merge of two -f files: maps merge, everything else of b replaces what a has, null too. Neither is
// changed.
func merge(a, b map[string]any) map[string]any {
	if len(a) == 0 {
		return b
	}
	out := make(map[string]any, len(a)+len(b))
	for k, v := range a {
		out[k] = v
	}
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
