package manifest

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Budget bounds a YAML stream before a library builds it.
type Budget struct {
	Bytes   int // of text
	Nodes   int // after every alias is expanded
	Depth   int // of nesting
	Aliases int // uses of an anchor
}

// DefaultBudget holds every public chart and operator bundle that we know.
func DefaultBudget() Budget {
	return Budget{Bytes: 32 << 20, Nodes: 2_000_000, Depth: 200, Aliases: 10_000}
}

// BudgetError says which bound a text goes beyond.
type BudgetError struct {
	What      string
	Have, Max int
}

// Error names the bound and what was found.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("YAML with %d %s is beyond the limit of %d", e.Have, e.What, e.Max)
}

// Check refuses a text that is too large, too deep, or that aliases blow up. It parses only texts in which an anchor
// can stand or whose shape could be deep; a text that is no YAML passes, for the parser to say so.
func Check(data []byte, b Budget) error {
	if len(data) > b.Bytes {
		return &BudgetError{"bytes", len(data), b.Bytes}
	}
	if depth := depthBound(data, b.Depth); depth > b.Depth {
		return &BudgetError{"levels of nesting", depth, b.Depth}
	}
	if bytes.IndexByte(data, '&') < 0 || bytes.IndexByte(data, '*') < 0 {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	total := 0
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			return nil //nolint:nilerr // the end, or no YAML: the parser names the place better
		}
		c := counter{budget: b, sizes: map[*yaml.Node]int{}}
		n, err := c.count(&doc, 0)
		if err != nil {
			return err
		}
		if total = clamp(total + n); total > b.Nodes {
			return &BudgetError{"nodes", total, b.Nodes}
		}
	}
}

// counter counts the nodes that a document has once its aliases are expanded, each anchor once.
type counter struct {
	budget  Budget
	sizes   map[*yaml.Node]int
	aliases int
}

func (c *counter) count(n *yaml.Node, depth int) (int, error) {
	if depth > c.budget.Depth {
		return 0, &BudgetError{"levels of nesting", depth, c.budget.Depth}
	}
	if n.Kind == yaml.AliasNode {
		if c.aliases++; c.aliases > c.budget.Aliases {
			return 0, &BudgetError{"aliases", c.aliases, c.budget.Aliases}
		}
		size, ok := c.sizes[n.Alias]
		if !ok { // an alias inside its own anchor
			return 0, &BudgetError{"nodes in an anchor that holds itself", 1, 0}
		}
		return size, nil
	}
	total := 1
	for _, child := range n.Content {
		size, err := c.count(child, depth+1)
		if err != nil {
			return 0, err
		}
		total = clamp(total + size)
	}
	if n.Anchor != "" {
		c.sizes[n] = total
	}
	return total, nil
}

func clamp(n int) int { return min(n, 1<<40) }

// depthBound is an upper bound of the nesting that a text can have, or any number not above limit if that is
// certainly enough: indentation cannot nest deeper than the columns before a line's first character plus the dashes of
// that line, flow style not deeper than its open brackets.
func depthBound(data []byte, limit int) int {
	open, deepest := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			open++
			deepest = max(deepest, open)
		case ']', '}':
			open = max(0, open-1)
		}
	}
	if deepest <= limit && widestIndent(data) <= limit {
		return 0
	}
	return exactDepth(data, limit)
}

func widestIndent(data []byte) int {
	widest, column, inIndent := 0, 0, true
	for _, c := range data {
		switch {
		case c == '\n':
			column, inIndent = 0, true
		case inIndent && (c == ' ' || c == '-' || c == '?' || c == ':'):
			column++
			widest = max(widest, column)
		default:
			inIndent = false
		}
	}
	return widest
}

// exactDepth parses; go-yaml itself refuses more than 10,000 levels.
func exactDepth(data []byte, limit int) int {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	deepest := 0
	for deepest <= limit {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			return deepest
		}
		deepest = max(deepest, depthOf(&doc)-1) // the document node is no level
	}
	return deepest
}

func depthOf(n *yaml.Node) int {
	deepest := 0
	for _, child := range n.Content {
		deepest = max(deepest, depthOf(child))
	}
	return deepest + 1
}
