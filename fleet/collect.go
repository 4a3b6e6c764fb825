package fleet

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// references lists the references of a file once each: those in its text, and those that appear only in its parsed
// scalars, such as a reference with escapes or line breaks. It may list too many, but never too few.
func references(text string) []reference {
	if !strings.Contains(text, "${") {
		return nil
	}
	c := collector{seen: map[string]bool{}}
	c.text(text)
	c.yaml(text, 0)
	return c.found
}

type collector struct {
	found []reference
	seen  map[string]bool
}

func (c *collector) text(text string) {
	for i := strings.Index(text, "${"); i >= 0 && i < len(text); {
		if ref, _, err := readReference(text[i:]); err == nil && ref != nil && !c.seen[ref.text] {
			c.seen[ref.text] = true
			c.found = append(c.found, *ref)
		}
		next := strings.Index(text[i+2:], "${")
		if next < 0 {
			return
		}
		i += 2 + next
	}
}

// yaml searches scalars, and scalars that contain YAML.
func (c *collector) yaml(text string, depth int) {
	const deepest = 2
	if depth > deepest || manifest.Check([]byte(text), yamlnode.Budget()) != nil {
		return
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var root yaml.Node
		if dec.Decode(&root) != nil {
			return // the end, or invalid YAML, which the replacing code reports
		}
		c.node(&root, depth)
	}
}

func (c *collector) node(n *yaml.Node, depth int) {
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
		c.text(n.Value)
		if strings.ContainsAny(n.Value, "\n\\") {
			c.yaml(n.Value, depth+1)
		}
	}
	for _, child := range n.Content {
		c.node(child, depth)
	}
}

// position returns the line and column of a text in a file, from 1; 0 if the file does not contain it.
func position(data []byte, text string) (line, column int) {
	i := bytes.Index(data, []byte(text))
	if i < 0 {
		return 0, 0
	}
	return bytes.Count(data[:i], []byte("\n")) + 1, i - bytes.LastIndexByte(data[:i], '\n')
}
