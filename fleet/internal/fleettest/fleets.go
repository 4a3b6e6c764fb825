package fleettest

import (
	"fmt"
	"maps"
	"strings"
)

// Base begins every file of a fleet.
const Base = "apiVersion: sluice.dev/v1alpha1\n"

// FleetFile is the sluice.yaml of Small.
const FleetFile = Base + `kind: Fleet
metadata: {name: acme}
spec:
  layers: [class, environment, region, cluster]
  environments:
    - name: dev
    - {name: prod, after: [dev]}
`

// Cluster is the file of a cluster.
func Cluster(name, environment, class, region, vars string) string {
	return fmt.Sprintf("%skind: Cluster\nmetadata: {name: %s, labels: {region: %s}}\nspec: {environment: %s, class: %s, vars: {%s}}\n", Base, name, region, environment, class, vars)
}

// Small is a fleet of two clusters with classes, and of one app with layers.
func Small() map[string]string {
	return map[string]string{
		"sluice.yaml": FleetFile,
		"clusters/classes.yaml": Base +
			"kind: ClusterClass\nmetadata: {name: base}\nspec: {kubeVersion: 1.33.2, vars: {domain: x.org, size: 3}, labels: {tier: low}}\n---\n" +
			Base + "kind: ClusterClass\nmetadata: {name: edge}\nspec: {parent: base, labels: {tier: high}}\n",
		"clusters/a.yaml": Cluster("a", "dev", "edge", "eu", "ip: 10.0.0.1"),
		"clusters/b.yaml": Cluster("b", "prod", "base", "us", "size: 5"),
		"apps/web/app.yaml": Base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {helm: {path: charts/web}}}\n",
		"apps/web/layers/global/values.yaml":           "host: ${cluster.name}.${cluster.vars.domain}\nreplicas: ${cluster.vars.size}\nlist: [1, 2]\nm: {a: 1, b: 2}\n",
		"apps/web/layers/environment/prod/values.yaml": "m: {b: null, c: 3}\nlist: [3]\n",
		"apps/web/layers/region/us/values.yaml":        "m: {d: 4}\n",
		"layers/global/values.yaml":                    "env: ${environment}\n",
		"layers/class/edge/values.yaml":                "edge: true\n",
	}
}

// Tiny is a fleet of two clusters and one app, with more files. An empty text removes the file.
func Tiny(extra map[string]string) map[string]string {
	files := map[string]string{
		"sluice.yaml": Base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [environment, region, cluster]\n  environments: [{name: dev}]\n",
		"clusters/a.yaml": Base +
			"kind: Cluster\nmetadata: {name: a, labels: {region: r1}}\nspec: {environment: dev, vars: {uid: 1000680000, s: text, m: {x: 1}}}\n",
		"clusters/b.yaml": Base + "kind: Cluster\nmetadata: {name: b}\nspec: {environment: dev}\n",
		"apps/web/app.yaml": Base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {helm: {path: charts/web}}}\n",
		"layers/region/r1/values.yaml": "zone: one\n",
	}
	for k, v := range extra {
		if v == "" {
			delete(files, k)
			continue
		}
		files[k] = v
	}
	return files
}

// Everyday uses features that real fleets need beyond the conventions: variables of apps, environment-specific
// placement and sources, files from other folders, skipped layers, versions from files and values.
func Everyday() map[string]string {
	charts := `helm: {chart: web, repo: "https://charts.example.com"`
	return map[string]string{
		"sluice.yaml": Base + `kind: Fleet
metadata: {name: everyday}
spec:
  layers:
    - class
    - name: environment
      values:
        - teams/${app.vars.team:=none}/values.yaml
        - {path: "image-tags/${environment}/${app}", at: image.tag}
        - {path: "limits/${environment}.yaml", at: resources.limits}
    - region
  environments: [{name: dev}, {name: prod, after: [dev]}]
  delivery: {project: platform, annotations: {owner: sre}, syncOptions: [ServerSideApply=true]}
`,
		"clusters/c.yaml": Base + "kind: ClusterClass\nmetadata: {name: any}\nspec: {}\n",
		"clusters/a.yaml": Cluster("a", "dev", "any", "eu", ""),
		"clusters/b.yaml": Cluster("b", "prod", "any", "us", ""),
		"apps/web/app.yaml": Base + `kind: App
metadata: {name: web}
spec:
  namespace: web
  vars: {team: core}
  placement: {}
  source: {` + charts + `, versionFrom: {file: "versions/${environment}.yaml", key: "charts.${app}"}}}
  environments:
    prod:
      placement: {matchLabels: {region: us}}
      sources:
        - {name: main, ` + charts + `, versionFrom: {value: chartVersion}}}
        - {manifests: {path: extra}}
`,
		"apps/plain/app.yaml": Base + `kind: App
metadata: {name: plain}
spec:
  namespace: plain
  placement: {}
  skipLayers: [environment, global]
  environments: {dev: {placement: {optional: true, matchLabels: {region: nowhere}}}}
  source: {` + charts + `, version: "1.0.0"}}
`,
		"teams/core/values.yaml":                  "team: core\n",
		"image-tags/dev/web":                      "1.10\n",
		"image-tags/prod/web":                     "1.9\n",
		"image-tags/prod/plain":                   "9\n",
		"limits/prod.yaml":                        "cpu: 1\n",
		"versions/dev.yaml":                       "charts: {web: 1.10}\n",
		"layers/global/values.yaml":               "all: true\n",
		"apps/web/layers/region/us/values.yaml":   "chartVersion: \"2.0.0\"\n",
		"apps/plain/layers/region/us/values.yaml": "region: us\n",
		"apps/plain/layers/global/values.yaml":    "skipped: true\n",
		"extra/cm.yaml":                           "kind: ConfigMap\n",
	}
}

// Linked has links in place of values files, of a layer's folder, and of files that spec.files finds.
func Linked() map[string]string {
	files := Small()
	maps.Copy(files, map[string]string{
		"apps/web/layers/region/us/values.yaml": LinkTo + "../../../../../shared/us.yaml",
		"apps/web/layers/region/eu":             LinkTo + "../../../../shared/europe",
		"shared/us.yaml":                        LinkTo + "real/us.yaml",
		"shared/real/us.yaml":                   "m:\n  d: ${cluster.name}\n",
		"shared/europe/values.yaml":             "m: {d: eu}\n",
		"shared/europe/kustomization.yaml":      "kind: Component\n",
		"clusters/c.yaml":                       LinkTo + "../shared/cluster.txt",
		"shared/cluster.txt":                    Cluster("c", "prod", "base", "us", "size: 6"),
		"charts/web/Chart.yaml":                 "name: web\n",
	})
	return files
}

// Foreign has a custom layout: path templates, components that share files, a label with a slash, named sources.
func Foreign() map[string]string {
	files := map[string]string{
		"sluice.yaml": Base + `kind: Fleet
metadata: {name: foreign}
spec:
  files: {clusters: ["infra/**/*.yaml"], apps: ["fleet/*.yaml"]}
  layers:
    - {name: environment, values: ["charts/${app}/values-${environment}.yaml"], components: ["overlays/${environment}/${app}"]}
    - example.com/zone
    - {name: cluster, values: ["env/${cluster.name}.yaml", "vars/${cluster.vars.file:=none}.yaml"]}
  environments: [{name: dev}, {name: prod, after: [dev]}]
`,
		"shared/kustomization.yaml": "kind: Component\n", "shared/x.yaml": "x: ${cluster.name}\n",
		"env/c1.yaml": "a: 1\n", "vars/f.yaml": "a: 1\n",
	}
	for i := range 6 {
		vars := ""
		if i%2 == 0 {
			vars = "file: f"
		}
		files[fmt.Sprintf("infra/z%d/c%d.yaml", i%2,
			i)] = fmt.Sprintf("%skind: Cluster\nmetadata: {name: c%d, labels: {example.com/zone: z%d}}\nspec: {environment: %s, vars: {%s}}\n",
			Base, i, i%3, []string{"dev", "prod"}[i%2], vars)
	}
	for _, app := range []string{"one", "two"} {
		files["fleet/"+app+".yaml"] = Base + "kind: App\nmetadata: {name: " + app +
			"}\nspec:\n  namespace: n\n  placement: {}\n  sources:\n" +
			"  - name: main\n    helm: {path: \"charts/${app}\"}\n  - kustomize: {path: \"k/${environment}\"}\n"
		for _, environment := range []string{"dev", "prod"} {
			files["charts/"+app+"/values-"+environment+".yaml"] = "a: 1\n"
			files["charts/"+app+"/values-"+environment+".main.yaml"] = "b: ${cluster.name}\n"
			files["overlays/"+environment+"/"+app+
				"/kustomization.yaml"] = "kind: Component\ncomponents: [../../../shared]\n"
			files["k/"+environment+"/kustomization.yaml"] = "resources: []\n"
		}
	}
	files["fleet/layers/example.com/zone/z1/values.yaml"] = "z: 1\n"
	files["layers/example.com/zone/z2/kustomization.yaml"] = "kind: Component\ncomponents: [../../../../shared]\n"
	return files
}

// Bomb is a values file whose aliases stand for more than memory can hold.
func Bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String()
}

// Big returns a fleet of many clusters and apps, like the one in the benchmarks of the whole program.
func Big() map[string]string {
	const clusters, apps = 1000, 20
	files := map[string]string{
		"sluice.yaml": Base + `kind: Fleet
metadata: {name: big}
spec:
  layers: [class, environment, region, cluster]
  environments: [{name: dev}, {name: staging, after: [dev]}, {name: prod, after: [staging]}]
`,
		"clusters/classes.yaml": Base +
			"kind: ClusterClass\nmetadata: {name: base}\nspec: {kubeVersion: 1.33.2, vars: {domain: example.com}}\n---\n" +
			Base + "kind: ClusterClass\nmetadata: {name: core}\nspec: {parent: base, labels: {tier: core}}\n---\n" +
			Base + "kind: ClusterClass\nmetadata: {name: edge}\nspec: {parent: base, labels: {tier: edge}}\n",
		"layers/global/values.yaml": "domain: ${cluster.vars.domain}\ncluster: ${cluster.name}\n",
	}
	environments, classes := []string{"dev", "staging", "prod"}, []string{"core", "edge"}
	for i := range clusters {
		name := fmt.Sprintf("c%04d", i)
		files["clusters/"+name+".yaml"] = Base + fmt.Sprintf(`kind: Cluster
metadata:
  name: %s
  labels:
    region: r%d
    ring: main
spec:
  environment: %s
  class: %s
  vars:
    shortName: s%d
    lbRange: 10.0.%d.0/24
`, name, i%5, environments[i%3], classes[i%2], i, i%250)
	}
	for i := range apps {
		dir := fmt.Sprintf("apps/app%02d/", i)
		files[dir+"app.yaml"] = Base +
			fmt.Sprintf("kind: App\nmetadata: {name: app%02d}\nspec:\n  namespace: app%02d\n  placement: {}\n  source:\n    helm: {path: charts/web}\n", i, i)
		files[dir+"layers/global/values.yaml"] = "replicas: 2\nhost: ${cluster.vars.shortName}.${cluster.vars.domain}\n" + strings.Repeat("# comment\n", 5) +
			"resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}\nenv: {A: \"1\", B: \"2\", C: \"3\", D: x, E: y}\n"
		for e, environment := range environments {
			files[dir+"layers/environment/"+environment+"/values.yaml"] = fmt.Sprintf("replicas: %d\nenv: {B: %s}\n",
				e+1, environment)
		}
		files[dir+"layers/region/r1/values.yaml"] = "resources: {limits: {memory: 512Mi}}\n"
		if i%10 == 0 {
			for c := range clusters {
				files[fmt.Sprintf("%slayers/cluster/c%04d/values.yaml", dir, c)] = fmt.Sprintf("env: {F: c%d}\n", c)
			}
		}
	}
	return files
}
