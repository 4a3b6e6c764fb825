package fleet

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// fileBudget limits every YAML file that this package reads.
func fileBudget() manifest.Budget {
	return manifest.Budget{Bytes: maxFile, Nodes: 500_000, Expanded: 4 * maxFile, Depth: 100, Aliases: 1000}
}

// freeValue decodes a node of any type as Kubernetes and Helm do: it reads YAML 1.1 scalars, follows aliases and
// merges merge keys. Integers become int64 or uint64; helmNumbers converts them to Helm's float64. The text must have
// passed fileBudget.
func freeValue(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return freeValue(n.Alias)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, err := freeValue(item)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case yaml.MappingNode:
		return freeMapping(n)
	case yaml.DocumentNode:
		if len(n.Content) > 0 {
			return freeValue(n.Content[0])
		}
	case yaml.ScalarNode:
		return freeScalar(n)
	}
	return nil, nil
}

func freeMapping(n *yaml.Node) (any, error) {
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
		v, err := freeValue(value)
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

// mergeKey adds the keys of a `<<` value that the mapping does not set.
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
	v, err := freeValue(n)
	if err != nil {
		return err
	}
	below, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("line %d: << needs a mapping", n.Line)
	}
	for k, item := range below {
		if _, set := out[k]; !set {
			out[k] = item
		}
	}
	return nil
}

func freeScalar(n *yaml.Node) (any, error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&quoted != 0 && n.Style&yaml.TaggedStyle == 0 {
		return n.Value, nil
	}
	if n.Style&yaml.TaggedStyle == 0 && plainText(n.Value) {
		return n.Value, nil
	}
	if n.Tag == "!!int" && n.Style&yaml.TaggedStyle == 0 {
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil && (n.Value == "0" || n.Value[0] != '0') {
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

// wholeNumber keeps digits that a float64 would lose.
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

// plainText is a fast check that every version of YAML reads a plain scalar as a string: most scalars that begin with
// a letter, addresses and paths.
func plainText(s string) bool {
	if strings.Contains(s, "/") || strings.Count(s, ".") > 1 {
		return true // no number or time contains these
	}
	if s == "" || (s[0] < 'a' || s[0] > 'z') && (s[0] < 'A' || s[0] > 'Z') && s[0] != '/' && s[0] != '$' {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// helmNumbers converts every number to float64, as Helm reads values files.
func helmNumbers(v any) any {
	switch x := v.(type) {
	case int64:
		return float64(x)
	case uint64:
		return float64(x)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			out[k] = helmNumbers(item)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, item := range x {
			out[i] = helmNumbers(item)
		}
		return out
	default:
		return v
	}
}
