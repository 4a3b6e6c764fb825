package fleet

import (
	"strings"
	"testing"
)

// TestLineOfInvalidYAML: the YAML library names no line for a mistake in the first one.
func TestLineOfInvalidYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\tfoo: [\n": "app.yaml:1:1: error: a tab in the indentation (indent with spaces: YAML does not allow tabs)",
		"a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n": "app.yaml:2:1: error: a conflict marker of a merge: \"<<<<<<< HEAD\" (resolve the conflict, ",
		"a:\n  b 1\n  c: 2\n":  "app.yaml:2:1: error: a colon is missing: \"b 1\" (write KEY: VALUE)",
		"a: 1\nb 1\nc: 2\n":    "app.yaml:2:1: error: a colon is missing: \"b 1\"",
		"kind App\n":           "app.yaml:1:1: error: a colon is missing: \"kind App\"",
		"a:\n  b: 1\n\tc: 2\n": "app.yaml:3:1: error: a tab in the indentation",
		"a: b: c\n":            "app.yaml:1:1: error: mapping values are not allowed",
		"%YAML 1\n---\n":       "app.yaml:1:1: error: did not find expected",
		"x: 1\n\t- z\n":        "app.yaml:2:1: error: a tab in the indentation",
		"a: &x [*x]\n":         "app.yaml: error: a YAML alias is inside its own anchor",

		"a: *nothing\n": "app.yaml:1:1: error: unknown anchor 'nothing'",
		"a: 1 # *b\nb: [c,\n  *b,\n  d]\nc: *b\n": "app.yaml:3:1: error: unknown anchor 'b'",
		"a: &b 1\nc: *b\n---\ne: *b\n":            "app.yaml: error: a YAML alias is inside its own anchor, or its anchor is in another document",
		"# c\n---\nd: \"\n *b\"\ne: *b\n":         "app.yaml:5:1: error: unknown anchor 'b'",
	} {
		if got := decodeFile("app.yaml", []byte(text)).problems.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%q: the error is %s, want %s", text, got, want)
		}
	}
}
