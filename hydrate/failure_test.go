package hydrate_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// Every failure names the file and the line of the repository that has to change.
func TestFailuresNameTheFileAndLineInTheRepository(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files   map[string]string
		file    string
		line    int
		message string // that the message contains
	}{
		"a template": {
			map[string]string{"charts/web/templates/config.yaml": "a: 1\n---\nb: {{ fail \"no colour\" }}\n"},
			"charts/web/templates/config.yaml", 3, "charts/web/templates/config.yaml:3",
		},
		"a value that the chart's schema refuses": {
			map[string]string{"apps/shop/layers/cluster/prod-eu-1/values.yaml": "# ours\nreplicas: many\n"},
			"apps/shop/layers/cluster/prod-eu-1/values.yaml", 2,
			"replicas: got string, want integer (set at apps/shop/layers/cluster/prod-eu-1/values.yaml:2:11)",
		},
		"two values that the schema refuses": {
			map[string]string{"apps/shop/layers/cluster/prod-eu-1/values.yaml": "replicas: many\nimage: {tag: 5}\n"},
			"apps/shop/layers/cluster/prod-eu-1/values.yaml", 2,
			"(set at apps/shop/layers/cluster/prod-eu-1/values.yaml:1:11)",
		},
		"a key that the schema does not allow": {
			map[string]string{
				"charts/web/values.schema.json":                  `{"properties": {"image": {"additionalProperties": false, "properties": {"repository": {}, "tag": {}}}}}`,
				"apps/shop/layers/cluster/prod-eu-1/values.yaml": "image:\n  tag: 5\n  podLabels: {a: b}\n",
			},
			"apps/shop/layers/cluster/prod-eu-1/values.yaml", 3,
			"image: additional properties 'podLabels' not allowed (set at apps/shop/layers/cluster/prod-eu-1/values.yaml:3:",
		},
		"a key of the root that the schema does not allow": {
			map[string]string{
				"charts/web/values.schema.json":                  `{"additionalProperties": false, "properties": {"image": {}, "replicas": {}, "host": {}, "currency": {}, "global": {}, "common": {}, "logLevel": {}, "resources": {}, "config": {}, "env": {}}}`,
				"apps/shop/layers/cluster/prod-eu-1/values.yaml": "# ours\npodLabels: {a: b}\n",
			},
			"apps/shop/layers/cluster/prod-eu-1/values.yaml", 2,
			"'podLabels' not allowed (set at apps/shop/layers/cluster/prod-eu-1/values.yaml:2:",
		},
		"a default of the chart that the schema refuses": {
			map[string]string{"charts/web/values.yaml": "image:\n  repository: x\n  tag: 5\n"},
			"charts/web/values.yaml", 3, "(set at charts/web/values.yaml:3:",
		},
		"a chart that does not exist": {
			map[string]string{"apps/shop/app.yaml": strings.Replace(shopApp, "charts/web", "charts/wbe", 1)},
			"apps/shop/app.yaml", 8, "apps/shop/app.yaml:8:25",
		},
		"a chart that is not locked": {
			map[string]string{"apps/shop/app.yaml": strings.Replace(shopApp, "path: charts/web",
				"chart: web, repo: \"https://charts.example.com\", version: 1.0.0", 1)},
			"apps/shop/app.yaml", 8, "not in sluice.lock",
		},
		"a reference without a value": {
			map[string]string{"apps/shop/layers/cluster/prod-eu-1/values.yaml": "\n\nhost: ${cluster.vars.nowhere}\n"},
			"apps/shop/layers/cluster/prod-eu-1/values.yaml", 3, "nowhere",
		},
		"a manifest": {
			map[string]string{"manifests/baseline/broken.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [\n"},
			"manifests/baseline/broken.yaml", 0, "broken.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.Demo(t)
			for file, text := range c.files {
				r.Write(file, text)
			}
			r.Commit(name)
			prod := r.Hydrate(nil).Environments[2]
			for _, f := range prod.Failures {
				if f.Cluster != "prod-eu-1" {
					continue
				}
				if f.File != c.file || c.line != 0 && f.Line != c.line || !strings.Contains(f.Message, c.message) ||
					strings.Count(f.Message, f.File+":") < 1 {
					t.Errorf("%s:the line is %d:the column is %d: the message is %s", f.File, f.Line, f.Column,
						f.Message)
				}
				return
			}
			t.Errorf("no failure on prod-eu-1: %+v", prod)
		})
	}
}

const shopApp = `# yaml-language-server: $schema=../../../../docs/schema/app.json
apiVersion: sluice.dev/v1alpha1
kind: App
metadata: {name: shop}
spec:
  namespace: shop
  placement: {matchLabels: {tier: core}}
  source: {helm: {path: charts/web}}
`

// The renderer merges equal copies of an object. The result has one note for each app, with its clusters.
func TestNotesOfTheRendererReachTheResult(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice, namespace: %s}\ndata: {a: b}\n"
	r.Write("manifests/baseline/one.yaml", strings.ReplaceAll(object, "%s", "other"))
	r.Write("manifests/baseline/two.yaml", strings.ReplaceAll(object, "%s", "other"))
	r.Write("manifests/baseline/three.yaml", strings.ReplaceAll(object, ", namespace: %s", ""))
	app := r.Read("apps/baseline/app.yaml")
	i := strings.Index(app, "namespace: ") + len("namespace: ")
	namespace, _, _ := strings.Cut(app[i:], "\n")
	r.Write("manifests/baseline/four.yaml", strings.ReplaceAll(object, "%s", namespace))
	r.Commit("copies")
	e := r.Hydrate(nil).Environments[2]
	var merged []hydrate.Note
	for _, n := range e.Notes {
		if strings.Contains(n.Message, "the copies are merged") {
			merged = append(merged, n)
		}
	}
	if len(merged) != 2 || merged[0].App != "baseline" || len(merged[0].Clusters) != 3 ||
		!strings.Contains(merged[0].Message, "manifests/baseline/four.yaml") ||
		!strings.Contains(merged[1].Message, "manifests/baseline/two.yaml") {
		t.Errorf("the notes are %+v", e.Notes)
	}
	if got := merged[0].String(); !strings.HasPrefix(got, "baseline on 3 clusters: ") {
		t.Errorf("the merged is %q", got)
	}
}
