package manifest

import (
	"bytes"
	"testing"
)

// checkInsert compares InsertNamespace with setting the namespace of the decoded object.
func checkInsert(t *testing.T, o Object, namespace string) (inserted bool) {
	t.Helper()
	text, err := Encode(o)
	if err != nil {
		t.Skip(err)
	}
	got, ok := InsertNamespace(text, namespace)
	if !ok {
		return false
	}
	o.SetNamespace(namespace)
	want, err := Encode(o)
	if err != nil {
		t.Fatalf("the error is %v\nthe result of InsertNamespace is\n%s", err, got)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the namespace %q is inserted as\n%s\nnot as\n%s", namespace, got, want)
	}
	return true
}

func TestInsertNamespace(t *testing.T) {
	t.Parallel()
	object := func(kind string, metadata map[string]any) Object {
		return Object{"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": map[string]any{"name": "x"}}
	}
	for _, c := range []struct {
		what      string
		o         Object
		namespace string
		inserts   bool
	}{
		{"plain", object("ConfigMap", map[string]any{"name": "a"}), "shop", true},
		{"more metadata", object("ConfigMap", map[string]any{
			"name": "a", "labels": map[string]any{"a": "b"},
			"annotations": map[string]any{"a": "b"},
		}), "shop", true},
		{"quoted name", object("ConfigMap", map[string]any{"name": "12"}), "shop", true},
		{"quoted namespace", object("ConfigMap", map[string]any{"name": "a"}), "on", true},
		{
			"empty namespace of its own", object("ConfigMap", map[string]any{"name": "a", "namespace": ""}), "shop",
			false,
		},
		{
			"null namespace of its own", object("ConfigMap", map[string]any{"name": "a", "namespace": nil}), "shop",
			false,
		},
		{"namespace of its own", object("ConfigMap", map[string]any{"name": "a", "namespace": "b"}), "shop", false},
		{"name of several lines", object("ConfigMap", map[string]any{"name": "a\nb"}), "shop", false},
		{"kind of several lines", object("a\nmetadata:", map[string]any{"name": "a"}), "shop", false},
		{"namespace of several lines", object("ConfigMap", map[string]any{"name": "a"}), "a\nb", false},
	} {
		if got := checkInsert(t, c.o, c.namespace); got != c.inserts {
			t.Errorf("%s: inserted: %t", c.what, got)
		}
	}
	for _, text := range []string{
		"", "apiVersion: v1\n", "apiVersion: v1\nkind: A\nmetadata:\n", "apiVersion: v1\nkind: A\nmetadata:\n  name: a",
		"kind: A\napiVersion: v1\nmetadata:\n  name: a\n",
		"apiVersion: v1\nkind: A\nmetadata:\n  labels: {}\n  name: a\n",
		"apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "apiVersion: v1\nkind: A\nmetadata:\n  name: |\n    a\n",
	} {
		if out, ok := InsertNamespace([]byte(text), "shop"); ok {
			t.Errorf("%q is not canonical, but a namespace is inserted: %q", text, out)
		}
	}
}

func FuzzInsertNamespace(f *testing.F) {
	f.Add("v1", "ConfigMap", "a", "shop", "labels", "x\ny\n")
	f.Add("apps/v1", "on", "1e3", "null", "namespace", "")
	f.Add("|", "metadata:", "|", "|", "name ", "\t")
	f.Fuzz(func(t *testing.T, version, kind, name, namespace, key, value string) {
		metadata := map[string]any{key: value}
		metadata["name"] = name
		checkInsert(t, Object{"apiVersion": version, "kind": kind, "metadata": metadata, key: value}, namespace)
	})
}
