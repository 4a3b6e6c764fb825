package fleet

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// ofGo matches what only a Go programmer understands: types, functions of packages, and messages of decoders.
var ofGo = regexp.MustCompile(`\b(fleet|yaml|json|strconv|reflect|time|config|map|yamlnode)\.[A-Z]\w*|strconv\.|cannot unmarshal|` +
	`unmarshal errors|map\[string\]|interface ?\{|\[\]string|(^|[^.])(json|yaml): |%!|!!(str|int|map|seq)|<nil>`)

// No mistake in a file of the fleet is reported with a word of Go, and each one is reported.
func TestMistakesAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	sources := []map[string]string{fleettest.Small(), fleettest.Everyday(), fleettest.Foreign(), tenants(nil)}
	tried, cache := 0, NewCache()
	for i, files := range sources {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if !strings.HasSuffix(name, ".yaml") || strings.HasPrefix(files[name], fleettest.LinkTo) {
				continue
			}
			for what, text := range mutations(t, files[name]) {
				changed := maps.Clone(files)
				changed[name] = text
				tried++
				f, problems := Load(t.Context(), fleettest.NewTree(changed), cache)
				found := fmt.Sprint([]Problem(problems))
				if f != nil {
					for _, target := range f.Targets() {
						if _, err := f.Values(target, ""); err != nil {
							found += "\n" + err.Error()
						}
					}
				}
				if word := ofGo.FindString(found); word != "" {
					t.Errorf("fleet %d, %s, %s: %q is in the message:\n%s", i, name, what, word, found)
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("%d mistakes were tried, want at least 1000", tried)
	}
}

// mutations returns texts with one mistake each: other values for each node, other keys, keys twice.
func mutations(t *testing.T, text string) map[string]string {
	t.Helper()
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
			t.Fatal(err)
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
