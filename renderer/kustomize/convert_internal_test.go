package kustomize

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The direct conversion equals the conversion through the library's own YAML.
func FuzzConvert(f *testing.F) {
	for _, value := range []string{
		"on", "\"on\"", "0644", "1e3", "12:30", "9223372036854775807", "-0", "+1", "~", "null", "", "yes", "a: b",
		"|\n    a\n      b\n    c\n", "|+\n    a\n\n",
		">-\n    folded\n    text\n", "\"\\r\\n\"", "\"a\\tb\"", "\"\\u0085\"", "\"\\ufeff\"", "\" x \"", "'it''s'",
		"&a [1, *a]", "{a: [b, {c: d}], e: {}}", "!!str 1",
		"\"\\n a\"", "\"a\\n\\tb\\n\"", "\"a\\t\\n\"", "\"a \\nb\\n \"", "<<", "\"<<\": x", "=", "2020-01-01", "0.5",
		"!!binary AAEC", "\"# no comment\"", "- a\n  - b", "? x\n  : y",
		"\"a\\n# b\\n\"", "\"---\\na\"", "\"...\"", "\"a\\n\\n\\n\"", "\"long " + long + "\"",
	} {
		f.Add(value)
	}
	budget := manifest.Budget{Bytes: 1 << 16, Nodes: 10_000, Depth: 50, Aliases: 100}
	f.Fuzz(func(t *testing.T, value string) {
		text := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\nvalue: " + value + "\n")
		if manifest.Check(text, budget) != nil {
			return
		}
		resources, err := provider.NewDepProvider().GetResourceFactory().SliceFromBytes(text)
		if err != nil {
			return
		}
		for _, r := range resources {
			sameBothWays(t, r, budget)
		}
	})
}

// Does the same with nodes as the library creates them.
func FuzzConvertNodes(f *testing.F) {
	for _, value := range []string{
		"on", "0644", "a: b", "a:b", "a:", "a\n  b\n", "\na", "a\r\nb", " a", "a ", "a\t",
		"\ta", "a\n\tb", "a \nb", "a\n \nb\n", "True", "n", "~", "-", "?", "#a", "a #b", "é", long,
	} {
		for kind := range uint8(8) {
			f.Add(value, kind)
		}
	}
	budget := manifest.Budget{Bytes: 1 << 16, Nodes: 10_000, Depth: 50, Aliases: 100}
	f.Fuzz(func(t *testing.T, value string, kind uint8) {
		const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nvalue:\n- a\n- {a: b}\n- {c: d}\n"
		resources, err := provider.NewDepProvider().GetResourceFactory().SliceFromBytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		n := yaml.Node{Kind: yaml.ScalarNode, Value: value, Tag: "!!str"}
		if kind&1 != 0 {
			n.Tag = ""
		}
		n.Style = []yaml.Style{0, yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle}[kind>>1&3]
		list := resources[0].YNode().Content[7].Content
		list[0] = &n
		list[1].Content[1] = &n // in flow style
		list[2].Content[1] = &n
		list[2].Style = 0
		if key := n; len(value) < 100 {
			list[2].Content[0] = &key
		}
		sameBothWays(t, resources[0], budget)
	})
}

func sameBothWays(t *testing.T, r *resource.Resource, budget manifest.Budget) {
	t.Helper()
	short, ok := plainObject(r.YNode())
	if !ok {
		return
	}
	yaml, err := r.AsYAML()
	if err != nil {
		t.Fatalf("%v: the long way fails: %v", short, err)
	}
	whole, err := manifest.Decode(yaml, budget)
	if err != nil || len(whole) != 1 {
		t.Fatalf("%v: the long way gives %d objects: %v", short, len(whole), err)
	}
	if diff := cmp.Diff(whole[0], short); diff != "" {
		t.Fatalf("long way (-), short way (+):\n%s", diff)
	}
}

const long = "words words words words words words words words words words words words  words words words words words words words words"

// The direct conversion handles the common kinds of nodes.
func TestConvertIsDirectForCommonNodes(t *testing.T) {
	for _, value := range []string{
		"text", "\"on\"", "on", "12", "true", "null", "[a, {b: c}]", "|\n  a\n    b\n",
		"\"0644\"", "é ☃ 🎉",
	} {
		resources, err := provider.NewDepProvider().GetResourceFactory().SliceFromBytes([]byte("apiVersion: v1\nkind: A\nmetadata: {name: a}\nvalue: " + value + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := plainObject(resources[0].YNode()); !ok {
			t.Errorf("%s is not converted directly", value)
		}
	}
}
