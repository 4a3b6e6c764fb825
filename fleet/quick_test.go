package fleet

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// agreeWithNodes decodes a text with and without a parser, and reports whether the parser was not needed.
func agreeWithNodes(t *testing.T, text []byte) bool {
	t.Helper()
	quick, ok := quickDocuments("x.yaml", text)
	if !ok {
		return false
	}
	want := decodeNodes("x.yaml", text)
	if len(want.problems) > 0 || want.lost || len(want.documents) != len(quick) {
		t.Fatalf("%q\nis read quickly, and the parser has %d documents and says\n%s", text, len(want.documents), want.problems.Error())
	}
	for i, d := range want.documents {
		got := quick[i]
		if !reflect.DeepEqual(got.value, d.value) || got.line != d.line || got.file != d.file {
			t.Fatalf("%q\nquickly: line %d, %+v\nparser:  line %d, %+v", text, got.line, got.value, d.line, d.value)
		}
		if !sameNodes(got.node(), d.node()) {
			t.Fatalf("%q: document %d has other nodes", text, i)
		}
	}
	return true
}

// sameNodes compares everything but comments, which belong to another node where a file is divided into documents.
func sameNodes(x, y *yaml.Node) bool {
	if x.Kind != y.Kind || x.Tag != y.Tag || x.Value != y.Value || x.Line != y.Line || x.Column != y.Column || len(x.Content) != len(y.Content) {
		return false
	}
	for i := range x.Content {
		if !sameNodes(x.Content[i], y.Content[i]) {
			return false
		}
	}
	return true
}

// declarations have ⟦⟧ around each value and key that the test replaces.
const declarations = base + `kind: Cluster # a comment
metadata:
  name: ⟦c⟧
  ⟦labels⟧:
    region: ⟦r1⟧
    ⟦zone⟧: a
spec:
  environment: ⟦dev⟧
  state: ⟦active⟧
  kubeVersion: ⟦1.33.2⟧
  apiVersions: [⟦v1⟧, ⟦apps/v1⟧]
  vars:
    free: ⟦text⟧
    ⟦other⟧: 1
    list:
    - ⟦1⟧
    - nested: {in: [⟦a⟧]}
===
` + base + `kind: App
metadata: {name: web}
spec:
  namespace: ⟦web⟧
  placement:
    matchExpressions:
    - {key: ⟦class⟧, operator: ⟦In⟧, values: [⟦edge⟧]}
    - key: class
      ⟦operator⟧: Exists
  unstable: ⟦keep⟧
  source:
    helm:
      chart: ⟦x⟧
      includeCRDs: ⟦true⟧
      versionFrom: ⟦{file: f, key: k}⟧
  environments:
    ⟦dev⟧: {placement: ⟦{}⟧, source: ⟦{manifests: {path: m}}⟧}
===
` + base + `kind: ClusterClass
metadata: {name: edge}
spec:
  parent: ⟦core⟧
  labels: ⟦{a: b}⟧
  vars: ⟦{a: b}⟧
===
` + base + `kind: Workspace
metadata:
    name: team
spec:
    clusters: ⟦{}⟧
    namespaces: ⟦[a, b]⟧
    quotas: {⟦objects⟧: ⟦100⟧}
    kinds:
        allow:
        - ⟦ConfigMap⟧
===
⟦# c⟧
---
# a comment
---
` + base + `kind: ClusterClass
metadata: {name: edge}
spec: {}
---
---
⟦⟧
`

// Declarations that are decoded without a parser are what the parser gives, for values and keys that YAML, its versions and this package
// read in different ways.
func TestQuickDocuments(t *testing.T) {
	t.Parallel()
	values := []string{
		"", "a", "active", "frozen", "keep", "In", "Exists", "text of words", "1", "-1", "0", "-0", "007", "08", "0.5", "1.", ".5", "1.50", "1.0", "1.2.3", "1.33", "12345678901234567890", "123456789012345",
		"1e3", "0x1F", "0b1", "0o17", "1_000", "+1", "-a", "-", "true", "True", "TRUE", "false", "yes", "No", "on", "OFF", "y", "N", "null", "~", "NULL", ".inf", ".nan", "./a", "..", "2020-01-01", "2020-01-01T00:00:00Z", "12:30:45",
		"a: b", "a:b", "a #b", "#b", "{}", "[]", "{a: b}", "{a: yes}", "[a, b]", "[a, on]", "{a: {b: 1.0}}", "{path: x}", "{helm: {chart: c}}", "{file: f, key: k}", "{matchLabels: {a: b}}", "{a: 1, a: 2}", "[a, ]", "{a}", `"q"`, `'yes'`, `"<<"`, `"1"`, `""`, "''",
		`"q\n"`, `"\u00e9"`, "|", "|-", ">", "&a b", "*a", "!!str 1", "é", "a\tb", "=", "<<", "v1", "100m", "10.0.0.0/8", "---", "...", "<<: {a: b}", base + "kind: ClusterClass\nmetadata: {name: x}\nspec: {vars: {a: 1}}", "a\r", "\x01", "# \x7f", "# é",
	}
	values = append(values, // as keys
		"labels", "x", "on", "1", "true", "null", "~", "<<", "=", "a.b/c", `"q"`, "'name'", `"a b"`, "é", "2020-01-01", "free", "region", "metadata", "objects", "targets", "? a", "&a b", "")
	read, decoded := 0, 0
	check := func(text string) {
		decoded++
		if agreeWithNodes(t, []byte(text)) {
			read++
		}
	}
	for text := range strings.SplitSeq(declarations, "===\n") {
		parts := strings.FieldsFunc(strings.ReplaceAll(text, "⟦⟧", "⟦ ⟧"), func(r rune) bool { return r == '⟦' || r == '⟧' })
		for i := 1; i < len(parts); i += 2 {
			for _, value := range values {
				check(strings.Join(parts[:i], "") + value + strings.Join(parts[i+1:], ""))
			}
		}
	}
	if read < decoded/20 {
		t.Errorf("only %d of %d texts are decoded without a parser: the test shows little", read, decoded)
	}
	t.Logf("%d of %d texts are decoded without a parser", read, decoded)
}

// What most fleets have is decoded without a parser.
func TestQuickDocumentsReadOrdinaryFiles(t *testing.T) {
	t.Parallel()
	for name, text := range bigFleet() {
		if strings.HasPrefix(name, "clusters/c-00") && !agreeWithNodes(t, []byte(text)) {
			t.Fatalf("%s is decoded by nodes:\n%s", name, text)
		}
	}
	const several = "# the clusters\n---\n" + base + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev, vars: {replicas: 3, debug: false}}\n---\n" + base +
		"kind: Workspace\nmetadata: {name: w}\nspec: {clusters: {}, namespaces: [w], quotas: {objects: 100}}\n"
	if !agreeWithNodes(t, []byte(several)) {
		t.Error("several documents are decoded by nodes")
	}
}
