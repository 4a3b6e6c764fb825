package fleet

import (
	"math/rand/v2"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
)

// fullFleet uses every field of every kind.
func fullFleet() map[string]string {
	return map[string]string{
		"sluice.yaml": base + `kind: Fleet
metadata: {name: full, labels: {a: b}}
spec:
  trunk: main
  files: {clusters: ["clusters/**/*.yaml"], apps: ["apps/**/app.yaml"]}
  layers:
    - class
    - {name: environment, values: ["charts/${app}/values-${environment}.yaml"], components: ["overlays/${environment}/${app}"]}
  environments:
    - name: dev
    - name: prod
      after: [dev]
      promotion:
        mode: manual
        bake: 2h
        health: {commitStatuses: ["kustomization/*"], healthy: 100%}
        windows: [{days: [Mon, Tue], from: "09:00", to: "16:00", timeZone: Europe/Berlin}]
        freezes: [{from: "2026-12-20T00:00:00Z", to: "2027-01-02T00:00:00Z", reason: holidays}]
        approvers: {users: [ann], teams: [sre], count: 1}
        waves:
          - {name: canary, clusters: {matchLabels: {ring: canary}, matchExpressions: [{key: ring, operator: In, values: [canary]}]}, bake: 1h, maxParallel: 2}
          - {name: half, percent: 50}
          - {name: some, count: 3}
          - {name: rest}
  output:
    environmentBranch: env/${environment}
    clusterBranch: cluster/${cluster.name}
    repository: https://example.com/rendered.git
    namespaces: explicit
    committer: {name: Sluice, email: sluice@example.com}
  safety: {maxDeletions: 10%}
`,
		"clusters/class.yaml": base + `kind: ClusterClass
metadata: {name: core}
spec: {parent: base, labels: {tier: core}, kubeVersion: 1.33.2, apiVersions: [monitoring.coreos.com/v1], vars: {a: [1]}}
`,
		"clusters/base.yaml": base + "kind: ClusterClass\nmetadata: {name: base}\nspec: {}\n",
		"clusters/a.yaml": base + `kind: Cluster
metadata: {name: a, labels: {ring: canary}}
spec: {environment: prod, class: core, kubeVersion: 1.33.2, apiVersions: [a/v1], vars: {b: {c: 1}}, state: active}
`,
		"apps/web/app.yaml": base + `kind: App
metadata: {name: web}
spec:
  namespace: web
  placement: {matchLabels: {ring: canary}, matchExpressions: [{key: ring, operator: Exists}]}
  sources:
    - {name: main, helm: {chart: web, repo: "https://example.com/charts", version: 1.2.3, releaseName: web, includeCRDs: true, hooks: keep, schema: validate}}
    - {helm: {path: charts/web}}
    - {kustomize: {path: k}}
    - {manifests: {path: m}}
  unstable: error
`,
		"apps/one/app.yaml": base +
			"kind: App\nmetadata: {name: one}\nspec: {namespace: one, placement: {}, source: {manifests: {}}}\n",
	}
}

// mutate changes one place of a document: a value, a key, or the presence of a node.
func mutate(r *rand.Rand, root *yaml.Node) {
	var nodes []*yaml.Node
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for _, child := range n.Content {
			nodes = append(nodes, child)
			walk(child)
		}
	}
	walk(root)
	n := nodes[r.IntN(len(nodes))]
	if r.IntN(4) == 0 && n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		i := r.IntN(len(n.Content)/2) * 2
		n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
		return
	}
	texts := []string{
		"null", "true", "7", "-7", "1.5", "text", "[]", "[x]", "{}", "{x: text}", `"7"`, `""`, "10%",
		"{name: [z]}",
	}
	var other yaml.Node
	if yaml.Unmarshal([]byte(texts[r.IntN(len(texts))]), &other) == nil {
		*n = *other.Content[0]
	}
}

// Changes valid files at random. The schema refuses in the editor what the decoder refuses, and the decoder refuses
// what the schema refuses.
func TestSchemasAndDecoderAgree(t *testing.T) {
	if p := problemsOf(t, fullFleet()); p.Err() != nil {
		t.Fatal(p)
	}
	schemas := map[string]*validator.Schema{}
	texts, err := Schemas(map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		schemas[name] = compile(t, text)
	}
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	names := sortedKeys(fullFleet())
	for range 2000 {
		files := fullFleet()
		name := names[r.IntN(len(names))]
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(files[name]), &root); err != nil {
			t.Fatal(err)
		}
		kind := strings.ToLower(yamlnode.Child(root.Content[0], "kind").Value) + ".json"
		mutate(r, &root)
		text, err := yaml.Marshal(&root)
		if err != nil {
			continue // a mapping as a key
		}
		files[name] = string(text)
		var v any
		if sigsyaml.Unmarshal(text, &v) != nil {
			continue // a duplicate key
		}
		invalid := schemas[kind].Validate(v)
		decoded := decodeFile(name, text)
		if len(decoded.problems) > 0 && invalid == nil {
			t.Errorf("the schema accepts, the decoder does not: %v\n%s", decoded.problems, text)
		}
		if invalid != nil {
			refused++
			if p := problemsOf(t, files); p.Err() == nil {
				t.Errorf("the schema refuses, but it loads: %v\n%s", invalid, text)
			}
		}
		if t.Failed() {
			return
		}
	}
	if refused < 500 {
		t.Errorf("only %d files were refused: the test compares too little", refused)
	}
}

func compile(t *testing.T, schema []byte) *validator.Schema {
	t.Helper()
	compiler := validator.NewCompiler()
	parsed, err := validator.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("s.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}
