package manifest

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	yaml "sigs.k8s.io/yaml/goyaml.v2"
)

// checkQuickly compares the result of quickly with that of the library, and reports whether there is one.
func checkQuickly(t *testing.T, in string) bool {
	t.Helper()
	const depth = 50
	got, ok := quickly([]byte(in), depth)
	if !ok {
		return false
	}
	dec := yaml.NewDecoder(strings.NewReader(in))
	var raw, more any
	if err := dec.Decode(&raw); err != nil {
		t.Fatalf("the library refuses what quickly reads: %v\n%q\n%#v", err, in, got)
	}
	want, err := plain(raw, depth)
	if err != nil || !reflect.DeepEqual(want, any(got)) {
		t.Fatalf("%q\nquickly: %#v\nlibrary: %#v, %v", in, got, want, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		t.Fatalf("%q has a second document: %v, %v", in, more, err)
	}
	return true
}

const quickExample = `# Source: web/templates/deployment.yaml
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web   
  labels: {app: web, "a/b": 'c'}
  annotations:
    # why
    note: a text
      of several lines

      and paragraphs
    script: |-
      #!/bin/sh
        indented  

      	echo "done – ü"
    kept: |+
      a

    single: 'of several
      lines ''quoted''

      # and paragraphs' # c
    double: "of several   
       \"lines\""
    "quoted key": "a \"quoted\" text\n"
    empty:
      {}
    null value:
spec:
  replicas: 2 # two
  quoted: "a" # b
  ratio: 0.5
  paused: false
  args: [--level, info, "x", 5, [], {}]
  containers:
  - name: main
    image: example.com/a:1.2.3-alpine
    resources:
      limits:
        cpu: 100m

    ports:
      - containerPort: 8080
      -
        containerPort: 8081
    command: # why
    - sh
    - -c
    - |
      exit 1
    -
    - # why
    - last
  - - nested
    - 'it''s'
`

func TestQuicklyReadsOrdinaryManifests(t *testing.T) {
	t.Parallel()
	if !checkQuickly(t, quickExample) {
		t.Error("the example is not read quickly")
	}
	for _, s := range texts() {
		text, err := Encode(wrap(map[string]any{"k": s, "list": []any{s, map[string]any{"in": s}}}))
		if err != nil {
			continue
		}
		checkQuickly(t, string(text))
	}
}

func TestQuicklyReadsDefinitions(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"---\na: b\n", "# c\n\n---  \na: b\n", "---\n# c\na: b\n", "---\na: |\n  ---\n", "a: 'b\n  c'\n", "a: 'b   \n     c'\n", "a: 'b\n\n\n  c' # d\n", "a: '\n  b'\n", "a: 'b\n  '\n", "a: 'b ''\n  '' c'\nd: e\n", "a: 'b\n  # c: - d'\n",
		"a:\n- 'b\n  c'\n- d\n", "a:\n  - 'b\n    c'\n", "a: \"b\n  c\"\n", "a: \"b \\\" \n\n  \\n c\"\n", "a: \"b\n  '\"\n", "a: '\"\n  b'\n", "a: 9223372036854775807\n", "a: -9223372036854775808\n", "a: 1234567890123456\n",
	} {
		if !checkQuickly(t, in) {
			t.Errorf("%q is not read quickly", in)
		}
	}
}

func TestQuicklyReadsChecksums(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"0a", "0f1", "0c6f72b1b937f873a3959f2793d593eaff11f23212da833edd1f70e99b4158f3", "01b", "0D0", "00b1", "4abd94711fe8ff53"} {
		if !checkQuickly(t, "a: "+word+"\n") {
			t.Errorf("%q is not read quickly", word)
		}
	}
	for _, number := range []string{"0x1f", "0XaB", "0b1", "0B1", "0o7", "0_x1f", "0_b1", "0_0a", "0e1", "01e5", "0x_a"} {
		if checkQuickly(t, "a: "+number+"\n") {
			t.Errorf("%q is read quickly", number)
		}
	}
	const after = "01aAbBdefxXoO_.-:"
	words := []string{"0"}
	for range 3 {
		for _, word := range words {
			for _, c := range after {
				words = append(words, word+string(c))
			}
		}
		slices.Sort(words)
		words = slices.Compact(words)
	}
	for _, word := range words {
		checkQuickly(t, "a: "+word+"\n")
	}
}

func TestQuicklyLeavesTheRestToTheLibrary(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", "a", "- a\n", "a: b", "a: &x b\n", "a: *x\n", "a: !!str 1\n", "a: >\n  b\n", "a: b # c\n  d\n", "a: \"b\"# c\n", "a: b: c\n", "a: b\na: c\n", "on: a\n", "1: a\n", "<<: a\n", "? a\n: b\n",
		"a: b\n---\n", "--- a: b\n", "---\n---\na: b\n", "--- # c\na: b\n", " ---\na: b\n", "%YAML 1.1\n---\na: b\n", "a: b\n--- \n", "a: b\n...\n", "%YAML 1.1\n", "a:\n\tb: c\n", "a: \u0085\n", "a: |\n\tb\n", "a: |\n b\n\tc\n", "a: b\tc\n", "a: b\n  c\td\n", "a: \ufeffb\n", "a: \xff\n", "a: \"\\x41\"\n", "a: \"b\\/c\"\n", "a: 'b\nc'\n", "a: 'b\n", "a: 'b\n  c\n", "a:\n  b: 'c\n d'\n", "a: \"b\\\n  c\"\n", "a: \"b\\ \n  c\"\n", "a: 'b\n  c' d\n", "a: 'b\n  c': d\n", "a: 'b\n  c'# d\n", "a: 'b\n\tc'\n", "a: 'b\n\t\n  c'\n", "- 'b\nc'\n", "a: 9223372036854775808\n", "a: {b: c,\n  d: e}\n", "a: [b, ]\n", "a: {b}\n", "a: 0644\n", "a: 1e3\n",
		"a: 2020-01-01\n", "a: 1_0\n", "a: +1\n", "a: .5\n", "a: -.inf\n", "a: |2\n  b\n", "a: |\nb: c\n", "a:\n  b\n", "a: -\n", "a: - b\n", "a: b\n  - c: d\n", "a:\n  b: c\n d: e\n", "a: \"b\" c\n", "  a: b\n",
		strings.Repeat("k", longestKey+1) + ": a\n", "a: " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\n", "a:\n" + strings.Repeat("- ", 60) + "b\n", "a: b\r\n",
	} {
		if checkQuickly(t, in) {
			t.Errorf("%q is read quickly", in)
		}
	}
}

func FuzzQuickly(f *testing.F) {
	f.Add(quickExample)
	for i, line := range strings.SplitAfter(quickExample, "\n") {
		f.Add(line)
		f.Add(fmt.Sprintf("k%d:\n  %s", i, line))
	}
	f.Fuzz(func(t *testing.T, in string) {
		if !checkQuickly(t, in) {
			checkQuickly(t, in+"\n")
		}
	})
}
