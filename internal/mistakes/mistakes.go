// Package mistakes makes the mistakes that people make in YAML files, for tests of what readers of such files say about
// them.
package mistakes

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// ofGo matches what only a Go programmer understands: types, functions of packages, and messages of decoders.
var ofGo = regexp.MustCompile(`\b(fleet|yaml|json|strconv|reflect|time|config|map|yamlnode)\.[A-Z]\w*|strconv\.|cannot unmarshal|` +
	`unmarshal errors|map\[string\]|interface ?\{|\[\]string|(^|[^.])(json|yaml): |%!|!!(str|int|map|seq)|<nil>`)

// WordOfGo returns the first word of a message that only a Go programmer understands, "" if there is none.
func WordOfGo(message string) string { return ofGo.FindString(message) }

// Of returns variants of a YAML text with one mistake each, by what is wrong: other values for each node, other keys, keys twice.
func Of(tb testing.TB, text string) map[string]string {
	tb.Helper()
	out := map[string]string{
		"conflict": "<<<<<<< HEAD\n" + text + "=======\n" + text + ">>>>>>> other\n",
		"tab":      strings.Replace(text, "\n", "\n\t", 1), "no colon": strings.Replace(text, ": ", " ", 1),
		"cut": text[:len(text)/2], "binary": "\x00\x01" + text, "twice": text + text,
	}
	wrong := map[string]*yaml.Node{}
	for name, value := range map[string]string{
		"text": "some text", "number": "-7", "huge": "99999999999999999999999999", "fraction": "1.5", "null": "null",
		"list": "[a, [1]]", "map": "{a: {b: [c]}}", "truth": "true", "empty": `""`, "date": "2026-01-01",
		"wild": `"* ? [ ${x"`, "bytes": "!!binary aGk=",
	} {
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(value), &node); err != nil {
			tb.Fatal(err)
		}
		wrong[name] = node.Content[0]
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	for document := 0; ; document++ {
		var root yaml.Node
		if dec.Decode(&root) != nil {
			return out
		}
		write := func(what string) {
			var b bytes.Buffer
			enc := yaml.NewEncoder(&b)
			if err := enc.Encode(&root); err != nil {
				return // the mistake cannot be written
			}
			out[fmt.Sprintf("document %d, %s", document, what)] = b.String()
		}
		var walk func(n *yaml.Node, at string)
		walk = func(n *yaml.Node, at string) {
			good := *n
			for name, bad := range wrong {
				*n = *bad
				write(at + " is a " + name)
			}
			*n = good
			for i := 0; i < len(n.Content); i++ {
				if n.Kind == yaml.MappingNode && i%2 == 0 {
					key := n.Content[i].Value
					n.Content[i].Value += "x"
					write(at + "." + key + " is misspelled")
					n.Content[i].Value = key
					n.Content = append(n.Content, n.Content[i], n.Content[i+1])
					write(at + "." + key + " is there twice")
					n.Content = n.Content[:len(n.Content)-2]
					continue
				}
				walk(n.Content[i], fmt.Sprintf("%s.%d", at, i))
			}
		}
		walk(&root, "")
	}
}
