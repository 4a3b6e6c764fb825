package policy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

func object(t *testing.T, text string) manifest.Object {
	t.Helper()
	list, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
	if err != nil || len(list) != 1 {
		t.Fatalf("decode: %v (%d objects)", err, len(list))
	}
	return list[0]
}

func day() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func load(t *testing.T, files map[string]string) *policy.Engine {
	t.Helper()
	e, err := policy.Load(t.Context(), tree(files), policy.Options{
		Now: day(), Environments: []string{"dev", "prod"},
		Parallel: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func subject(t *testing.T, environment string, texts ...string) policy.Subject {
	t.Helper()
	s := policy.Subject{
		Cluster: &policy.Cluster{
			Name: environment + "-1", Environment: environment, KubeVersion: "1.33.2",
			Labels: map[string]string{"region": "eu"},
		},
		App: &policy.App{Name: "web", Namespace: "shop"},
	}
	for _, text := range texts {
		s.Objects = append(s.Objects, policy.Object{Key: text, Object: object(t, text)})
	}
	return s
}

func checkOnce(t *testing.T, e *policy.Engine, subjects ...policy.Subject) *policy.Result {
	t.Helper()
	r, err := e.Check(t.Context(), policy.Input{Subjects: policy.Listed(subjects...)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// check also checks the clusters one by one, which must not change the result.
func check(t *testing.T, e *policy.Engine, subjects ...policy.Subject) *policy.Result {
	t.Helper()
	r := checkOnce(t, e, subjects...)
	parts, err := e.Check(t.Context(), policy.Input{Subjects: clusterByCluster(subjects)})
	if err != nil || !reflect.DeepEqual(parts, r) {
		t.Errorf("in a batch for each cluster: %+v, in one: %+v (%v)", parts, r, err)
	}
	return r
}

// clusterByCluster returns the subjects of each cluster as a batch.
func clusterByCluster(subjects []policy.Subject) policy.Subjects {
	return func(yield func([]policy.Subject, error) bool) {
		for rest := subjects; len(rest) > 0; {
			var batch, others []policy.Subject
			for _, s := range rest {
				if s.Cluster.Name == rest[0].Cluster.Name {
					batch = append(batch, s)
				} else {
					others = append(others, s)
				}
			}
			if rest = others; !yield(batch, nil) {
				return
			}
		}
	}
}

// TestBatches: an error of a batch ends the check.
func TestBatches(t *testing.T) {
	broken := errors.New("a blob is missing")
	first, e := subject(t, "prod", deployment), load(t, nil)
	if r, err := e.Check(t.Context(), policy.Input{Subjects: func(yield func([]policy.Subject, error) bool) {
		if yield([]policy.Subject{first}, nil) {
			yield(nil, broken)
		}
	}}); !errors.Is(err, broken) || r != nil {
		t.Errorf("the result of Check is %+v, the error is %v", r, err)
	}
	if r, err := e.Check(t.Context(), policy.Input{}); err != nil || len(r.Findings) != 0 {
		t.Errorf("without subjects: %+v, %v", r, err)
	}
}

func said(r *policy.Result) []string {
	var out []string
	for _, f := range r.Findings {
		line := fmt.Sprintf("%s %s %s %s", f.Severity, f.Rule, f.Object.Kind, f.Path)
		if f.Exemption != nil {
			line += " (exempt)"
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func want(t *testing.T, r *policy.Result, lines ...string) {
	t.Helper()
	if got := said(r); !slices.Equal(got, lines) {
		t.Errorf("findings:\n  %s\nwant:\n  %s\nnotes: %q", strings.Join(got, "\n  "), strings.Join(lines, "\n  "),
			r.Notes)
		for _, f := range r.Findings {
			t.Log(f.Message)
		}
	}
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      containers:
        - {name: web, image: "registry.example.com:5000/web:1.2.3"}
`

func TestBuiltInRules(t *testing.T) {
	for _, c := range []struct {
		name, object string
		want         []string
	}{
		{"nothing wrong", deployment, nil},
		{
			"no tag", strings.Replace(deployment, "web:1.2.3", "web", 1),
			[]string{"warning image-tag Deployment spec.template.spec.containers[name=web].image"},
		},
		{
			"latest", strings.Replace(deployment, "1.2.3", "latest", 1),
			[]string{"warning image-tag Deployment spec.template.spec.containers[name=web].image"},
		},
		{"digest", strings.Replace(deployment, "web:1.2.3",
			"web@sha256:0123456789012345678901234567890123456789012345678901234567890123", 1), nil},
		{"init container of a CronJob", `apiVersion: batch/v1
kind: CronJob
metadata: {name: c, namespace: shop}
spec: {jobTemplate: {spec: {template: {spec: {initContainers: [{name: i, image: busybox}]}}}}}`, []string{"warning image-tag CronJob spec.jobTemplate.spec.template.spec.initContainers[name=i].image"}},
		{"host access", `apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec:
  hostNetwork: true
  volumes: [{name: run, hostPath: {path: /run}}]
  containers: [{name: a, image: "a:1", ports: [{hostPort: 80}], securityContext: {privileged: true, capabilities: {add: [SYS_ADMIN, CHOWN]}}}]`, []string{
			"warning privileged Pod spec.containers[name=a].securityContext.capabilities.add",
			"warning privileged Pod spec.containers[name=a].securityContext.privileged",
			"warning privileged Pod spec.hostNetwork",
			"warning privileged Pod spec.volumes[name=run].hostPath",
		}},
		{
			"secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\ndata: {password: aHVudGVyMg==}",
			[]string{"error plaintext-secret Secret data"},
		},
		{"masked secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {password: ‹masked 3f9a1c04 24 bytes›}", []string{"error plaintext-secret Secret stringData"}},
		{
			"empty secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\ndata: {password: ''}",
			nil,
		},
		{"secret by SOPS", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\ndata: {password: 'ENC[AES256_GCM,data:CwE4O1s=,iv:2k/QlLM8WWLAJzr2TVfGRPg7GTQNpHmQlSnLDJlZq0E=,tag:pcNpu0jW1Pv9/xJpnPOX0Q==,type:str]'}\nsops: {mac: 'ENC[AES256_GCM,data:CwE4O1s=,iv:2k/QlLM8WWLAJzr2TVfGRPg7GTQNpHmQlSnLDJlZq0E=,tag:pcNpu0jW1Pv9/xJpnPOX0Q==,type:str]'}", nil},
		{"secret with something like SOPS", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {password: 'ENC[hunter2]'}\nsops: {mac: x}", []string{"error plaintext-secret Secret stringData"}},
		{"secret with Data", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nData: {password: aHVudGVyMg==}", []string{"error plaintext-secret Secret Data"}},
		{"list of secrets", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: SecretList, metadata: {name: l}, items: [{metadata: {name: s, namespace: shop}, data: {password: aHVudGVyMg==}}]}]", []string{"error plaintext-secret Secret data"}},
		{
			"secret that only says SOPS",
			"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\ndata: {password: aHVudGVyMg==}\nsops: {mac: x}",
			[]string{"error plaintext-secret Secret data"},
		},
		{"sealed secret", "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: s, namespace: shop}\nspec: {encryptedData: {a: b}}", nil},
		{
			"another namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: kube-system}",
			[]string{"warning namespace-outside-app ConfigMap metadata.namespace"},
		},
		{"cluster-scoped without a list", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}", nil},
		{
			"removed API", "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: p, namespace: shop}",
			[]string{"error api-removed PodDisruptionBudget apiVersion"},
		},
		{
			"removed API that the library has no more",
			"apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: p}",
			[]string{"error api-removed PodSecurityPolicy apiVersion"},
		},
		{"current API", "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: p, namespace: shop}", nil},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, check(t, load(t, nil), subject(t, "prod", c.object)), c.want...) })
	}
}

func TestAPIsOfTheNextVersion(t *testing.T) {
	const flow = "apiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\nmetadata: {name: f}"
	for version, line := range map[string]string{
		"1.28.4":       "warning api-deprecated FlowSchema apiVersion", // deprecated with the next version, 1.29
		"v1.31.0":      "warning api-deprecated FlowSchema apiVersion", // gone in the next version, 1.32
		"1.32.1+k3s1":  "error api-removed FlowSchema apiVersion",
		"not a number": "",
	} {
		s := subject(t, "prod", flow)
		s.Cluster.KubeVersion = version
		if line == "" {
			want(t, check(t, load(t, nil), s))
			continue
		}
		want(t, check(t, load(t, nil), s), line)
	}
}

func TestSeveritiesAndLists(t *testing.T) {
	e := load(t, map[string]string{"policy/policy.yaml": `apiVersion: sluice.dev/v1alpha1
kind: Policy
metadata: {name: acme}
spec:
  rules:
    image-tag: {severity: info, environments: {prod: error, dev: "off"}, allow: ["busybox"]}
    namespace-outside-app: {allow: {web: ["kube-*"], "*": [public]}}
    cluster-scoped: {allow: {cert-manager: ["*"], web: [Namespace]}}
`})
	latest := strings.Replace(deployment, "1.2.3", "latest", 1)
	want(t, check(t, e, subject(t, "prod", latest)),
		"error image-tag Deployment spec.template.spec.containers[name=web].image")
	want(t, check(t, e, subject(t, "dev", latest)))
	want(t, check(t, e, subject(t, "prod",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: shop}\nspec: {containers: [{name: b, image: busybox}]}")))
	want(t, check(t, e, subject(t, "prod",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: kube-system}")))
	want(t, check(t, e, subject(t, "prod", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: public}")))
	want(t, check(t, e, subject(t, "prod", "apiVersion: v1\nkind: Namespace\nmetadata: {name: c}")))
	want(t, check(t, e, subject(t, "prod",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: c}")),
		"error cluster-scoped ClusterRole")
}

// TestClusterEmptied: a cluster that loses everything is an error that an exemption for it can lift.
func TestClusterEmptied(t *testing.T) {
	t.Parallel()
	in := policy.Input{Emptied: []policy.Emptied{
		{Cluster: &policy.Cluster{Name: "dev-1", Environment: "dev"}},
		{Cluster: &policy.Cluster{Name: "prod-1", Environment: "prod"}, Unread: true},
	}}
	const exemption = "apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: rebuild}\nspec: {rule: cluster-emptied, object: \"*\", clusters: [dev-1], reason: it is rebuilt}\n"
	for files, lines := range map[string][]string{
		"":        {"error cluster-emptied", "error cluster-emptied"},
		exemption: {"error cluster-emptied   (exempt)", "error cluster-emptied"},
		"apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec: {rules: {cluster-emptied: {environments: {dev: \"off\"}}}}\n": {"error cluster-emptied"},
	} {
		r, err := load(t, map[string]string{"policy/e.yaml": files}).Check(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, lines...)
		if last := r.Findings[len(r.Findings)-1]; last.Cluster != "prod-1" ||
			!strings.Contains(last.Message, "no longer reads the cluster's file") {
			t.Errorf("the last is %+v", last)
		}
	}
}

func TestExemptions(t *testing.T) {
	rule := func(until string) string {
		return "apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: web-latest}\nspec: {rule: image-tag, object: Deployment shop/w*, environments: [prod], reason: a test image, until: " + until + "}\n"
	}
	latest := strings.Replace(deployment, "1.2.3", "latest", 1)
	at := "image-tag Deployment spec.template.spec.containers[name=web].image"
	want(t, check(t, load(t, map[string]string{"policy/e.yaml": rule("2026-11-20")}), subject(t, "prod", latest)),
		"warning "+at+" (exempt)")
	want(t, check(t, load(t, map[string]string{"policy/e.yaml": rule("2026-11-20")}), subject(t, "dev", latest)),
		"warning "+at)
	expired := check(t, load(t, map[string]string{"policy/e.yaml": rule("2026-11-19")}), subject(t, "prod", latest))
	want(t, expired, "warning exemption-expired Deployment", "warning "+at)
	if m := expired.Findings[0].Message; !strings.Contains(m, "policy/e.yaml:1") ||
		!strings.Contains(m, "a test image") {
		t.Errorf("message %q", m)
	}
}

func TestWhatIsWrongWithTheFiles(t *testing.T) {
	_, err := policy.Load(t.Context(), tree(map[string]string{
		"policy/a.yaml":    "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec:\n  rules:\n    image-tag: {severty: error}\n",
		"policy/b.yaml":    "apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: b}\nspec: {rule: x, object: '*', reason: why, until: soon}\n",
		"policy/c.rego":    "package main\ndeny contains msg if { msg := undefined_function(1) }\n",
		"policy/d.yaml":    "a: b\n",
		"policy/e.yaml":    "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: e}\nspec: {rules: {image-tag: {environments: {nowhere: error}}}}\n",
		"policy/f.rego":    "package main\nimport rego.v1\ndeny contains r.body if { r := http.send({\"url\": \"http://169.254.169.254\"}) }\n",
		"policy/vap.yaml":  "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: v}\nspec: {validations: [{expression: 'object.'}]}\n",
		"policy/vapb.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: v}\nspec: {policyName: gone}\n",
	}), policy.Options{Now: day(), Environments: []string{"dev"}})
	if err == nil {
		t.Fatal("taken")
	}
	for _, part := range []string{
		"policy/a.yaml:6", "unknown key severty", "policy/b.yaml:1", "soon", "policy/c.rego:2", "undefined_function",
		"policy/d.yaml", "nowhere", "http.send", "policy/vap.yaml:1", "names the policy gone",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("nothing says %q in:\n%v", part, err)
		}
	}
	if _, err := policy.Load(t.Context(),
		tree(map[string]string{"policy/a.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec: {rules: {image-tags: {severity: error}}}\n"}), policy.Options{Now: day()}); err == nil || !strings.Contains(err.Error(), `no rule "image-tags"`) {
		t.Errorf("an unknown rule: %v", err)
	}
}

const rules = `# METADATA
# title: the team label
package main

import rego.v1

deny contains msg if {
	input.kind == "Deployment"
	not input.metadata.labels.team
	msg := sprintf("%s on %s has no team", [input.metadata.name, data.sluice.cluster.name])
}

warn_replicas contains {"msg": "fewer replicas than before", "path": "spec.replicas"} if {
	input.spec.replicas < data.sluice.old.spec.replicas
}

violation contains {"msg": "forbidden", "details": {}} if {
	input.metadata.name in data.sluice.parameters.forbidden
	data.sluice.environment == "prod"
}
`

func TestRego(t *testing.T) {
	e := load(t, map[string]string{
		"policy/team.rego": rules,
		"policy/p.yaml":    "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {parameters: {forbidden: [web]}, rules: {main.deny: {environments: {dev: info}}}}\n",
	})
	want(t, check(t, e, subject(t, "prod", deployment), subject(t, "dev", deployment)), "error main.deny Deployment",
		"error main.violation Deployment", "info main.deny Deployment")
	s := subject(t, "dev", strings.Replace(deployment, "spec:\n", "spec:\n  replicas: 1\n", 1))
	s.Objects[0].Old, s.Objects[0].OldKey = object(t, strings.Replace(deployment, "spec:\n", "spec:\n  replicas: 3\n",
		1)), "old"
	r := check(t, e, s)
	want(t, r, "warning main.warn_replicas Deployment spec.replicas", "info main.deny Deployment")
	if r.Findings[1].Message != "web on dev-1 has no team" {
		t.Errorf("message %q", r.Findings[1].Message)
	}
}

func TestRegoOfSeveralClusters(t *testing.T) {
	e := load(t, map[string]string{"policy/team.rego": rules})
	var subjects []policy.Subject
	for i := range 50 {
		s := subject(t, "prod", deployment)
		s.Cluster.Name = fmt.Sprintf("prod-%d", i)
		subjects = append(subjects, s)
	}
	for _, f := range check(t, e, subjects...).Findings {
		if f.Message != "web on "+f.Cluster+" has no team" {
			t.Fatalf("cluster %s got %q", f.Cluster, f.Message)
		}
	}
}

// Policies from before Rego v1, as conftest's of many repositories, work beside newer ones. What is neither is a mistake of v1,
// and older modules may call no more than newer ones.
func TestOlderRego(t *testing.T) {
	const old = "package main\n\nimport data.helper\n\ndeny[msg] {\n  helper.is_deployment\n  not input.metadata.labels.team\n  msg = sprintf(\"%s has no team\", [input.metadata.name])\n}\n"
	e := load(t, map[string]string{
		"policy/old.rego":    old,
		"policy/helper.rego": "package helper\n\nis_deployment if input.kind == \"Deployment\"\n",
	})
	want(t, check(t, e, subject(t, "prod", deployment)), "error main.deny Deployment")
	for text, want := range map[string]string{
		"package main\n\ndeny[msg] { msg := }\n":                                                           "unexpected } token",
		"package main\n\ndeny[msg] {\n  msg := http.send({\"method\": \"get\", \"url\": \"x\"}).body\n}\n": "http.send is not allowed",
	} {
		_, err := policy.Load(t.Context(), tree(map[string]string{"policy/x.rego": text}), policy.Options{Now: day()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestRegoThatFails(t *testing.T) {
	e := load(t, map[string]string{"policy/x.rego": "package main\ndeny contains msg if { msg := sprintf(\"%d\", [to_number(input.kind)]) }\n"})
	want(t, check(t, e, subject(t, "prod", deployment)), "error policy-error Deployment")
}

func TestRegoTests(t *testing.T) {
	files := map[string]string{
		"policy/team.rego": rules,
		"policy/team_test.rego": `package main_test
import rego.v1
import data.main
test_no_team if { count(main.deny) == 1 with input as {"kind": "Deployment", "metadata": {"name": "web"}} with data.sluice.cluster as {"name": "a"} }
test_wrong if { count(main.deny) == 5 with input as {"kind": "Deployment", "metadata": {"name": "web"}} }
`,
	}
	results, err := policy.Test(t.Context(), tree(files), "", policy.Options{Now: day()})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprintf("%s %s:%d %t", r.Name, r.File, r.Line, r.Pass))
	}
	if w := []string{
		"main_test.test_no_team policy/team_test.rego:4 true",
		"main_test.test_wrong policy/team_test.rego:5 false",
	}; !slices.Equal(got, w) {
		t.Errorf("the result is %q, want %q", got, w)
	}
	if results, err = policy.Test(t.Context(), tree(files), "no_team", policy.Options{Now: day()}); err != nil ||
		len(results) != 1 {
		t.Errorf("filtered: %d results, %v", len(results), err)
	}
}

const admissionPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
      - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  matchConditions: [{name: not-exempt, expression: "object.metadata.name != 'exempt'"}]
  variables: [{name: most, expression: "int(params.data.most)"}]
  validations:
    - expression: "object.spec.replicas <= variables.most"
      messageExpression: "'at most ' + string(variables.most) + ' replicas, not ' + string(object.spec.replicas)"
    - expression: "oldObject == null || object.spec.replicas >= oldObject.spec.replicas"
      message: never fewer
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Warn], paramRef: {name: limits, parameterNotFoundAction: Deny}, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data: {most: "5"}
`

func TestAdmissionPolicies(t *testing.T) {
	e := load(t, map[string]string{"policy/replicas.yaml": admissionPolicy})
	with := func(n int) string {
		return strings.Replace(deployment, "spec:\n", fmt.Sprintf("spec:\n  replicas: %d\n", n), 1)
	}
	want(t, check(t, e, subject(t, "prod", with(5))))
	r := check(t, e, subject(t, "prod", with(6)))
	want(t, r, "warning replicas Deployment")
	if r.Findings[0].Message != "at most 5 replicas, not 6" {
		t.Errorf("message %q", r.Findings[0].Message)
	}
	want(t, check(t, e, subject(t, "prod", strings.Replace(with(6), "name: web, namespace", "name: exempt, namespace",
		1))))
	s := subject(t, "prod", with(1))
	s.Objects[0].Old, s.Objects[0].OldKey = object(t, with(2)), "old"
	want(t, check(t, e, s), "warning replicas Deployment")
	want(t, check(t, load(t, map[string]string{"policy/replicas.yaml": strings.Replace(admissionPolicy,
		"metadata.name: shop", "metadata.name: other", 1)}), subject(t, "prod", with(6))))
	// With failurePolicy Fail, an expression that fails denies the object.
	want(t, check(t, e, subject(t, "prod", deployment)), "warning replicas Deployment")
}

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [size]
              x-kubernetes-validations: [{rule: "self.size != 13", message: "thirteen is unlucky"}]
              properties:
                size: {type: integer, minimum: 1}
                color: {type: string, enum: [red, blue]}
`

func TestCustomResources(t *testing.T) {
	e := load(t, nil)
	widget := func(spec string) string {
		return "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: shop}\nspec: " + spec + "\n"
	}
	with := func(spec string) policy.Subject { return subject(t, "prod", definition, widget(spec)) }
	want(t, check(t, e, with("{size: 1, color: red}")))
	want(t, check(t, e, with("{size: big}")), "error custom-resource-schema Widget spec.size")
	want(t, check(t, e, with("{color: green}")), "error custom-resource-schema Widget spec.color",
		"error custom-resource-schema Widget spec.size")
	want(t, check(t, e, with("{size: 13}")), "error custom-resource-schema Widget spec")
	want(t, check(t, e, with("{size: 1, colour: red}")), "warning custom-resource-schema Widget spec.colour")
	want(t, check(t, e, with("{size: 1, color: ‹masked 3f9a1c04 24 bytes›}")))
	want(t, check(t, e, subject(t, "prod", definition, strings.Replace(widget("{size: 1}"), "/v1", "/v2", 1))),
		"error custom-resource-schema Widget apiVersion")

	s := subject(t, "prod", widget("{size: big}"))
	r, err := e.Check(t.Context(), policy.Input{
		Subjects:     policy.Listed(s),
		Surroundings: around{definitions: []policy.Object{{Key: "d", Object: object(t, definition)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, "error custom-resource-schema Widget spec.size")
}

type around struct {
	definitions []policy.Object
	owner       string
	had         []string // apps
}

func (a around) Had(_ context.Context, _, app string, _ manifest.Identity) (bool, error) {
	return slices.Contains(a.had, app), nil
}

func (a around) Definitions(context.Context, string) ([]policy.Object, error) {
	return a.definitions, nil
}

func (a around) Size(context.Context, string, string) (apps, objects int, err error) {
	return 3, 12, nil
}

func (a around) Owners(_ context.Context, _ string, id manifest.Identity) ([]string, error) {
	if id.Kind == "ConfigMap" && a.owner != "" {
		return strings.Fields(a.owner), nil
	}
	return nil, nil
}

func TestTwoOwners(t *testing.T) {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}"
	e := load(t, nil)
	a, b, c := subject(t, "prod", config), subject(t, "prod", config), subject(t, "dev", config)
	b.App, c.App = &policy.App{Name: "other", Namespace: "shop"}, &policy.App{Name: "other", Namespace: "shop"}
	want(t, check(t, e, a, b, c), "error duplicate-owner ConfigMap", "error duplicate-owner ConfigMap")
	r, err := e.Check(t.Context(), policy.Input{Subjects: policy.Listed(a), Surroundings: around{owner: "third"}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, "error duplicate-owner ConfigMap")
}

func TestCompare(t *testing.T) {
	f := func(rule, cluster, message string) policy.Finding {
		return policy.Finding{
			Rule: rule, Cluster: cluster, Message: message, Path: "spec",
			Severity: policy.SeverityError,
		}
	}
	exempt := f("c", "a", "c")
	exempt.Exemption = &policy.Exempt{Reason: "why"}
	got := policy.Compare([]policy.Finding{f("a", "1", "was 1"), f("b", "1", "b")},
		[]policy.Finding{f("a", "1", "was 2"), f("a", "2", "was 2"), exempt})
	if len(got.Existing) != 1 || len(got.Introduced) != 1 || got.Introduced[0].Cluster != "2" ||
		len(got.Resolved) != 1 || got.Resolved[0].Rule != "b" || len(got.Exempted) != 1 {
		t.Errorf("the result of Compare is %+v", got)
	}
}

func TestEqualObjectsAreJudgedOnce(t *testing.T) {
	e := load(t, map[string]string{"policy/slow.rego": "package main\ndeny contains msg if { count([x | some x in numbers.range(1, 20000); x % 7 == 0]) > 1; msg := input.kind }\n"})
	var subjects []policy.Subject
	for i := range 400 {
		s := subject(t, "prod", deployment)
		s.Cluster.Name = fmt.Sprint(i)
		subjects = append(subjects, s)
	}
	var one, all *policy.Result
	single := testing.AllocsPerRun(1, func() { one = checkOnce(t, e, subjects[:1]...) })
	many := testing.AllocsPerRun(1, func() { all = checkOnce(t, e, subjects...) })
	// judged one by one, they would take 400 times as many
	if len(all.Findings) != 400*len(one.Findings) || many > 3*single {
		t.Errorf("%d findings with %.0f allocations; one takes %.0f", len(all.Findings), many, single)
	}
}

// Most objects have no finding. One more of them costs the text of its circumstances, once for each rule.
func TestObjectsWithoutFindingsCostLittle(t *testing.T) {
	e := load(t, nil)
	const more = 400
	var subjects []policy.Subject
	for i := range more + 1 {
		s := subject(t, "prod", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n")
		s.Cluster.Name = fmt.Sprint(i)
		subjects = append(subjects, s)
	}
	var found int
	single := testing.AllocsPerRun(2, func() { found += len(checkOnce(t, e, subjects[:1]...).Findings) })
	many := testing.AllocsPerRun(2, func() { found += len(checkOnce(t, e, subjects...).Findings) })
	if each := (many - single) / more; each > 6 || found > 0 {
		t.Errorf("%.1f allocations for one more object, %d findings", each, found)
	}
}

func TestEveryRuleHasAPage(t *testing.T) {
	index, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range policy.BuiltIn() {
		page, err := os.ReadFile("../docs/policy/" + r.ID + ".md")
		if err != nil || !strings.Contains(string(page), fmt.Sprintf("Rule `%s`, default severity **%s**", r.ID,
			r.Severity)) {
			t.Errorf("%s: the error is %v", r.ID, err)
		}
		if !strings.Contains(string(index), fmt.Sprintf("| [`%s`](policy/%s.md) | %s |", r.ID, r.ID, r.Severity)) {
			t.Errorf("docs/policy.md does not list %s", r.ID)
		}
	}
}
