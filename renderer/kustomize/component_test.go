package kustomize_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const (
	component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	labels    = "-- kustomization.yaml --\n" + component + "labels:\n- pairs: {a: b}\n"
	nothing   = "-- kustomization.yaml --\n" + component +
		"patches:\n- target: {kind: Nothing}\n  patch: '[{\"op\": \"remove\", \"path\": \"/x\"}]'\n"
)

func apply(t *testing.T, base []manifest.Object, components ...kustomize.Component) []manifest.Object {
	t.Helper()
	got, err := kustomize.NewBuilder(manifest.DefaultBudget()).ApplyComponents(t.Context(), base, components, true)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func applyError(t *testing.T, base []manifest.Object, components ...kustomize.Component) string {
	t.Helper()
	got, err := kustomize.NewBuilder(manifest.DefaultBudget()).ApplyComponents(t.Context(), base, components, true)
	if err == nil {
		t.Fatalf("got no error but\n%s", text(t, got))
	}
	return err.Error()
}

// odd are unusual objects that Kustomize did not create.
const odd = `
apiVersion: v1
kind: ConfigMap
metadata: {name: same, namespace: one, annotations: {helm.sh/hook: pre-install}}
data: {"on": "on", octal: "0644", exp: "1e3", time: "12:30", "null": "null", trail: "x ", text: "a\n  b\n\n"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same, namespace: two}
binaryData: {a: AAEC}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:acme:x"}
rules: []
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: engines.example.com}
spec:
  group: example.com
  names: {kind: Engine, plural: engines}
  versions: [{name: v1, schema: {openAPIV3Schema: {properties: {x: {default: null, pattern: "^a$", maximum: 9223372036854775807}}}}}]
---
apiVersion: example.com/v1
kind: Engine
metadata: {name: e.with.dots}
spec: {big: 18446744073709551615, low: -9223372036854775808, half: 0.5, tiny: 1e-9, huge: 1e21, sure: true, none: null, list: [], map: {}}
status: {conditions: []}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, creationTimestamp: null}
spec:
  template:
    spec:
      containers: [{name: a, image: "a:1", command: ["sh", "-c", "echo $(HOME) | base64\n"]}]
`

func TestComponentsLeaveTheRestAlone(t *testing.T) {
	base := objects(t, odd)
	equal(t, apply(t, objects(t, odd), kustomize.Component{Name: "c", Files: tree(nothing)}), odd)
	if same := apply(t, base); &same[0] != &base[0] || len(same) != len(base) {
		t.Error("no component is no identity")
	}
	if same := apply(t, nil, kustomize.Component{Name: "c", Files: tree(nothing)}); len(same) != 0 {
		t.Errorf("the same is %v", same)
	}
}

func TestComponentsChangeAddAndDelete(t *testing.T) {
	got := apply(t, objects(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: a, image: "a:1"}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: gone, namespace: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: gone, namespace: stays}
`), kustomize.Component{Name: "layers/one", Files: tree(`
-- kustomization.yaml --
` + component + `
resources: [new.yaml]
patches:
- path: patches/web.yaml
- patch: |-
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: gone, namespace: first}
    $patch: delete
- {path: patches/ops.json, target: {kind: Deployment}}
-- new.yaml --
{apiVersion: v1, kind: Secret, metadata: {name: new}, stringData: {a: "on"}}
-- patches/web.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: b, image: "b:1"}]}}}
-- patches/ops.json --
[{"op": "add", "path": "/spec/replicas", "value": 2}]
`)}, kustomize.Component{Name: "layers/two", Root: "two", Files: tree(`
-- two/kustomization.yaml --
` + component + `
components: [../shared]
images: [{name: a, newTag: "2"}]
configMapGenerator: [{name: gen, files: [f.txt]}]
-- two/f.txt --
text
-- shared/kustomization.yaml --
` + component + `
replicas: [{name: web, count: 3}]
`)})
	equal(t, got, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, template: {spec: {containers: [{name: b, image: "b:1"}, {name: a, image: "a:2"}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: gone, namespace: stays}
---
apiVersion: v1
kind: Secret
metadata: {name: new}
stringData: {a: "on"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: gen-c4bf276t4f}
data: {f.txt: "text\n"}
`)
}

// A later component sees the result of an earlier one.
func TestComponentsInOrder(t *testing.T) {
	set := func(value string) kustomize.Component {
		return kustomize.Component{Name: value, Files: tree("-- kustomization.yaml --\n" + component +
			"patches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"add\", \"path\": \"/data\", \"value\": {\"v\": \"" + value + "\"}}]'\n")}
	}
	var components []kustomize.Component
	for i := range 12 {
		components = append(components, set(fmt.Sprintf("v%d", i)))
	}
	equal(t, apply(t, objects(t, configMap), components...), configMap+"data: {v: v11}\n")
}

func TestComponentErrors(t *testing.T) {
	base := objects(t, configMap)
	for name, c := range map[string]struct {
		base  []manifest.Object
		files string
		want  []string
	}{
		"no component": {
			base, "-- kustomization.yaml --\nnamePrefix: a\n",
			[]string{"layers/x/kustomization.yaml", "is not a component", "kind: Component"},
		},
		"no kustomization": {base, "-- a --\n", []string{"component layers/x", "no kustomization.yaml"}},
		"remote": {
			base, "-- kustomization.yaml --\n" + component + "resources:\n- https://example.com\n",
			[]string{"layers/x/kustomization.yaml:4", "resources[0]", "is remote"},
		},
		"out of it": {
			base, "-- kustomization.yaml --\n" + component + "resources: [../objects.yaml]\n",
			[]string{"layers/x/kustomization.yaml:3", "leaves the component's directory"},
		},
		"into its neighbour": {
			base, "-- kustomization.yaml --\n" + component + "components: [../component-00001]\n",
			[]string{"leaves the component's directory"},
		},
		"no target": {
			base, "-- kustomization.yaml --\n" + component +
				"patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}'}]\n",
			[]string{
				"applying components", "layers/x", "ConfigMap.v1.[noGrp]/b",
				"correct its kind, name or namespace",
			},
		},
		"bad operation": {
			base, "-- kustomization.yaml --\n" + component +
				"patches: [{target: {kind: ConfigMap}, patch: '[{\"op\": \"remove\", \"path\": \"/data/x\"}]'}]\n",
			[]string{"layers/x", "does not have the path of the JSON patch"},
		},
		"neither patch": {
			base, "-- kustomization.yaml --\n" + component +
				"patches: [{patch: 'a: b', target: {kind: ConfigMap}}]\n",
			[]string{"layers/x", "list of JSON 6902 operations"},
		},
		"duplicate": {
			append(objects(t, configMap), base...), nothing,
			[]string{"the rendered objects", "ConfigMap.v1.[noGrp]/a", "rename or remove one"},
		},
		"default namespace": {
			objects(t, configMap+
				"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"), nothing,
			[]string{"no namespace counts as `default`"},
		},
		"added twice": {base, "-- kustomization.yaml --\n" + component + "resources: [a.yaml]\n-- a.yaml --\n" +
			configMap, []string{"layers/x", "rename or remove one"}},
		"name removed": {
			base, "-- kustomization.yaml --\n" + component +
				"patches: [{target: {kind: ConfigMap}, patch: '[{\"op\": \"remove\", \"path\": \"/metadata/name\"}]'}]\n",
			[]string{"metadata.name"},
		},
	} {
		got := applyError(t, c.base, kustomize.Component{Name: "layers/x", Files: tree(c.files)})
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %q in: %s", name, part, got)
			}
		}
		for _, part := range []string{"component-0", ".bundle", "accumulation err"} {
			if strings.Contains(got, part) && name != "into its neighbour" {
				t.Errorf("%s: %q in: %s", name, part, got)
			}
		}
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	long := "-- kustomization.yaml --\n" + component + "patches: [{target: {kind: ConfigMap}, patch: '" +
		strings.Repeat("no patch ", 10_000) + "'}]\n"
	got := applyError(t, objects(t, configMap), kustomize.Component{Name: "c", Files: tree(long)})
	if len(got) > 2000 || !strings.Contains(got, "JSON 6902") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}

func TestComponentWithItsOwnDescription(t *testing.T) {
	base := "apiVersion: example.com/v1\nkind: Engine\nmetadata: {name: e}\nspec: {parts: [{id: a}, {id: b, x: 1}]}\n"
	patch := "patches: [{patch: '{apiVersion: example.com/v1, kind: Engine, metadata: {name: e}, spec: {parts: [{id: b, size: 2}]}}'}]\n"
	schema := `-- s.json --
{"definitions": {"E": {"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Engine"}],
 "properties": {"spec": {"properties": {"parts": {"type": "array", "items": {"type": "object"},
 "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "id"}}}}}}}
`
	own := kustomize.Component{Name: "c", Files: tree("-- kustomization.yaml --\n" + component +
		"openapi: {path: s.json}\n" + patch + schema)}
	plain := kustomize.Component{Name: "c", Files: tree("-- kustomization.yaml --\n" + component + patch)}
	merged := "apiVersion: example.com/v1\nkind: Engine\nmetadata: {name: e}\nspec: {parts: [{id: b, x: 1, size: 2}, {id: a}]}\n"
	replaced := "apiVersion: example.com/v1\nkind: Engine\nmetadata: {name: e}\nspec: {parts: [{id: b, size: 2}]}\n"
	for range 2 {
		equal(t, apply(t, objects(t, base), plain), replaced)
		equal(t, apply(t, objects(t, base), own), merged)
	}
}

func BenchmarkApplyComponents(b *testing.B) {
	var base []manifest.Object
	for i := range 20 {
		one, err := manifest.Decode(fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-%d, labels: {app: web, tier: front}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "registry.example.com/web:1", args: [a, b], ports: [{containerPort: 80}], env: [{name: A, value: b}, {name: C, value: d}], resources: {limits: {cpu: 1, memory: 1Gi}}}
`, i), manifest.DefaultBudget())
		if err != nil {
			b.Fatal(err)
		}
		base = append(base, one...)
	}
	const strategic = "-- kustomization.yaml --\n" + component +
		"patches: [{patch: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-3}, spec: {replicas: 5}}'}]\n"
	for name, files := range map[string]string{"labels": labels, "strategic": strategic, "json": nothing} {
		b.Run(name, func(b *testing.B) {
			builder := kustomize.NewBuilder(manifest.DefaultBudget())
			c := []kustomize.Component{{Name: "c", Files: tree(files)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := builder.ApplyComponents(context.Background(), base, c, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
