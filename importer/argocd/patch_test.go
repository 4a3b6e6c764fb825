package argocd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/importer/argocd"
)

// A templatePatch is a strategic merge patch. tools/gitops/argocd compares more of them with Argo CD.
func TestTemplatePatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patch, values, err string
		orphan             bool
	}{
		"values merge": {
			patch:  "spec: {source: {helm: {valuesObject: {b: 2}}}}",
			values: `{"a":"base","b":2,"nested":{"c":"d"}}`,
		},
		"a directive": {
			patch:  "spec: {source: {helm: {$patch: replace, valuesObject: {b: 2}}}}",
			values: `{"b":2}`,
		},
		"a directive in values": {
			patch:  "spec: {source: {helm: {valuesObject: {$patch: replace, b: 2}}}}",
			values: `{"b":2}`,
		},
		"nested values": {
			patch: "spec: {source: {helm: {valuesObject: {nested: {b: 2}}}}}",
			err:   `the mapping or list "nested" in valuesObject, which Argo CD cannot merge`,
		},
		"a finalizer more": {
			patch:  "metadata: {finalizers: [example.com/x]}",
			values: `{"a":"base","nested":{"c":"d"}}`,
		},
		"a finalizer less":        {patch: "metadata: {$deleteFromPrimitiveList/finalizers: [resources-finalizer.argocd.argoproj.io]}", values: `{"a":"base","nested":{"c":"d"}}`, orphan: true},
		"a wrong type":            {patch: "spec: {source: {helm: {skipCrds: text}}}", err: "skipCrds"},
		"a directive of no name":  {patch: "spec: {source: {$patch: bad}}", err: "bad"},
		"a patch without a name":  {patch: "metadata: {$patch: delete}", err: "has no name"},
		"a patch that is no YAML": {patch: "[", err: "templatePatch: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			units, problems, err := argocd.Import(t.Context(),
				options("-- chart/Chart.yaml --\napiVersion: v2\nname: c\nversion: 0.1.0\n-- argocd/set.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n"+
					"  generators: [{list: {elements: [{name: one}]}}]\n  template:\n    metadata: {name: '{{name}}'}\n    spec:\n      project: default\n      destination: {name: prod}\n"+
					"      source: {"+own+"path: chart, helm: {valuesObject: {a: base, nested: {c: d}}}}\n  templatePatch: |\n    "+c.patch+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if c.err != "" {
				if len(problems) != 1 || !strings.Contains(problems[0].Message, c.err) {
					t.Errorf("the problems are %v, want %q", problems, c.err)
				}
				return
			}
			if len(problems) > 0 || len(units) != 1 || units[0].Err != nil {
				t.Fatalf("%+v, %v; want one unit", units, problems)
			}
			values, err := json.Marshal(units[0].Sources[0].Chart.Values)
			if err != nil || string(values) != c.values {
				t.Errorf("the values are %s, %v; want %s", values, err, c.values)
			}
			if units[0].Orphan != c.orphan {
				t.Errorf("orphan is %v, want %v", units[0].Orphan, c.orphan)
			}
		})
	}
}
