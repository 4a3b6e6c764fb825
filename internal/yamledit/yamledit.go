// Package yamledit changes single fields of YAML files that people write, so that comments, blank lines and the order of
// everything else stay.
//
// An edit changes the text and, apart from that, the decoded documents. If the new text does not decode to these, as
// after a value of several lines, the documents are encoded instead: comments stay then, and the layout does not.
// Values that others share (aliases, anchors, merge keys) are refused, because an edit would change the others too.
package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document names a document of a stream: by its kind and, unless Name is empty, by metadata.name.
type Document struct{ Kind, Name string }

// String returns the words for messages.
func (d Document) String() string {
	if d.Name == "" {
		return "document of kind " + d.Kind
	}
	return d.Kind + " " + d.Name
}

func (d Document) is(root *yaml.Node) bool {
	text := func(at ...string) string {
		n := root
		for _, key := range at {
			if n = lookup(n, key); n == nil {
				return ""
			}
		}
		return n.Value
	}
	return text("kind") == d.Kind && (d.Name == "" || text("metadata", "name") == d.Name)
}

// Append adds a string to the end of a list. at are keys of mappings and indexes of lists; keys that are missing are
// created.
func Append(data []byte, in Document, at []string, text string) ([]byte, error) {
	return edit{in, at, text, true}.apply(data)
}

// Set gives a field a string as its value, in place of the scalar that it has. at is as in Append.
func Set(data []byte, in Document, at []string, text string) ([]byte, error) {
	return edit{in, at, text, false}.apply(data)
}

// separator is a line that begins or ends a document. No value of a document can have one at the beginning of a line.
var separator = regexp.MustCompile(`(?m)^(---|\.\.\.)([ \t].*)?\r?$\n?`)

// Extract returns the text of a document, without separators.
func Extract(data []byte, in Document) ([]byte, error) {
	start := 0
	var parts []string
	for _, m := range separator.FindAllSubmatchIndex(data, -1) {
		parts = append(parts, string(data[start:m[0]]))
		if start = m[1]; m[4] >= 0 && !strings.HasPrefix(strings.TrimSpace(string(data[m[4]:m[5]])), "#") {
			start = m[4] // the document begins on the line of its separator
		}
	}
	for _, part := range append(parts, string(data[start:])) {
		docs, err := documents([]byte(part))
		if err == nil && len(docs) == 1 && len(docs[0].Content) == 1 && in.is(docs[0].Content[0]) {
			return []byte(strings.Trim(part, "\n") + "\n"), nil
		}
	}
	return nil, fmt.Errorf("it has no %s", in)
}

// edit adds a string to a list, or sets a field.
type edit struct {
	in   Document
	at   []string
	text string
	list bool
}

func (e edit) apply(data []byte) ([]byte, error) {
	docs, err := documents(data)
	if err != nil {
		return nil, err
	}
	node, missing, err := e.find(docs)
	if err != nil {
		return nil, err
	}
	candidates := []string{e.insert(string(data), node, missing, false), e.insert(string(data), node, missing, true)}
	if err := e.change(node, missing); err != nil {
		return nil, err
	}
	for _, edited := range candidates {
		if again, err := documents([]byte(edited)); err == nil && reflect.DeepEqual(contents(again), contents(docs)) {
			return []byte(edited), nil
		}
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	for _, doc := range docs {
		if err := encoder.Encode(doc); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), encoder.Close()
}

func documents(data []byte) ([]*yaml.Node, error) {
	var out []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, &doc)
	}
}

// contents decodes documents, so that two of them can be compared without positions, styles and comments.
func contents(docs []*yaml.Node) []any {
	out := make([]any, len(docs))
	for i, doc := range docs {
		if err := doc.Decode(&out[i]); err != nil {
			out[i] = err
		}
	}
	return out
}

// find returns the deepest node on the way to the place, and the keys that it lacks.
func (e edit) find(docs []*yaml.Node) (*yaml.Node, []string, error) {
	for _, doc := range docs {
		if len(doc.Content) != 1 || !e.in.is(doc.Content[0]) {
			continue
		}
		node := doc.Content[0]
		for i, key := range e.at {
			next := lookup(node, key)
			if next == nil && lookup(node, "<<") != nil {
				return nil, nil, fmt.Errorf("%d:%d: the mapping takes keys of another one with <<, so %s cannot be added (write it out)",
					node.Line, node.Column, key)
			}
			if next == nil {
				return node, e.at[i:], nil
			}
			shared := "an alias"
			if next.Anchor != "" {
				shared = "an anchor"
			}
			if next.Kind == yaml.AliasNode || next.Anchor != "" {
				return nil, nil, fmt.Errorf("%d:%d: %s is %s, and others would change with it (write it out)",
					next.Line, next.Column, strings.Join(e.at[:i+1], "."), shared)
			}
			node = next
		}
		return node, nil, nil
	}
	return nil, nil, fmt.Errorf("it has no %s", e.in)
}

// lookup returns the value of a key or the item of an index; nil if there is none.
func lookup(node *yaml.Node, key string) *yaml.Node {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				return node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i]
		}
	}
	return nil
}

// change makes the edit in a decoded document. If keys on the way are missing, node is their parent, and change creates
// them.
func (e edit) change(node *yaml.Node, missing []string) error {
	empty := node.Kind == yaml.ScalarNode && node.Tag == "!!null"
	for _, key := range missing {
		if empty {
			*node = yaml.Node{Kind: yaml.MappingNode}
		}
		if node.Kind != yaml.MappingNode {
			return fmt.Errorf("%d:%d: the value must be a mapping with %s", node.Line, node.Column, key)
		}
		value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
		node, empty = value, true
	}
	if !e.list {
		if node.Kind != yaml.ScalarNode {
			return fmt.Errorf("%d:%d: the value must be a text", node.Line, node.Column)
		}
		node.Tag, node.Value, node.Style = "!!str", e.text, 0
		return nil
	}
	if empty {
		*node = yaml.Node{Kind: yaml.SequenceNode}
	}
	if node.Kind != yaml.SequenceNode {
		return fmt.Errorf("%d:%d: the value must be a list", node.Line, node.Column)
	}
	node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.text})
	return nil
}

// insert returns the text with the edit: in place of the scalar, on a line of its own at the end of a node or, with
// front, at its beginning, or before its closing bracket. The result can be wrong for unusual text, so the caller
// decodes it.
func (e edit) insert(data string, node *yaml.Node, missing []string, front bool) string {
	item := quoted(e.text)
	for i, key := range slices.Backward(missing) {
		switch {
		case i == len(missing)-1 && e.list:
			item = quoted(key) + ": [" + item + "]"
		case i == len(missing)-1:
			item = quoted(key) + ": " + item
		default:
			item = quoted(key) + ": {" + item + "}"
		}
	}
	lines := strings.SplitAfter(data, "\n")
	if node.Line < 1 || node.Line > len(lines) {
		return data
	}
	line := []rune(lines[node.Line-1]) // the column counts characters
	if node.Column < 1 || node.Column > len(line)+1 {
		return data
	}
	start := len(strings.Join(lines[:node.Line-1], "")) + len(string(line[:node.Column-1]))
	switch {
	case node.Kind == yaml.ScalarNode && !e.list && len(missing) == 0:
		if end := token(data[start:], node); end > 0 {
			return data[:start] + item + data[start+end:]
		}
		return data
	case node.Kind == yaml.ScalarNode:
		return data
	case node.Style&yaml.FlowStyle != 0:
		end := start + closing(data[start:])
		before := strings.TrimRight(data[start:end], " \t\r\n")
		comma := ""
		if len(node.Content) > 0 {
			comma = ", "
		}
		return data[:start] + before + comma + item + data[start+len(before):]
	}
	if node.Kind == yaml.SequenceNode {
		item = "- " + item
	}
	end := min(last(node), len(lines))
	if front && node.Kind == yaml.MappingNode && strings.TrimSpace(string(line[:node.Column-1])) == "" {
		end = node.Line - 1
	}
	if end == 0 {
		return strings.Repeat(" ", node.Column-1) + item + "\n" + data
	}
	newline := "\n"
	if strings.HasSuffix(lines[end-1], "\r\n") {
		newline = "\r\n"
	}
	if !strings.HasSuffix(lines[end-1], "\n") {
		lines[end-1] += newline
	}
	return strings.Join(slices.Insert(lines, end, strings.Repeat(" ", node.Column-1)+item+newline), "")
}

// token returns the length of a scalar at the beginning of a text; 0 if it cannot tell.
func token(text string, node *yaml.Node) int {
	switch {
	case node.Style == 0 && strings.HasPrefix(text, node.Value):
		return len(node.Value)
	case node.Style == yaml.DoubleQuotedStyle || node.Style == yaml.SingleQuotedStyle:
		if text == "" {
			return 0
		}
		for i := 1; i < len(text) && text[i] != '\n'; i++ {
			switch {
			case text[i] == '\\' && text[0] == '"':
				i++
			case text[i] == text[0]:
				return i + 1
			}
		}
	}
	return 0
}

// last returns the last line on which a part of the node begins or, for a literal block, the line on which it ends.
func last(node *yaml.Node) int {
	line := node.Line
	if node.Style&yaml.LiteralStyle != 0 {
		line += 1 + strings.Count(strings.TrimRight(node.Value, "\n"), "\n")
	}
	for _, child := range node.Content {
		line = max(line, last(child))
	}
	return line
}

// closing returns the offset of the bracket that closes the one at the beginning of the text.
func closing(text string) int {
	depth := 0
	var quote rune
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// quoted returns a string as an item of a YAML list in one line, with quotes only if it needs them.
func quoted(text string) string {
	var back any
	if err := yaml.Unmarshal([]byte("["+text+"]"), &back); err == nil && reflect.DeepEqual(back, []any{text}) {
		return text
	}
	return strconv.Quote(text)
}
