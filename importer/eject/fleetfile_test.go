package eject

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
		"a number as a name": {
			"kind: Fleet\nspec:\n  layers: [é, a] # ü\n", "layers", "12",
			"kind: Fleet\nspec:\n  layers: [é, a, \"12\"] # ü\n",
		},
		"a value of two lines": {
			"kind: Fleet\nspec:\n  a: |\n    x\n    y\n", "layers", "l",
			"kind: Fleet\nspec:\n  a: |\n    x\n    y\n  layers:\n    - l\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := addition{append([]string{"spec"}, strings.Split(c.at, "/")...), c.text}.apply([]byte(c.before))
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
		if _, err := (addition{[]string{"spec", "layers"}, "cluster"}).apply([]byte(before)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", before, err, want)
		}
	}
}
