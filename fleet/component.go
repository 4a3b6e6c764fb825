package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/internal/yamlmistake"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// ComponentFile returns a file of a layer's component for one target. It replaces references in the scalars of YAML
// and JSON files, but not in keys. It returns other files, and files without references, unchanged. An inline patch
// of a kustomization is YAML too, so an unquoted reference in it keeps its type. JSON has only quoted texts: there, a
// text that is exactly one reference keeps the variable's type.
func (t Target) ComponentFile(name string, data []byte) ([]byte, error) {
	kustomization := isKustomization(name)
	ext := strings.ToLower(path.Ext(name))
	if !kustomization && ext != ".yaml" && ext != ".yml" && ext != ".json" || !bytes.Contains(data, []byte("${")) {
		return data, nil
	}
	if err := manifest.Check(data, yamlnode.Budget()); err != nil {
		return nil, &FileError{Problem: Problem{
			File: name, Severity: SeverityError, Message: err.Error(),
			Hint: "split the file",
		}, Cluster: t.Cluster.Name}
	}
	if ext == ".json" && json.Valid(data) {
		return t.replaceJSON(name, data)
	}
	r := replacer{target: t, patches: kustomization}
	out, err := r.stream(data)
	if err != nil {
		p := Problem{File: name, Line: r.line, Column: r.column, Severity: SeverityError, Message: err.Error()}
		return nil, &FileError{Problem: p, Cluster: t.Cluster.Name}
	}
	return out, nil
}

// CheckComponent returns the first error of ComponentFile for the files below a component's folder; nil if all
// references can be replaced. It reads files through links, and no chart: no reference is replaced in one.
func (f *Fleet) CheckComponent(t Target, dir string) error {
	id, err := f.contentID(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if refs, err := f.references(id, dir); err != nil || len(refs) == 0 {
		return err
	}
	entries, err := f.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && f.Has(path.Join(name, "Chart.yaml")): // of helmCharts
		case e.IsDir():
			err = f.CheckComponent(t, name)
		case e.Type().IsRegular():
			var data []byte
			if data, err = f.tree.ReadFile(name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			_, err = t.ComponentFile(name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isKustomization(name string) bool {
	switch path.Base(name) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return true
	}
	return false
}

func (t Target) replaceJSON(name string, data []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	replaced, err := t.replaceAny(v)
	if err != nil {
		return nil, t.referenceError(err, string(data), data, name)
	}
	out, err := json.Marshal(replaced)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func (t Target) replaceAny(v any) (any, error) {
	var err error
	switch x := v.(type) {
	case map[string]any:
		for k, item := range x {
			if x[k], err = t.replaceAny(item); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range x {
			if x[i], err = t.replaceAny(item); err != nil {
				return nil, err
			}
		}
	case string:
		return t.replace(x)
	}
	return v, nil
}

// replacer replaces references in a stream of YAML documents and keeps all other text as it is written.
type replacer struct {
	target       Target
	patches      bool // inline patches are YAML
	line, column int  // position of the first reference that cannot be replaced
}

func (r *replacer) stream(data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	for first := true; ; first = false {
		var root yaml.Node
		err := dec.Decode(&root)
		if errors.Is(err, io.EOF) && first {
			return data, nil // only comments: yaml.Encoder.Close fails before the first Encode
		}
		if errors.Is(err, io.EOF) {
			return out.Bytes(), enc.Close()
		}
		if err != nil {
			var message, hint string
			if r.line, message, hint = yamlmistake.Syntax(err, data); hint != "" {
				message += " (" + hint + ")"
			}
			return nil, fmt.Errorf("not YAML: %s", message)
		}
		if err := r.node(&root, ""); err != nil {
			return nil, err
		}
		if err := enc.Encode(&root); err != nil {
			return nil, err
		}
	}
}

func (r *replacer) node(n *yaml.Node, key string) error {
	if n.Kind == yaml.ScalarNode {
		if err := r.scalar(n, key); err != nil {
			if r.line == 0 {
				r.line, r.column = n.Line, n.Column
			}
			return err
		}
		return nil
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue // references in keys are not replaced
			}
			key = n.Content[i-1].Value
		}
		if err := r.node(child, key); err != nil {
			return err
		}
	}
	return nil
}

func (r *replacer) scalar(n *yaml.Node, key string) error {
	if n.Tag != "!!str" && n.Tag != typedTag || !strings.Contains(n.Value, "${") {
		return nil
	}
	if r.patches && (key == "patch" || key == "patchesStrategicMerge") && isStructure(n.Value) {
		inner := replacer{target: r.target}
		replace := inner.stream
		if json.Valid([]byte(n.Value)) {
			replace = func(data []byte) ([]byte, error) { return r.target.replaceJSON("patch", data) }
		}
		patched, err := replace([]byte(n.Value))
		if err != nil {
			if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
				r.line, r.column = n.Line+inner.line, 0
			}
			return err
		}
		n.Value, n.Style = string(patched), yaml.LiteralStyle
		return nil
	}
	if isQuoted(n) {
		text, err := r.target.text(n.Value)
		n.Value = text
		return err
	}
	v, err := r.target.replace(n.Value)
	if err != nil {
		return err
	}
	var replaced yaml.Node
	if err := replaced.Encode(v); err != nil {
		return err
	}
	replaced.Anchor, replaced.Line, replaced.Column = n.Anchor, n.Line, n.Column
	*n = replaced
	return nil
}

// isStructure reports whether a text is a YAML mapping or list, as inline patches are. The text may also be the name
// of a file.
func isStructure(text string) bool {
	var root yaml.Node
	if manifest.Check([]byte(text), yamlnode.Budget()) != nil || yaml.Unmarshal([]byte(text), &root) != nil ||
		len(root.Content) == 0 {
		return false
	}
	return root.Content[0].Kind != yaml.ScalarNode
}
