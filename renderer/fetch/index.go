package fetch

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Indexes of big repositories have tens of megabytes. Decoding one in full takes many seconds and ten times its size in
// memory. So only the wanted chart's part is decoded: JSON is streamed, and of YAML in the block style that every
// tool writes, the part is cut out by its indentation. Other YAML is decoded whole, within a smaller limit.
const (
	maxYAML      = 8 << 20   // bytes of one chart's part, or of a whole index that cannot be cut
	maxYAMLNodes = 1_000_000 // about 250 MB in the decoder
)

// indexEntry is one version of a chart in index.yaml, with the fields that this package needs.
type indexEntry struct {
	Version string   `yaml:"version" json:"version"`
	URLs    []string `yaml:"urls" json:"urls"`
	Digest  string   `yaml:"digest" json:"digest"`
}

var (
	errNotBlock = errors.New("not in block style")
	errBadIndex = fail(ErrInvalid,
		"index.yaml is neither valid YAML nor JSON: is the URL that of a chart repository?")
	errTwiceIndex = fail(ErrInvalid, "index.yaml has the chart twice; the repository must be repaired")
	errHugeIndex  = fail(ErrInvalid,
		"index.yaml is too complex to read: the chart's part of it has more than %d MiB or %d values", maxYAML>>20,
		maxYAMLNodes)
)

// findChart returns the versions of one chart, nil if the index does not have it.
func findChart(index []byte, chart string) ([]*indexEntry, error) {
	index = bytes.TrimPrefix(index, []byte("\xef\xbb\xbf"))
	if trimmed := bytes.TrimLeft(index, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		entries, err := findJSON(trimmed, chart)
		if _, syntax := errors.AsType[*json.SyntaxError](err); !syntax {
			return entries, err
		}
	}
	part, err := cutBlock(index, chart)
	switch {
	case err == nil && part == nil:
		return nil, nil
	case err == nil:
		if !affordable(part) {
			return nil, errHugeIndex
		}
		var section map[string][]*indexEntry
		if yaml.Unmarshal(part, &section) == nil {
			return section[chart], nil
		}
	case !errors.Is(err, errNotBlock):
		return nil, err
	}
	return decodeIndex(index, chart)
}

func affordable(data []byte) bool { return len(data) <= maxYAML && yamlWeight(data) <= maxYAMLNodes }

// yamlWeight returns an upper bound on the number of nodes of the parsed text: each node but the first needs
// one of these characters.
func yamlWeight(data []byte) int {
	n := 1
	for _, c := range data {
		switch c {
		case '\n', '\r', ',', ':', '[', '{', '-', '?':
			n++
		}
	}
	return n
}

// cutBlock finds `  chart:` and its lines below `entries:`; nil if it is not there. It returns errNotBlock if the text
// has a layout that this function cannot cut safely.
func cutBlock(index []byte, chart string) ([]byte, error) {
	body, err := entriesBlock(index)
	if err != nil {
		return nil, err
	}
	start, indent := -1, 0
	var found []byte
	for l := range blockLines(body) {
		if indent == 0 {
			indent = l.depth
		}
		if l.depth > indent || l.depth == indent && l.item() {
			continue
		}
		key, _, ok := blockKey(l.text)
		if l.depth < indent || !ok {
			return nil, errNotBlock
		}
		if start >= 0 {
			found, start = body[start:l.pos], -1
		}
		if key != chart {
			continue
		}
		if found != nil {
			return nil, errTwiceIndex
		}
		start = l.pos
	}
	if start >= 0 {
		found = body[start:]
	}
	return found, nil
}

// entriesBlock returns the text between `entries:` and the next key of the top level.
func entriesBlock(index []byte) ([]byte, error) {
	start := -1
	for l := range blockLines(index) {
		if l.depth > 0 {
			continue
		}
		if start >= 0 {
			if l.item() || l.text[0] == '\t' {
				return nil, errNotBlock
			}
			return index[start:l.pos], nil
		}
		if key, rest, ok := blockKey(l.text); ok && key == "entries" {
			if len(rest) > 0 {
				return nil, errNotBlock
			}
			start = l.pos + len(l.text)
		}
	}
	if start < 0 {
		return nil, errNotBlock
	}
	return index[start:], nil
}

// blockLine is a line that is neither empty nor a comment.
type blockLine struct {
	pos, depth int // where the line starts; its spaces
	text       []byte
}

func (l blockLine) item() bool { return l.text[0] == '-' && (len(l.text) == 1 || l.text[1] == ' ') }

func blockLines(data []byte) iter.Seq[blockLine] {
	return func(yield func(blockLine) bool) {
		for pos, next := 0, 0; pos < len(data); pos = next {
			next = len(data)
			if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
				next = pos + i + 1
			}
			line := bytes.TrimRight(data[pos:next], " \t\r\n")
			text := bytes.TrimLeft(line, " ")
			if len(text) > 0 && text[0] != '#' && !yield(blockLine{pos, len(line) - len(text), text}) {
				return
			}
		}
	}
}

// blockKey reads `key:` with what follows it on the line. ok is false for keys in any other YAML syntax.
func blockKey(text []byte) (key string, rest []byte, ok bool) {
	if q := text[0]; q == '"' || q == '\'' {
		end := bytes.IndexByte(text[1:], q)
		if end < 0 {
			return "", nil, false
		}
		key, rest = string(text[1:1+end]), bytes.TrimLeft(text[2+end:], " ")
		if len(rest) == 0 || rest[0] != ':' || strings.Contains(key, `\`) {
			return "", nil, false
		}
		rest = rest[1:]
	} else {
		if bytes.IndexByte([]byte("&*!?<{[|>%@`\t"), q) >= 0 {
			return "", nil, false
		}
		i := bytes.Index(text, []byte(": "))
		if i < 0 {
			i = len(text) - 1
		}
		if text[i] != ':' {
			return "", nil, false
		}
		key, rest = string(bytes.TrimRight(text[:i], " ")), text[i+1:]
	}
	rest = bytes.TrimLeft(rest, " \t")
	if len(rest) > 0 && rest[0] == '#' {
		rest = nil
	}
	return key, rest, true
}

// decodeIndex decodes the whole text.
func decodeIndex(index []byte, chart string) ([]*indexEntry, error) {
	if !affordable(index) {
		return nil, errHugeIndex
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(index, &doc); err != nil || len(doc.Content) != 1 {
		return nil, errBadIndex
	}
	all := child(doc.Content[0], "entries")
	if doc.Content[0].Kind != yaml.MappingNode || all == nil {
		return nil, fail(ErrInvalid, "index.yaml has no `entries`: is the URL that of a chart repository?")
	}
	node := child(all, chart)
	if node == nil {
		return nil, nil
	}
	var entries []*indexEntry
	if err := node.Decode(&entries); err != nil {
		return nil, errBadIndex
	}
	return entries, nil
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// findJSON streams over the text and decodes the one chart. Only a *json.SyntaxError says that the text may be YAML.
func findJSON(index []byte, chart string) ([]*indexEntry, error) {
	dec := json.NewDecoder(bytes.NewReader(index))
	var entries []*indexEntry
	seen := false
	chartKey := func(key string) error {
		if key != chart {
			return dec.Decode(&skipped{})
		}
		if seen {
			return errTwiceIndex
		}
		seen = true
		return dec.Decode(&entries)
	}
	err := eachKey(dec, func(key string) error {
		if key != "entries" {
			return dec.Decode(&skipped{})
		}
		return eachKey(dec, chartKey)
	})
	var syntax *json.SyntaxError
	switch {
	case err == nil, errors.Is(err, errTwiceIndex):
		return entries, err
	case errors.As(err, &syntax):
		return nil, syntax
	}
	return nil, errBadIndex
}

// skipped is a JSON value that is read and not decoded.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

func eachKey(dec *json.Decoder, visit func(key string) error) error {
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(err, errBadIndex)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return errBadIndex
		}
		if err := visit(name); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}
