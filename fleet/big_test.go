package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// bigFleet returns a fleet of many clusters and apps, like the one in the benchmarks of the whole program.
func bigFleet() map[string]string {
	const clusters, apps = 1000, 20
	files := map[string]string{
		"sluice.yaml": base + `kind: Fleet
metadata: {name: big}
spec:
  layers: [class, environment, region, cluster]
  environments: [{name: dev}, {name: staging, after: [dev]}, {name: prod, after: [staging]}]
`,
		"clusters/classes.yaml": base +
			"kind: ClusterClass\nmetadata: {name: base}\nspec: {kubeVersion: 1.33.2, vars: {domain: example.com}}\n---\n" +
			base + "kind: ClusterClass\nmetadata: {name: core}\nspec: {parent: base, labels: {tier: core}}\n---\n" +
			base + "kind: ClusterClass\nmetadata: {name: edge}\nspec: {parent: base, labels: {tier: edge}}\n",
		"layers/global/values.yaml": "domain: ${cluster.vars.domain}\ncluster: ${cluster.name}\n",
	}
	environments, classes := []string{"dev", "staging", "prod"}, []string{"core", "edge"}
	for i := range clusters {
		name := fmt.Sprintf("c%04d", i)
		files["clusters/"+name+".yaml"] = base + fmt.Sprintf(`kind: Cluster
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
		files[dir+"app.yaml"] = base +
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

func mustLoad(tb testing.TB, files map[string]string, cache *Cache) *Fleet {
	tb.Helper()
	f, problems := Load(tb.Context(), fleettest.NewTree(files), cache)
	if f == nil {
		tb.Fatalf("the fleet does not load:\n%v", problems)
	}
	return f
}
