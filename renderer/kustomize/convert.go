package kustomize

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/resource"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// convert gives what a reader of `kustomize build` gets from a resource.
//
// That reader sees the library's nodes written as YAML, read, written as JSON, read, written as YAML and read again. For
// nodes whose value no writer or reader can mistake this comes to the value itself, at a fifth of the cost; an object
// that holds any other node goes the whole way.
func convert(r *resource.Resource, b manifest.Budget) ([]manifest.Object, error) {
	if o, ok := plainObject(r.YNode()); ok {
		return []manifest.Object{o}, nil
	}
	text, err := r.MarshalJSON() // AsYAML writes just this as YAML
	if err != nil {
		return nil, err
	}
	return manifest.Decode(text, b)
}

func plainObject(n *yaml.Node) (manifest.Object, bool) {
	v, ok := plainValue(n)
	if !ok {
		return nil, false
	}
	m, ok := v.(map[string]any)
	o := manifest.Object(m)
	return o, ok && o.APIVersion() != "" && o.Kind() != "" && o.Name() != "" && !strings.HasSuffix(o.Kind(), "List")
}

func plainValue(n *yaml.Node) (any, bool) {
	if n == nil || n.Anchor != "" {
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		return plainMapping(n)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, ok := plainValue(item)
			if !ok {
				return nil, false
			}
			out[i] = v
		}
		return out, n.Tag == "" || n.Tag == "!!seq"
	case yaml.ScalarNode:
		return plainScalar(n)
	default:
		return nil, false
	}
}

func plainMapping(n *yaml.Node) (any, bool) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		const longest = 500 // of a key; readers have a bound
		key := n.Content[i]
		name, ok := plainScalar(key)
		text, isText := name.(string)
		if !ok || !isText || key.Anchor != "" || len(text) > longest || text == "<<" || strings.Contains(text, "\n") {
			return nil, false
		}
		if _, twice := out[text]; twice {
			return nil, false
		}
		v, ok := plainValue(n.Content[i+1])
		if !ok {
			return nil, false
		}
		out[text] = v
	}
	return out, n.Tag == "" || n.Tag == "!!map"
}

func plainScalar(n *yaml.Node) (any, bool) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle
	if n.Style&^quoted != 0 {
		return nil, false
	}
	switch {
	case n.Tag == "!!str":
		return n.Value, plainText(n.Value)
	case n.Tag == "" && n.Style == 0: // what the library itself adds
		return n.Value, plainWord(n.Value)
	case n.Style != 0:
		return nil, false
	case n.Tag == "!!bool":
		return n.Value == "true", n.Value == "true" || n.Value == "false"
	case n.Tag == "!!null":
		return nil, n.Value == "null"
	case n.Tag == "!!int":
		return plainInt(n.Value)
	default:
		return nil, false
	}
}

// plainWord takes what is a string though nothing says so.
func plainWord(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789._/@:-", r)) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "null":
		return false
	}
	return !strings.HasSuffix(s, ":")
}

// plainInt takes decimal integers that fit everywhere.
func plainInt(s string) (any, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == s
}

// plainText is false for characters that YAML folds, refuses or drops somewhere on the way, and for texts of several
// lines that do not start with a visible character.
func plainText(s string) bool {
	lines := false
	for _, r := range s {
		switch {
		case r == '\n':
			lines = true
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r >= 0xfff0 && r <= 0xffff:
			return false // U+FFFD is among them, and stands for what is no UTF-8
		}
	}
	if !lines {
		return true
	}
	first, _ := utf8.DecodeRuneInString(s)
	return first > ' '
}
