package eject

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
)

// fleetFile changes sluice.yaml: the app is no longer imported, its app.yaml is read, and the layer cluster exists if
// one of the written files is in it.
func (a *App) fleetFile(data []byte, written []string) ([]byte, error) {
	var edits []addition
	entries := map[int]bool{}
	for _, t := range a.targets {
		entries[t.Entry] = true
	}
	for i, entry := range a.fleet.Spec.Import {
		if entries[i] && !slices.Contains(entry.Exclude, a.targets[0].App) {
			edits = append(edits, addition{[]string{"spec", "import", strconv.Itoa(i), "exclude"}, a.targets[0].App})
		}
	}
	if file := path.Join(a.dir, "app.yaml"); !fleet.MatchesAny(a.fleet.Spec.Files.Apps, file) {
		edits = append(edits, addition{[]string{"spec", "files", "apps"}, file})
	}
	inLayer := func(name string) bool { return strings.HasPrefix(name, path.Join(a.dir, "layers/cluster")+"/") }
	isLayer := func(l fleet.Layer) bool { return l.Name == "cluster" }
	if slices.ContainsFunc(written, inLayer) && !slices.ContainsFunc(a.fleet.Spec.Layers, isLayer) {
		edits = append(edits, addition{[]string{"spec", "layers"}, "cluster"})
	}
	for _, e := range edits {
		var err error
		if data, err = e.apply(data); err != nil {
			return nil, fmt.Errorf("sluice.yaml: %w", err)
		}
	}
	return data, nil
}

// addition adds a string to a list of the document of kind Fleet.
type addition struct {
	at   []string // path of the list: keys of mappings and indexes of lists
	text string
}

// apply inserts the string into the text, so that comments and blank lines stay. It also adds the string to the decoded
// documents. If the new text does not decode to those, as after a value of several lines, apply encodes the documents
// instead.
func (e addition) apply(data []byte) ([]byte, error) {
	docs, err := documents(data)
	if err != nil {
		return nil, err
	}
	node, missing, err := e.find(docs)
	if err != nil {
		return nil, err
	}
	edited := e.insert(string(data), node, missing)
	if err := add(node, missing, e.text); err != nil {
		return nil, err
	}
	if again, err := documents([]byte(edited)); err == nil && reflect.DeepEqual(contents(again), contents(docs)) {
		return []byte(edited), nil
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

// find returns the deepest node on the way to the list, and the keys that it lacks.
func (e addition) find(docs []*yaml.Node) (*yaml.Node, []string, error) {
	for _, doc := range docs {
		if len(doc.Content) != 1 {
			continue
		}
		node := doc.Content[0]
		if kind := lookup(node, "kind"); kind == nil || kind.Value != "Fleet" {
			continue
		}
		for i, key := range e.at {
			next := lookup(node, key)
			if next == nil {
				return node, e.at[i:], nil
			}
			if next.Kind == yaml.AliasNode {
				return nil, nil, fmt.Errorf("%d:%d: %s is an alias, and others would change with it (write it out)",
					next.Line, next.Column, strings.Join(e.at[:i+1], "."))
			}
			node = next
		}
		return node, nil, nil
	}
	return nil, nil, errors.New("it has no document of kind Fleet")
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
		if i, err := strconv.Atoi(key); err == nil && i < len(node.Content) {
			return node.Content[i]
		}
	}
	return nil
}

// add adds a string to the list at a node. If keys on the way to the list are missing, node is their parent, and add
// creates them.
func add(node *yaml.Node, missing []string, text string) error {
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
	if empty {
		*node = yaml.Node{Kind: yaml.SequenceNode}
	}
	if node.Kind != yaml.SequenceNode {
		return fmt.Errorf("%d:%d: the value must be a list", node.Line, node.Column)
	}
	node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text})
	return nil
}

// insert returns the text with the string added at the end of a node: on a line of its own, or before the closing
// bracket. The result can be wrong for unusual text, so the caller decodes it.
func (e addition) insert(data string, node *yaml.Node, missing []string) string {
	item := quoted(e.text)
	for i, key := range slices.Backward(missing) {
		if i == len(missing)-1 {
			item = key + ": [" + item + "]"
		} else {
			item = key + ": {" + item + "}"
		}
	}
	lines := strings.SplitAfter(data, "\n")
	if node.Line < 1 || node.Line > len(lines) || node.Kind == yaml.ScalarNode {
		return data
	}
	if node.Style&yaml.FlowStyle != 0 {
		inLine := len(string([]rune(lines[node.Line-1])[:node.Column-1])) // the column counts characters
		start := len(strings.Join(lines[:node.Line-1], "")) + inLine
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
	newline := "\n"
	if strings.HasSuffix(lines[end-1], "\r\n") {
		newline = "\r\n"
	}
	if !strings.HasSuffix(lines[end-1], "\n") {
		lines[end-1] += newline
	}
	return strings.Join(slices.Insert(lines, end, strings.Repeat(" ", node.Column-1)+item+newline), "")
}

// last returns the last line on which a part of the node begins.
func last(node *yaml.Node) int {
	line := node.Line
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
