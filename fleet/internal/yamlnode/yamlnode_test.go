package yamlnode

import (
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Value reads scalars as sigs.k8s.io/yaml does, and keeps the digits of integers.
func TestScalars(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"word", "Yes", "off", "n", "null", "~", `""`, `"12"`, "'on'", "$name", "a/b", "/", "1.2.3", "10.0.0.0/8",
		"2001-12-14", "1.5", "1e3", "0x", "-", "!!str 12", `!!int "7"`, "|\n  12\n",
	} {
		var want any
		if err := sigsyaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q: sigs.k8s.io/yaml: %v", text, err)
		}
		if got := decoded(t, text); !reflect.DeepEqual(HelmNumbers(got), want) {
			t.Errorf("%q is %v (%[2]T), want %v (%[3]T) as sigs.k8s.io/yaml reads it", text, got, want)
		}
	}
	for text, want := range map[string]any{
		"0": int64(0), "-7": int64(-7), "010": int64(8), "0x10": int64(16), "9007199254740993": int64(9007199254740993),
		"18446744073709551615": uint64(18446744073709551615),
	} {
		if got := decoded(t, text); got != want {
			t.Errorf("%q is %v (%[2]T), want %v (%[3]T)", text, got, want)
		}
	}
}

// Of duplicate keys, Members and Child take the last one, and Value refuses the mapping.
func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	n := parsed(t, "on: 1\na: {b: x}\na: {b: y}\n<<: {c: 2, a: 3}\n")
	var keys []string
	for _, m := range Members(n) {
		keys = append(keys, m.Key)
	}
	if want := []string{"true", "a", "c"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("members: got %q, want %q", keys, want)
	}
	if got := Text(n, "a", "b"); got != "y" {
		t.Errorf("a.b: got %q, want the last value y", got)
	}
	if v, err := Value(n); err == nil {
		t.Errorf("Value of a mapping with duplicate keys: got %v, want an error", v)
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	v, err := Value(parsed(t, text))
	if err != nil {
		t.Fatalf("%q: Value: %v", text, err)
	}
	return v
}

func parsed(t *testing.T, text string) *yaml.Node {
	t.Helper()
	docs := Documents([]byte(text))
	if len(docs) != 1 {
		t.Fatalf("%q has %d documents, want 1", text, len(docs))
	}
	return docs[0]
}
