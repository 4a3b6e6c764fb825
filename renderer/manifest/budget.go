package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Budget limits a YAML stream before a library decodes it.
type Budget struct {
	Bytes    int // of text
	Nodes    int // after every alias is expanded
	Expanded int // bytes of scalars after every alias is expanded
	Depth    int // of nesting
	Aliases  int // uses of an anchor
}

// DefaultBudget returns limits that every public chart and operator bundle known to us stays below.
func DefaultBudget() Budget {
	return Budget{Bytes: 32 << 20, Nodes: 2_000_000, Expanded: 64 << 20, Depth: 200, Aliases: 10_000}
}

// BudgetError reports the limit that a text exceeds.
type BudgetError struct {
	What      string
	Have, Max int
}

// unexpandable is what a BudgetError counts for an alias whose anchor does not end before it, in the same document.
const unexpandable = "aliases that cannot be expanded"

// Error names the limit and the actual number.
func (e *BudgetError) Error() string {
	if e.What == unexpandable {
		return "a YAML alias is inside its own anchor, or its anchor is in another document"
	}
	return fmt.Sprintf("YAML with %d %s exceeds the limit of %d", e.Have, e.What, e.Max)
}

// Check returns a BudgetError for a text that is too large, nests too deep, or expands too far by aliases, and
// ErrPointer for a pointer of Git LFS. It accepts a text that is not YAML, because the parser that reads it next
// reports the line.
func Check(data []byte, b Budget) error {
	if len(data) > b.Bytes {
		return checkSize(data, b)
	}
	if mayBeDeeper(data, b.Depth) {
		if depth := exactDepth(data, b.Depth); depth > b.Depth {
			return &BudgetError{"levels of nesting", depth, b.Depth}
		}
	}
	return checkSize(data, b)
}

// canExpand reports whether a text can contain an anchor and an alias. It is false for most texts with && and * in
// their words, such as the rules of CustomResourceDefinitions, so that these need not be parsed.
func canExpand(data []byte) bool { return hasMark(data, '&') && hasMark(data, '*') }

// hasMark reports whether a text has a character where YAML may read it as the mark of an anchor or alias: before a
// name, and where a token can begin.
func hasMark(data []byte, mark byte) bool {
	for at := 0; ; at++ {
		i := bytes.IndexByte(data[at:], mark)
		if i < 0 {
			return false
		}
		at += i
		if begins := at == 0 || beginsToken(data[at-1]); begins && at+1 < len(data) && isNameByte(data[at+1]) {
			return true
		}
	}
}

// beginsToken reports whether a token can begin after a byte: after white space, a character of flow style, and the
// bytes of what YAML reads as a line break or byte order mark.
func beginsToken(c byte) bool {
	return c <= ' ' || c >= utf8.RuneSelf || bytes.IndexByte([]byte("[]{},:?-\"'"), c) >= 0
}

// isNameByte reports whether a byte can begin the name of an anchor. The zero byte is the first half of a letter in
// UTF-16.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == 0
}

// ErrPointer means that a text is what Git LFS commits in place of a file.
var ErrPointer = errors.New("this is a pointer of Git LFS, and Git does not have the content of the file (commit the file itself: `git lfs untrack` its name and add it again)")

// CheckPointer returns ErrPointer for a pointer of Git LFS, in place of which a parser would complain of its syntax.
func CheckPointer(data []byte) error {
	const most = 1024 // bytes of a pointer, by its specification
	text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) < most && bytes.HasPrefix(text, []byte("version https://git-lfs.github.com/spec/")) &&
		bytes.Contains(data, []byte("\noid ")) {
		return ErrPointer
	}
	return nil
}

// checkSize is Check without the depth of nesting. It parses only texts that can contain an anchor and an alias.
func checkSize(data []byte, b Budget) error {
	if len(data) > b.Bytes {
		return &BudgetError{"bytes", len(data), b.Bytes}
	}
	if err := CheckPointer(data); err != nil {
		return err
	}
	if !canExpand(data) {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var total size
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			return nil //nolint:nilerr // the end, or invalid YAML, which the parser reports with its line
		}
		c := counter{budget: b, sizes: map[*yaml.Node]size{}}
		n, err := c.count(&doc, 0)
		if err != nil {
			return err
		}
		total = total.plus(n)
		if total.nodes > b.Nodes {
			return &BudgetError{"nodes", total.nodes, b.Nodes}
		}
		if total.bytes > b.Expanded {
			return &BudgetError{"bytes of expanded aliases", total.bytes, b.Expanded}
		}
	}
}

// size is the size of a node with its aliases expanded.
type size struct{ nodes, bytes int }

func (s size) plus(other size) size {
	return size{clamp(s.nodes + other.nodes), clamp(s.bytes + other.bytes)}
}

// counter measures the nodes of a document, each anchor once.
type counter struct {
	budget  Budget
	sizes   map[*yaml.Node]size
	aliases int
}

func (c *counter) count(n *yaml.Node, depth int) (size, error) {
	if depth > c.budget.Depth+1 { // the document node does not count
		return size{}, &BudgetError{"levels of nesting", depth - 1, c.budget.Depth}
	}
	if n.Kind == yaml.AliasNode {
		if c.aliases++; c.aliases > c.budget.Aliases {
			return size{}, &BudgetError{"aliases", c.aliases, c.budget.Aliases}
		}
		known, ok := c.sizes[n.Alias]
		if !ok { // the decoder also knows the anchors of earlier documents
			return size{}, &BudgetError{unexpandable, 1, 0}
		}
		return known, nil
	}
	total := size{1, len(n.Value)}
	for _, child := range n.Content {
		below, err := c.count(child, depth+1)
		if err != nil {
			return size{}, err
		}
		total = total.plus(below)
	}
	if n.Anchor != "" {
		c.sizes[n] = total
	}
	return total, nil
}

func clamp(n int) int { return min(n, 1<<40) }

// mayBeDeeper reports whether a text could nest deeper than limit. Block style cannot nest deeper than the widest
// indentation, and flow style not deeper than the number of opening brackets. It ignores closing brackets, which close
// nothing inside quotes or comments.
func mayBeDeeper(data []byte, limit int) bool {
	return bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > limit || widestIndent(data) > limit
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

// exactDepth parses the text. go-yaml itself refuses more than 10,000 levels.
func exactDepth(data []byte, limit int) int {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	deepest := 0
	for deepest <= limit {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			return deepest
		}
		deepest = max(deepest, depthOf(&doc)-1) // the document node does not count
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
