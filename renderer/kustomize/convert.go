package kustomize

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/resource"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// convert returns the objects that a reader of the output of `kustomize build` gets for a resource.
//
// `kustomize build` writes the library's nodes as YAML, reads them, writes JSON, reads it and writes YAML. For nodes
// with an unambiguous value, the result is that value, and convert takes it directly at a fifth of the cost. An object
// with any other node goes through all the steps.
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

// plainObject returns the object of a node with unambiguous values; false for any other node, and for an object that
// manifest.Decode refuses or divides.
func plainObject(n *yaml.Node) (manifest.Object, bool) {
	v, ok := plainValue(n)
	if !ok {
		return nil, false
	}
	m, ok := v.(map[string]any)
	o := manifest.Object(m)
	return o, ok && o.APIVersion() != "" && o.Kind() != "" && o.Name() != "" &&
		!strings.ContainsRune(o.Name()+o.Namespace(), '<') && !strings.HasSuffix(o.Kind(), "List")
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
		const longest = 500 // characters of a key; readers limit it
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
	case n.Tag == "" && n.Style == 0: // added by the library
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

// plainWord reports whether an untagged, unquoted text is a string in every version of YAML.
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

// plainInt reports whether a text is a decimal integer that every reader represents exactly.
func plainInt(s string) (any, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == s
}

// plainText reports whether every step keeps a text unchanged. It is false for characters that YAML folds, refuses or
// drops, and for texts of several lines that do not begin with a visible character.
func plainText(s string) bool {
	lines := false
	for _, r := range s {
		switch {
		case r == '\n':
			lines = true
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r >= 0xfff0 && r <= 0xffff:
			return false // including U+FFFD, which replaces invalid UTF-8
		}
	}
	if !lines {
		return true
	}
	first, _ := utf8.DecodeRuneInString(s)
	return first > ' '
}
