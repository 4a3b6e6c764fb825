package policy_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/policy"
)

// Values whose type the API server refuses are errors, without any schema.
func TestTypesOfBuiltInKinds(t *testing.T) {
	pod := func(container string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: web, image: 'a:1', " + container + "}]}}}"
	}
	const c = "error schema Deployment spec.template.spec.containers[name=web]."
	for _, tc := range []struct {
		name, object string
		want         []string
	}{
		{"the name N is a boolean in YAML 1.1", pod("env: [{name: false, value: x}]"), []string{c + "env[0].name"}},
		{
			"number as an environment variable", pod("env: [{name: PORT, value: 8080}]"),
			[]string{c + "env[name=PORT].value"},
		},
		{"text as a port", pod("ports: [{containerPort: '80'}]"), []string{c + "ports[0].containerPort"}},
		{"map instead of a list", pod("args: {a: b}"), []string{c + "args"}},
		{"list instead of a map", pod("resources: [a]"), []string{c + "resources"}},
		{
			"quantities", pod("resources: {requests: {cpu: 0.5, memory: 1Gi}, limits: {cpu: 2, memory: lots}}"),
			[]string{c + "resources.limits.memory"},
		},
		{"port name or number", pod("livenessProbe: {httpGet: {port: http}, periodSeconds: 5}, readinessProbe: {httpGet: {port: 80}}, startupProbe: {httpGet: {port: true}}"), []string{c + "startupProbe.httpGet.port"}},
		{
			"fraction for an integer", pod("livenessProbe: {periodSeconds: 1.5}"),
			[]string{c + "livenessProbe.periodSeconds"},
		},
		{
			"integer out of range", pod("livenessProbe: {periodSeconds: 99999999999}"),
			[]string{c + "livenessProbe.periodSeconds"},
		},
		{"null and unknown fields", pod("env: null, notAField: 5, ports: [{containerPort: 80.0}]"), nil},
		{
			"labels", strings.Replace(deployment, "{name: web, namespace: shop}",
				"{name: web, namespace: shop, labels: {a: true, b: 'true'}, annotations: {x: 5}}", 1),
			[]string{"error schema Deployment metadata.annotations.x", "error schema Deployment metadata.labels.a"},
		},
		{
			"labels of a custom kind",
			"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: shop, labels: {a: 1}}\nspec: {a: 1}",
			[]string{"error schema Thing metadata.labels.a"},
		},
		{
			"time", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop, creationTimestamp: yesterday}",
			[]string{"error schema ConfigMap metadata.creationTimestamp"},
		},
		{"no time", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop, creationTimestamp: null}\ndata: {a: b}", nil},
		{
			"number in a ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {a: 5}",
			[]string{"error schema ConfigMap data.a"},
		},
		{"binary data", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\nbinaryData: {a: aGk=, b: '%%'}", []string{"error schema ConfigMap binaryData.b"}},
		{"masked secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\ndata: {password: ‹masked 3f9a1c04 24 bytes›}", []string{"error plaintext-secret Secret data"}},
		{
			"definition", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec: {group: example.com, names: {kind: Thing, plural: 5}, scope: Namespaced, versions: [{name: v1, served: 'yes', storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {default: {x: 1}, enum: [1, a]}}}}}]}",
			[]string{
				"error schema CustomResourceDefinition spec.names.plural",
				"error schema CustomResourceDefinition spec.versions[name=v1].served",
			},
		},
		{"API service", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a.example.com}\nspec: {group: a.example.com, version: 1}", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := load(t, nil) // no schemas
			want(t, check(t, e, subject(t, "prod", tc.object)), tc.want...)
		})
	}
}

// The message has the actual value and the accepted type.
func TestTypeMessages(t *testing.T) {
	e := load(t, nil)
	r := check(t, e, subject(t, "prod",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {a: false}"))
	if len(r.Findings) != 1 ||
		r.Findings[0].Message != "the value is the boolean false, and the API server accepts only a string" ||
		!strings.Contains(r.Findings[0].Hint, "quote") {
		t.Errorf("the findings are %+v", r.Findings)
	}
	off := load(t, map[string]string{"policy/p.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: {schema: {severity: \"off\"}}}\n"})
	want(t, check(t, off, subject(t, "prod",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {a: false}")))
}

// Where a rule is off says nothing about the other environments, whichever comes first.
func TestSchemaIsOffInOneEnvironment(t *testing.T) {
	t.Parallel()
	e := load(t, map[string]string{"policy/p.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: {schema: {environments: {dev: \"off\"}}}}\n"})
	const wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {a: 1}\n"
	dev, prod := subject(t, "dev", wrong), subject(t, "prod", wrong)
	for _, list := range [][]policy.Subject{{dev, prod}, {prod, dev}} {
		want(t, check(t, e, list...), "error schema ConfigMap data.a")
	}
}
