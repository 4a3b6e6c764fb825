package yamledit

import (
	"strings"
	"testing"
)

// An addition changes one line of sluice.yaml: other documents, comments, blank lines and the indentation stay.
func TestAddition(t *testing.T) {
	t.Parallel()
	const repository = "# ours\nkind: Repository\nspec: {import: [{flux: {}}],   layers: [x]}\n"
	for name, c := range map[string]struct {
		before, at, text, after string
	}{
		"another document before": {
			repository + "---\nkind: Fleet\n\nspec:\n    layers: [region]  # by region\n",
			"layers", "cluster", repository +
				"---\nkind: Fleet\n\nspec:\n    layers: [region, cluster]  # by region\n",
		},
		"another document after": {
			"kind: Fleet\nspec:\n    layers:\n      - region # r\n\n# end\n---\n" + repository,
			"layers", "cluster", "kind: Fleet\nspec:\n    layers:\n      - region # r\n      - cluster\n\n# end\n---\n" + repository,
		},
		"missing list": {"kind: Fleet\nspec:\n  import:\n  - flux: {clusters: {a: {path: a}}} # who\n\n  - flux:\n      clusters:\n        b: {path: b}\n\n  sync: flux\n", "import/1/exclude", "web", "kind: Fleet\nspec:\n  import:\n  - flux: {clusters: {a: {path: a}}} # who\n\n  - flux:\n      clusters:\n        b: {path: b}\n    exclude: [web]\n\n  sync: flux\n"},
		"missing mapping": {
			"kind: Fleet\nspec:\n  sync: flux", "files/apps", "apps/web/app.yaml",
			"kind: Fleet\nspec:\n  sync: flux\n  files: {apps: [apps/web/app.yaml]}\n",
		},
		"in flow": {
			"kind: Fleet\r\nspec: {sync: \"}\"}\r\n", "files/apps", "a",
			"kind: Fleet\r\nspec: {sync: \"}\", files: {apps: [a]}}\r\n",
		},
		"empty list": {
			"kind: Fleet\nspec:\n  layers: []\n", "layers", "cluster",
			"kind: Fleet\nspec:\n  layers: [cluster]\n",
		},
		"null": {
			"kind: Fleet\nspec:\n  layers:\n", "layers", "cluster",
			"kind: Fleet\nspec:\n  layers:\n    - cluster\n",
		},
		"a folded value": {
			"kind: Fleet\nspec:\n  # first\n  b: 1\n\n  a: >\n    x\n    y\n", "layers", "l",
			"kind: Fleet\nspec:\n  # first\n  layers: [l]\n  b: 1\n\n  a: >\n    x\n    y\n",
		},
		"a folded value in a list": {
			"kind: Fleet\nspec:\n  layers:\n    - >\n      x\n      y\n", "layers", "l",
			"kind: Fleet\nspec:\n  layers:\n    - >\n      x y\n\n    - l\n",
		},
		"a number as a name": {
			"kind: Fleet\nspec:\n  layers: [é, a] # ü\n", "layers", "12",
			"kind: Fleet\nspec:\n  layers: [é, a, \"12\"] # ü\n",
		},
		"a value of two lines": {
			"kind: Fleet\nspec:\n  a: |\n    x\n    y\n", "layers", "l",
			"kind: Fleet\nspec:\n  a: |\n    x\n    y\n  layers: [l]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Append([]byte(c.before), Document{Kind: "Fleet"}, append([]string{"spec"}, strings.Split(c.at, "/")...), c.text)
			if err != nil || string(got) != c.after {
				t.Errorf("the error is %v\nthe result of apply is\n%s\nwant\n%s", err, got, c.after)
			}
		})
	}
	for before, want := range map[string]string{
		"kind: Repository\nspec: {}\n":                 "no document of kind Fleet",
		"a: &x [b]\nkind: Fleet\nspec: {layers: *x}\n": "3:16: spec.layers is an alias",
		"kind: Fleet\nspec: {layers: 3}\n":             "2:16: the value must be a list",
	} {
		if _, err := Append([]byte(before), Document{Kind: "Fleet"}, []string{"spec", "layers"}, "cluster"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", before, err, want)
		}
	}
}

// Set replaces one value, or adds a key, and leaves the rest of the text.
func TestSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, at, text, after string }{
		"plain": {
			"kind: Cluster\nmetadata: {name: a}\nspec:\n  state: active  # runs\n  vars: {x: 1}\n", "spec/state", "frozen",
			"kind: Cluster\nmetadata: {name: a}\nspec:\n  state: frozen  # runs\n  vars: {x: 1}\n",
		},
		"quoted": {
			"kind: Cluster\nmetadata: {name: a, labels: {traffic: \"on\"}}\n", "metadata/labels/traffic", "standby",
			"kind: Cluster\nmetadata: {name: a, labels: {traffic: standby}}\n",
		},
		"a word that YAML reads as a boolean": {
			"kind: Cluster\nmetadata: {name: a, labels: {traffic: x}}\n", "metadata/labels/traffic", "true",
			"kind: Cluster\nmetadata: {name: a, labels: {traffic: \"true\"}}\n",
		},
		"missing labels": {
			"kind: Cluster\nmetadata:\n  name: a\nspec: {environment: dev}\n", "metadata/labels/example.com~1x", "1",
			"kind: Cluster\nmetadata:\n  name: a\n  labels: {example.com/x: \"1\"}\nspec: {environment: dev}\n",
		},
		"the second document": {
			"kind: Cluster\nmetadata: {name: b}\n---\n# ours\nkind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
			"spec/state", "retired",
			"kind: Cluster\nmetadata: {name: b}\n---\n# ours\nkind: Cluster\nmetadata: {name: a}\nspec: {environment: dev, state: retired}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := strings.Split(c.at, "/")
			for i := range at {
				at[i] = strings.ReplaceAll(at[i], "~1", "/")
			}
			got, err := Set([]byte(c.before), Document{"Cluster", "a"}, at, c.text)
			if err != nil || string(got) != c.after {
				t.Errorf("the error is %v\nthe result is\n%s\nwant\n%s", err, got, c.after)
			}
		})
	}
	for before, want := range map[string]string{
		"kind: Cluster\nmetadata: {name: b}\n":                                              "it has no Cluster a",
		"x: &l {r: 1}\nkind: Cluster\nmetadata: {name: a, labels: *l}\n":                    "labels is an alias",
		"kind: Cluster\nmetadata: {name: a, labels: &l {traffic: x}}\n":                     "labels is an anchor",
		"kind: Cluster\nmetadata: {name: a, labels: {traffic: [x]}}\n":                      "the value must be a text",
		"x: &l {labels: {r: 1}}\nkind: Cluster\nmetadata:\n  name: a\n  <<: *l\nspec: {}\n": "with <<, so labels cannot be added",
	} {
		if _, err := Set([]byte(before), Document{"Cluster", "a"}, []string{"metadata", "labels", "traffic"}, "y"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", before, err, want)
		}
	}
}

// Extract takes a document with its comments out of a stream.
func TestExtract(t *testing.T) {
	t.Parallel()
	stream := "# first\nkind: Cluster\nmetadata: {name: b}\n--- # second\n# ours\nkind: Cluster\n\nmetadata: {name: a}\nspec: {vars: {x: '---'}}\n...\n--- {kind: Cluster, metadata: {name: c}}\n"
	for name, want := range map[string]string{
		"a": "# ours\nkind: Cluster\n\nmetadata: {name: a}\nspec: {vars: {x: '---'}}\n",
		"b": "# first\nkind: Cluster\nmetadata: {name: b}\n",
		"c": " {kind: Cluster, metadata: {name: c}}\n",
	} {
		if got, err := Extract([]byte(stream), Document{"Cluster", name}); err != nil || string(got) != want {
			t.Errorf("%s: %q and the error %v, want %q", name, got, err, want)
		}
	}
	if _, err := Extract([]byte(stream), Document{"Cluster", "d"}); err == nil {
		t.Error("a document that does not exist is no error")
	}
}
