// Package yamlnode reads YAML that was parsed into nodes, so that every value keeps its position. Value decodes a node,
// Members lists a mapping, and Child, Text and Items find a field by its path.
//
// A text must have passed Budget before it is parsed into nodes. Otherwise an alias may stand for more than memory can
// hold, or contain itself.
//
// The functions differ in how strict they are. Value refuses a mapping with duplicate keys. Members and Child read
// files that Helm or another tool accepts, and take the last of duplicate keys, as Helm does.
package yamlnode

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// MaxFile is the greatest size of a file of a fleet, in bytes.
const MaxFile = 4 << 20

// Budget returns the limits of every YAML file of a fleet.
func Budget() manifest.Budget {
	return manifest.Budget{Bytes: MaxFile, Nodes: 500_000, Expanded: 4 * MaxFile, Depth: 100, Aliases: 1000}
}

// Value decodes a node as Kubernetes and Helm do: it reads scalars by YAML 1.1, follows aliases and applies merge keys.
// Integers become int64 or uint64; HelmNumbers converts them to Helm's float64. Keys are the text of the file: `on`
// stays `on`.
func Value(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return Value(n.Alias)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, err := Value(item)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case yaml.MappingNode:
		return mapping(n)
	case yaml.DocumentNode:
		if len(n.Content) > 0 {
			return Value(n.Content[0])
		}
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, nil
}

func mapping(n *yaml.Node) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key must be a string", key.Line)
		}
		if key.Tag == "!!merge" {
			continue
		}
		if _, twice := out[key.Value]; twice {
			return nil, fmt.Errorf("line %d: the key %s is there twice", key.Line, key.Value)
		}
		v, err := Value(value)
		if err != nil {
			return nil, err
		}
		out[key.Value] = v
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		if err := mergeKey(out, n.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mergeKey adds the keys of n, the value of `<<`, that out does not have.
func mergeKey(out map[string]any, n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			if err := mergeKey(out, item); err != nil {
				return err
			}
		}
		return nil
	}
	v, err := Value(n)
	if err != nil {
		return err
	}
	merged, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("line %d: << needs a mapping", n.Line)
	}
	for k, item := range merged {
		if _, set := out[k]; !set {
			out[k] = item
		}
	}
	return nil
}

// scalar decodes a scalar by YAML 1.1. Only sigs.k8s.io/yaml knows all its forms, and it reads texts, not nodes; the
// cases before that call are those that need no library.
func scalar(n *yaml.Node) (any, error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if explicitTag := n.Style&yaml.TaggedStyle != 0; !explicitTag {
		if n.Style&quoted != 0 || plainText(n.Value) {
			return n.Value, nil
		}
		octal := n.Value != "0" && strings.HasPrefix(n.Value, "0")
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil && n.Tag == "!!int" && !octal {
			return i, nil
		}
	}
	text, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: n.Tag, Value: n.Value, Style: n.Style})
	if err != nil {
		return nil, err
	}
	var v any
	if err := sigsyaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	if f, ok := v.(float64); ok && f == math.Trunc(f) && n.Tag == "!!int" {
		return wholeNumber(n.Value, f), nil
	}
	return v, nil
}

// wholeNumber returns the integer of a scalar with all its digits: the library has rounded it to the float64 f. It
// returns f if the integer does not fit into 64 bits.
func wholeNumber(text string, f float64) any {
	if i, err := strconv.ParseInt(text, 0, 64); err == nil && float64(i) == f {
		return i
	}
	if u, err := strconv.ParseUint(text, 0, 64); err == nil && float64(u) == f {
		return u
	}
	if math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return f
}

// plainText is a fast check that every version of YAML reads a plain scalar as a string, as it does with most scalars
// that begin with a letter, with addresses and with paths. It may return false for a string, and returns true for
// nothing else.
func plainText(s string) bool {
	if strings.Contains(s, "/") || strings.Count(s, ".") > 1 {
		return true // no number and no time has a slash or two dots
	}
	if s == "" || (s[0] < 'a' || s[0] > 'z') && (s[0] < 'A' || s[0] > 'Z') && s[0] != '$' {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// HelmNumbers converts every number to float64, as Helm reads values files.
func HelmNumbers(v any) any {
	switch x := v.(type) {
	case int64:
		return float64(x)
	case uint64:
		return float64(x)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			out[k] = HelmNumbers(item)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, item := range x {
			out[i] = HelmNumbers(item)
		}
		return out
	default:
		return v
	}
}

// Member is a key of a mapping, as Helm reads it, with its value.
type Member struct {
	Key   string
	Value *yaml.Node
}

// Members returns the keys and values of a mapping, in the order of the file, then those of merge keys that the mapping
// does not set. Of duplicate keys, the last value counts.
func Members(n *yaml.Node) []Member {
	var out []Member
	index := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		name := keyText(key)
		if at, twice := index[name]; twice {
			out[at].Value = value
			continue
		}
		index[name] = len(out)
		out = append(out, Member{name, value})
	}
	for i := 0; i < len(merged); i++ {
		m := merged[i]
		if m.Kind == yaml.AliasNode {
			m = m.Alias
		}
		if m.Kind == yaml.SequenceNode {
			merged = append(merged, m.Content...)
			continue
		}
		for _, inner := range Members(m) {
			if _, set := index[inner.Key]; !set {
				index[inner.Key] = len(out)
				out = append(out, inner)
			}
		}
	}
	return out
}

// keyText returns a key as Helm reads it: the text of its YAML 1.1 value, such as `true` for `on`.
func keyText(n *yaml.Node) string {
	v, err := scalar(n)
	if err != nil {
		return n.Value
	}
	switch x := v.(type) {
	case bool:
		return strconv.FormatBool(x)
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	default:
		return n.Value
	}
}

// Child returns the value at a path of keys of mappings and indexes of lists; nil if there is none. It follows aliases
// on the way and ignores merge keys. Of duplicate keys, the last one counts.
func Child(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n == nil || n.Kind != yaml.MappingNode && n.Kind != yaml.SequenceNode {
			return nil
		}
		if n.Kind == yaml.SequenceNode {
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n.Content) {
				return nil
			}
			n = n.Content[i]
			continue
		}
		var next *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

// Documents parses a stream of documents. It returns those before the first mistake, and none if the text exceeds
// Budget: whoever owns the file reports both.
func Documents(data []byte) []*yaml.Node {
	if manifest.Check(data, Budget()) != nil {
		return nil
	}
	var out []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if dec.Decode(&document) != nil { // the end, or a mistake
			return out
		}
		if len(document.Content) == 1 {
			out = append(out, document.Content[0])
		}
	}
}

// Text returns the text of the scalar at a path; "" if there is none.
func Text(n *yaml.Node, at ...string) string {
	if found := Child(n, at...); found != nil && found.Kind == yaml.ScalarNode {
		return found.Value
	}
	return ""
}

// Items returns the entries of a list; nil if n is no list.
func Items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}
