package fleet

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ComponentFile is a file of a layer's component as one cluster gets it: references in its YAML scalars are replaced. A
// file without references comes back as it is. An inline patch of a kustomization is YAML in itself, so that a
// reference in it keeps its type.
func (t Target) ComponentFile(name string, data []byte) ([]byte, error) {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml":
	default:
		if path.Base(name) != "Kustomization" {
			return data, nil
		}
	}
	if !bytes.Contains(data, []byte("${")) {
		return data, nil
	}
	out, err := t.replaceYAML(data)
	if err != nil {
		return nil, t.referenceError(err, string(data), data, name)
	}
	return out, nil
}

func (t Target) replaceYAML(data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	documents := 0
	for {
		var root yaml.Node
		if err := dec.Decode(&root); err != nil {
			if documents == 0 || err.Error() != "EOF" {
				return nil, fmt.Errorf("not YAML: %w", err)
			}
			break
		}
		documents++
		if err := t.replaceNode(&root, ""); err != nil {
			return nil, err
		}
		if err := enc.Encode(&root); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), enc.Close()
}

func (t Target) replaceNode(n *yaml.Node, key string) error {
	if n.Kind == yaml.ScalarNode {
		return t.replaceScalar(n, key)
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue // keys stay as they are
			}
			key = n.Content[i-1].Value
		}
		if err := t.replaceNode(child, key); err != nil {
			return err
		}
	}
	return nil
}

func (t Target) replaceScalar(n *yaml.Node, key string) error {
	if n.Tag != "!!str" || !strings.Contains(n.Value, "${") {
		return nil
	}
	if inlinePatch(key) && strings.Contains(n.Value, "\n") {
		patched, err := t.replaceYAML([]byte(n.Value))
		if err != nil {
			return err
		}
		n.Value = string(patched)
		return nil
	}
	v, err := t.replace(n.Value)
	if err != nil {
		return err
	}
	var replaced yaml.Node
	if err := replaced.Encode(v); err != nil {
		return err
	}
	line, column := n.Line, n.Column
	*n = replaced
	n.Line, n.Column = line, column
	return nil
}

func inlinePatch(key string) bool { return key == "patch" || key == "patchesStrategicMerge" }
