package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestDecodeReadsAsKubernetesDoes(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	for in, want := range map[string]any{
		"v: on":                      true,
		"v: 0644":                    int64(420),
		"v: 1e3":                     1000.0,
		"v: 12:30":                   "12:30",
		"v: 9007199254740993":        int64(9007199254740993),
		"v: 18446744073709551615":    uint64(18446744073709551615),
		"v: 2020-01-01":              "2020-01-01",
		"v: {1: a, true: b, 1.5: c}": map[string]any{"1": "a", "true": "b", "1.5": "c"},
		"v: &a {b: c}\nw: *a":        map[string]any{"b": "c"},
		"v: ~":                       nil,
	} {
		objects, err := Decode([]byte(head+in), DefaultBudget())
		if err != nil {
			t.Errorf("%s: the error is %v", in, err)
			continue
		}
		if got := objects[0]["v"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the result is %#v, want %#v", in, got, want)
		}
	}
}

func TestValueKeepsTypes(t *testing.T) {
	got, err := Value([]byte("\xef\xbb\xbf{a: 3, b: 0.5, c: '3', d: 18446744073709551615, e: on, f: 0644, 1: [2]}\n---\nx: y\n"), DefaultBudget())
	want := map[string]any{
		"a": int64(3), "b": 0.5, "c": "3", "d": uint64(18446744073709551615), "e": true,
		"f": int64(420), "1": []any{int64(2)},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the result of Value is %#v, the error is %v, want %#v", got, err, want)
	}
	if got, err := Value([]byte("# nothing\n"), DefaultBudget()); err != nil || got != nil {
		t.Errorf("an empty text: got %v, %v, want nil", got, err)
	}
	if _, err := Value([]byte("a: ["), DefaultBudget()); err == nil {
		t.Error("a text that is no YAML is no error")
	}
	if budget, ok := errors.AsType[*BudgetError](func() error {
		_, err := Value([]byte(strings.Repeat("[", 300)+strings.Repeat("]", 300)), DefaultBudget())
		return err
	}()); !ok {
		t.Errorf("300 levels of nesting: got %v, want an error of the budget", budget)
	}
}

func TestDecodeSplitsStreams(t *testing.T) {
	doc := func(n int) string { return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: n%d}\n", n) }
	for name, in := range map[string]string{
		"separators":   doc(1) + "---\n" + doc(2) + "---\n",
		"comments":     "# a\n---\n# b\n---\n" + doc(1) + "--- # c\n" + doc(2) + "...\n",
		"windows":      strings.ReplaceAll(doc(1)+"---\n"+doc(2), "\n", "\r\n"),
		"mark":         "\xef\xbb\xbf" + doc(1) + "---\n" + doc(2),
		"empty object": doc(1) + "---\n{}\n---\n" + doc(2),
	} {
		objects, err := Decode([]byte(in), DefaultBudget())
		if err != nil || len(objects) != 2 || objects[0].Name() != "n1" || objects[1].Name() != "n2" {
			t.Errorf("%s: the objects are %v, the error is %v", name, objects, err)
		}
	}
}

func TestDecodeTakesListsApart(t *testing.T) {
	in := `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMapList
  items:
  - metadata: {name: a}
- apiVersion: v1
  kind: Secret
  metadata: {name: b}
`
	objects, err := Decode([]byte(in), DefaultBudget())
	if err != nil || len(objects) != 2 {
		t.Fatalf("the objects are %v, the error is %v", objects, err)
	}
	if got := objects[0].Identity(); got != (Identity{Kind: "ConfigMap", Name: "a"}) {
		t.Errorf("the result of Identity is %v", got)
	}
	for _, in := range []string{
		"{apiVersion: v1, kind: List, metadata: {name: all}, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}",
		"{apiVersion: v1, kind: ConfigMapList, metadata: {name: all}, items: [{metadata: {name: a}}]}",
		"{apiVersion: apps/v1, kind: DeploymentList, metadata: {name: all}, items: [{metadata: {name: a}}]}",
	} {
		if objects, err := Decode([]byte(in), DefaultBudget()); err != nil || len(objects) != 1 ||
			objects[0].Name() != "a" {
			t.Errorf("a list with a name: got %v, %v, want its item a of\n%s", objects, err, in)
		}
	}
	named := "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [1]\n"
	if objects, err := Decode([]byte(named), DefaultBudget()); err != nil || len(objects) != 1 {
		t.Errorf("a kind of one's own that ends in List: %v %v", objects, err)
	}
}

func TestDecodeSaysWhatIsMissing(t *testing.T) {
	for in, want := range map[string]string{
		"kind: A\nmetadata: {name: x}":                            "document 1: an object needs apiVersion",
		"apiVersion: v1\nmetadata: {name: x}":                     "needs kind",
		"apiVersion: v1\nkind: A":                                 "A needs metadata.name",
		"apiVersion: v1\nkind: A\nmetadata: {name: 12}":           "as a string",
		"apiVersion: v1\nkind: Job\nmetadata: {generateName: x-}": "generateName",
		"---\na: b: c":                           "document 1",
		"- a":                                    "must be a mapping, not a list",
		"hello":                                  `not "hello"`,
		"apiVersion: v1\nkind: List\nitems: [1]": "items[0]",
		"apiVersion: v1\nkind: List\nitems: {a: b}":                                             "items of the List must be a list, not a mapping",
		"apiVersion: v1\nkind: List\nresources: []":                                             `has the key "resources"`,
		"apiVersion: v1\nkind: A\nmetadata:\n  name:":                                           "A needs metadata.name",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n  metadata: {name: }": "items[0]: A needs metadata.name",
		"apiVersion: v1\nkind: A\nmetadata: {name: x}\nv: .nan":                                 "cannot represent",
	} {
		_, err := Decode([]byte(in), DefaultBudget())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", in, err, want)
		}
	}
}

func TestBudget(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1,
			c-1, c-1, c-1, c-1)
	}
	deepMaps := ""
	for i := range 300 {
		deepMaps += strings.Repeat(" ", i) + "a:\n"
	}
	for name, in := range map[string]string{
		"alias bomb":     bomb,
		"flow depth":     strings.Repeat("[", 300) + strings.Repeat("]", 300),
		"dashes":         strings.Repeat("- ", 300) + "a",
		"indentation":    deepMaps,
		"own anchor":     "a: &a [*a]",
		"many aliases":   "a: &a 1\nb: [" + strings.Repeat("*a,", 20_000) + "]",
		"too many bytes": strings.Repeat("#", 33<<20),
	} {
		var beyond *BudgetError
		if err := Check([]byte(in), DefaultBudget()); !errors.As(err, &beyond) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	wide := strings.Repeat(" ", 300) + "a: " + strings.Repeat("{}", 1) + "\nb: [" + strings.Repeat("[]", 1) + "]"
	if err := Check([]byte(wide), DefaultBudget()); err != nil {
		t.Errorf("wide but not deep: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: A\nmetadata: {name: x}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("- - - - a"))
	f.Fuzz(func(t *testing.T, in []byte) {
		budget := Budget{Bytes: 1 << 16, Nodes: 10_000, Depth: 50, Aliases: 100}
		objects, err := Decode(in, budget)
		if err != nil {
			return
		}
		for _, o := range objects {
			out, err := Encode(o)
			if err != nil {
				continue // bytes that are no UTF-8
			}
			back, err := Decode(out, DefaultBudget())
			if err != nil || len(back) != 1 || !reflect.DeepEqual(back[0], o) {
				t.Fatalf("%#v\nencoded\n%s\ncame back as\n%#v (%v)", o, out, back, err)
			}
		}
	})
}

func TestNamespacesMustBeStrings(t *testing.T) {
	for namespace, want := range map[string]string{
		"y": "true", "5": "5", "[a]": "a list", "{a: b}": "a mapping",
		"1.5": "1.5", "false": "false",
	} {
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: " + namespace + "}\n"
		_, err := Decode([]byte(text), DefaultBudget())
		if err == nil || !strings.Contains(err.Error(), "ConfigMap x") ||
			!strings.Contains(err.Error(), "metadata.namespace") || !strings.Contains(err.Error(), want) {
			t.Errorf("namespace %s: %v", namespace, err)
		}
	}
	for _, namespace := range []string{`"5"`, "'y'", "null", "~", "prod"} {
		if _, err := Decode([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: "+namespace+"}\n"),
			DefaultBudget()); err != nil {
			t.Errorf("namespace %s: %v", namespace, err)
		}
	}
}

// A closing bracket inside quotes or a comment closes nothing.
func TestDepthIgnoresBracketsInText(t *testing.T) {
	const levels = 300
	for name, unit := range map[string]string{
		"double": `["]",`, "single": `[']',`, "comment": "[ # ]\n",
		"map": `{"}": `, "plain": "[",
	} {
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\nv: " + strings.Repeat(unit, levels)
		closer := "]"
		if name == "map" {
			closer, text = "}", text+"1"
		}
		text += strings.Repeat(closer, levels) + "\n"
		for reader, read := range map[string]func() error{
			"Decode": func() error { _, err := Decode([]byte(text), DefaultBudget()); return err },
			"Check":  func() error { return Check([]byte(text), DefaultBudget()) },
		} {
			if budget, ok := errors.AsType[*BudgetError](read()); !ok || budget.What != "levels of nesting" {
				t.Errorf("%s: %s gives %v", name, reader, read())
			}
		}
	}
}

// A few aliases of a large scalar are few nodes but many bytes.
func TestAliasesOfLargeTextAreBounded(t *testing.T) {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\na: &a " + strings.Repeat("x", 1<<20) + "\nb: [" +
		strings.Repeat("*a,", 2000) + "]\n"
	_, err := Decode([]byte(text), DefaultBudget())
	if budget, ok := errors.AsType[*BudgetError](err); !ok || budget.What != "bytes of expanded aliases" {
		t.Errorf("the error is %v", err)
	}
}

func TestEncodeWithin(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	list := make([]any, 2000)
	for i := range list {
		list[i] = long
	}
	o := Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": list}
	got, err := EncodeWithin(o, 4<<20)
	if budget, ok := errors.AsType[*BudgetError](err); !ok || budget.Have > 6<<20 || got != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	o["data"] = list[:2]
	if got, err := EncodeWithin(o, 4<<20); err != nil || len(got) < 2<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestCheckParsesFewTexts has a text that could contain aliases, and does not.
func TestCheckParsesFewTexts(t *testing.T) {
	for text, want := range map[string]bool{
		"rule: a && b * c\n": false, "rule: a&b\nother: c*d\n": false, "rule: '&a'\nother: b\n": false,
		"glob: /*.yaml\nand: a && b\n": false,
		"a: &x b\nc: *x\n":             true, "- &x b\n- *x": true, "[&x b,*x]": true, "{a: &x b,\"c\":*x}": true,
		"a: && &1 b\nc: **1 *1": true, "&x a: b\n*x : c": true,
	} {
		if got := canExpand([]byte(text)); got != want {
			t.Errorf("canExpand of %q: got %v, want %v", text, got, want)
		}
	}
}

// TestCanExpandSeesEveryAlias puts random texts together, in which a parser may find an alias.
func TestCanExpandSeesEveryAlias(t *testing.T) {
	parts := []string{
		"a", "b", "1", " ", " ", "\n", "\n", "  ", "\t", ":", ": ", "- ", "-", "?", "? ", "[", "]", "{",
		"}", ",", ", ", "&a", "*a", "*a", "*a", "*a", "&1", "*1", "&", "*", "&-", "*-", "&_", "*_", "'", "\"", "!",
		"!!str ", "!a ", "|\n", ">\n", "#", " #", "---\n", "...\n", "\u0085", "\u2028", "\ufeff", "%a\n", "\r", "~",
	}
	found := 0
	for i := range 60_000 {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		text := "x: &a 1\n"
		if r.IntN(2) == 0 {
			text = "- &a 1\n- "
		}
		for range 1 + r.IntN(8) {
			text += parts[r.IntN(len(parts))]
		}
		for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
			var doc yaml.Node
			if dec.Decode(&doc) != nil {
				break
			}
			if hasAlias(&doc) {
				found++
				if !canExpand([]byte(text)) {
					t.Errorf("%q has an alias", text)
				}
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d texts have an alias: the test shows little", found)
	}
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}
