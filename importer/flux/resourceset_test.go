package flux_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// set is a ResourceSet with some fields of its spec.
func set(spec string) string {
	return "-- clusters/prod/set.yaml --\n# tenants\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: set, namespace: apps}\nspec:\n" + indent(spec)
}

func inputProvider(name, spec string) string {
	return providerIn("clusters/prod/"+name+".yaml", name, spec)
}

func providerIn(file, name, spec string) string {
	return "-- " + file + " --\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSetInputProvider\nmetadata: {name: " + name + ", namespace: apps, labels: {set: tenants}}\nspec: " + spec + "\n"
}

func manyProviders(n int) string {
	var out strings.Builder
	out.WriteString("-- clusters/prod/providers.yaml --\n")
	for i := range n {
		fmt.Fprintf(&out, "---\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSetInputProvider\nmetadata: {name: p%d, namespace: apps, labels: {set: tenants}}\nspec: {type: Static}\n", i)
	}
	return out.String()
}

const tenant = "resources:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: \"<< inputs.tenant >>\", namespace: apps}}\n"

// The objects that a ResourceSet brings are followed like those of a Kustomization. They have the place of the
// ResourceSet.
func TestResourceSet(t *testing.T) {
	all := units(t, sync+configMap+set(`inputs: [{tenant: a}, {tenant: b}]
dependsOn:
- {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: flux-system, namespace: flux-system}
- {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: x}
resources:
- apiVersion: kustomize.toolkit.fluxcd.io/v1
  kind: Kustomization
  metadata: {name: "app-<< inputs.tenant >>", namespace: flux-system}
  spec:
    interval: 10m
    path: ./app
    prune: true
    targetNamespace: << inputs.tenant >>
    sourceRef: {kind: GitRepository, name: flux-system}
- apiVersion: v1
  kind: Namespace
  metadata: {name: "<< inputs.tenant >>"}
`))
	u := all["ResourceSet/set"]
	if u.Err != nil || len(objects(t, u)) != 2 || u.Origin.String() != "clusters/prod/set.yaml:2" || !u.Prune ||
		u.Orphan || u.Force || !slices.Contains(u.Reads, "clusters/prod/set.yaml") || len(u.DependsOn) != 1 {
		t.Errorf("the unit is %+v", u)
	}
	for _, name := range []string{"a", "b"} {
		child := all["Kustomization/app-"+name]
		if child.Err != nil || !strings.Contains(encoded(t, objects(t, child)), `"namespace":"`+name+`"`) ||
			child.Parent.Name != "set" || child.Origin.String() != "clusters/prod/set.yaml:2" {
			t.Errorf("the child is %+v", child)
		}
	}
	if got := encoded(t, objects(t, all["Kustomization/flux-system"])); strings.Contains(got, `"ResourceSet"`) {
		t.Errorf("the ResourceSet is applied as it is: %s", got)
	}
	suspended := strings.Replace(set(tenant), "namespace: apps}",
		"namespace: apps, annotations: {fluxcd.controlplane.io/reconcile: Disabled}}", 1)
	if u := units(t, sync+suspended)["ResourceSet/set"]; !u.Suspended || u.Err != nil {
		t.Errorf("the unit is %+v", u)
	}
	forced := strings.Replace(set("inputs: [{tenant: a}]\n"+tenant), "namespace: apps}",
		"namespace: apps, annotations: {fluxcd.controlplane.io/force: enabled}}", 1)
	if u := units(t, sync+forced)["ResourceSet/set"]; !u.Force || u.Err != nil {
		t.Errorf("the unit is %+v", u)
	}
}

// Providers can be in files that are read later, and come out of other ResourceSets.
func TestProvidersArriveLater(t *testing.T) {
	generated := "-- clusters/prod/z.yaml --\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: z, namespace: apps}\nspec:\n  resources:\n" +
		"  - {apiVersion: fluxcd.controlplane.io/v1, kind: ResourceSetInputProvider, metadata: {name: late, namespace: apps, labels: {set: tenants}}, spec: {type: Static, defaultValues: {tenant: late}}}\n"
	for name, c := range map[string]struct{ files, want string }{
		"by name": {set("inputsFrom: [{name: late}]\n"+tenant) + app("") +
			providerIn("app/provider.yaml", "late", "{type: Static, defaultValues: {tenant: late}}"), `"name":"late"`},
		"by label": {set("inputsFrom: [{selector: {matchLabels: {set: tenants}}}]\n"+tenant) + app("") +
			providerIn("app/provider.yaml", "late", "{type: Static, defaultValues: {tenant: late}}"), `"name":"late"`},
		"of a set":      {set("inputsFrom: [{name: late}]\n"+tenant) + generated, `"name":"late"`},
		"none by label": {set("inputsFrom: [{selector: {matchLabels: {set: none}}}]\n" + tenant), `null`},
	} {
		t.Run(name, func(t *testing.T) {
			u, ok := units(t, sync+c.files)["ResourceSet/set"]
			if got := encoded(t, objects(t, u)); !ok || u.Err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%v\nthe result of encoded is\n%s", u.Err, got)
			}
			if strings.Contains(c.files, "-- app/provider.yaml") && !slices.Contains(u.Reads, "app/provider.yaml") {
				t.Errorf("the file of the provider is not among %v", u.Reads)
			}
		})
	}
	// The set waits for a named provider that a later set brings. The selection of the first attempt is discarded.
	twice := set("inputsFrom: [{selector: {matchLabels: {set: tenants}}}, {name: late}]\n"+tenant) +
		strings.Replace(generated, "  resources:",
			"  inputsFrom: [{selector: {matchLabels: {set: none}}}, {name: one}]\n  resources:", 1) +
		strings.Replace(inputProvider("one", "{type: Static, defaultValues: {tenant: one}}"), "set: tenants",
			"set: others", 1)
	if u := units(t, sync+twice)["ResourceSet/set"]; u.Err != nil ||
		!strings.Contains(encoded(t, objects(t, u)), `"name":"late"`) {
		t.Errorf("%v\nencoded is\n%s", u.Err, encoded(t, objects(t, u)))
	}
	// The set that brings the named provider brings a selected one too, in the files of a Kustomization. The order of
	// the sets does not matter.
	for _, other := range []string{"a", "z"} {
		bringing := "-- clusters/prod/" + other +
			".yaml --\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: " + other +
			", namespace: apps}\nspec:\n  inputsFrom: [{selector: {matchLabels: {set: none}}}, {name: one}]\n  resources:\n" +
			"  - {apiVersion: fluxcd.controlplane.io/v1, kind: ResourceSetInputProvider, metadata: {name: late, namespace: apps, labels: {set: others}}, spec: {type: Static, defaultValues: {tenant: late}}}\n" +
			"  - {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: more, namespace: flux-system}, spec: {path: ./app, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}}\n" +
			providerIn("app/selected.yaml", "selected", "{type: Static, defaultValues: {tenant: selected}}") +
			strings.Replace(inputProvider("one", "{type: Static, defaultValues: {tenant: one}}"), "set: tenants",
				"set: others", 1)
		u := units(t, sync+set("inputsFrom: [{selector: {matchLabels: {set: tenants}}}, {name: late}]\n"+
			tenant)+bringing)["ResourceSet/set"]
		if got := encoded(t, objects(t, u)); u.Err != nil || !strings.Contains(got, `"name":"late"`) ||
			!strings.Contains(got, `"name":"selected"`) {
			t.Errorf("%s.yaml: %v\n%s", other, u.Err, got)
		}
	}
	// Two sets that select by labels, the second of which brings a provider of the first.
	both := set("inputsFrom: [{selector: {matchLabels: {set: tenants}}}]\n"+tenant) +
		inputProvider("one", "{type: Static, defaultValues: {tenant: one}}") +
		strings.Replace(generated, "  resources:",
			"  inputsFrom: [{selector: {matchLabels: {set: tenants}}}]\n  resources:", 1)
	if u := units(t, sync+both)["ResourceSet/set"]; u.Err == nil ||
		!strings.Contains(u.Err.Error(), "its selector matches providers that another ResourceSet brings") ||
		!u.Brings {
		t.Errorf("the unit is %+v", u)
	}
}

// A selector counts the providers of the whole cluster. If some are unknown, so are the objects of the ResourceSet.
func TestUnknownProviders(t *testing.T) {
	const file = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSetInputProvider\nmetadata: {name: late, namespace: apps, labels: {set: tenants}}\nspec: {type: Static, defaultValues: {tenant: late}}\n"
	const provided = "-- app/provider.yaml --\n" + file
	other := func(annotations, spec string) string {
		return "-- clusters/prod/other.yaml --\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: other, namespace: apps, annotations: {" + annotations + "}}\nspec:\n" + indent(spec)
	}
	const disabled = "fluxcd.controlplane.io/reconcile: disabled"
	selecting := set("inputsFrom: [{selector: {matchLabels: {set: tenants}}}]\n" + tenant)
	for name, c := range map[string]struct{ files, want string }{
		"known": {app("") + provided, ""},
		"a failed build": {
			app("") + provided + "-- app/broken.yaml --\na: [\n",
			"may match providers of Kustomization flux-system/app, which cannot be built",
		},
		"a missing directory": {
			strings.Replace(app(""), "./app", "./none", 1) + provided,
			"may match providers of Kustomization flux-system/app, which cannot be built",
		},
		"suspended": {
			app("suspend: true\n") + provided,
			"may match providers of Kustomization flux-system/app, which is suspended",
		},
		"suspended, no Flux": {app("suspend: true\n") + configMap, ""},
		"a suspended set": {
			other(disabled, "resourcesTemplate: |\n"+indent(file)),
			"may match providers of ResourceSet apps/other, which is suspended",
		},
		"another failed set":    {other("", "inputsFrom: [{name: none}]\n"+tenant), ""},
		"a suspended other set": {other(disabled, tenant), ""},
		"a set of a server": {
			other("", "inputsFrom: [{name: prs}]\nresourcesTemplate: |\n"+indent(file)) +
				strings.Replace(inputProvider("prs", "{type: GitHubPullRequest}"), "set: tenants", "set: prs", 1),
			"may match providers of ResourceSet apps/other, which cannot be built",
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := units(t, sync+selecting+c.files)["ResourceSet/set"]
			if c.want == "" && u.Err != nil || c.want != "" && (u.Err == nil ||
				!strings.Contains(u.Err.Error(), c.want) || !u.Brings) {
				t.Errorf("the unit is %+v, want %q", u, c.want)
			}
		})
	}
	// Without a selector, unknown objects change nothing.
	if u := units(t, sync+set("inputs: [{tenant: a}]\n"+
		tenant)+app("suspend: true\n")+provided)["ResourceSet/set"]; u.Err != nil {
		t.Error(u.Err)
	}
}

// Each of these fails the ResourceSet alone.
func TestResourceSetErrors(t *testing.T) {
	ofProvider := func(name string) string {
		return set("inputsFrom: [{name: one}]\n"+strings.Replace(tenant, "inputs.tenant", name, 1)) +
			inputProvider("one", "{type: Static, defaultValues: {tenant: a}}")
	}
	one := func(object string) string { return "inputs: [{tenant: a}]\nresources:\n- " + object + "\n" }
	for name, c := range map[string]struct{ files, want string }{
		"a missing input": {
			set("inputs: [{other: a}]\n" + tenant),
			`spec.resources[0]: template: template:4:11: executing "template" at <inputs>: map has no entry for key "tenant"`,
		},
		"no template": {
			set("inputs: [{}]\nresourcesTemplate: \"<< if >>\"\n"),
			"spec.resourcesTemplate: template: template:1: missing value for if",
		},
		"no object": {
			set(one("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: apps}}")),
			"ConfigMap needs metadata.name",
		},
		"a missing provider": {
			set("inputsFrom: [{name: none}]\n" + tenant),
			"spec.inputsFrom[0]: ResourceSetInputProvider apps/none is not in Git (add it)",
		},
		"a provider of a server": {
			set("inputsFrom: [{name: prs}]\n"+tenant) +
				inputProvider("prs", `{type: GitHubPullRequest, url: "https://github.com/acme/app"}`),
			"ResourceSetInputProvider apps/prs of the type GitHubPullRequest asks a server for its inputs",
		},
		"a suspended provider": {set("inputsFrom: [{name: p}]\n"+tenant) +
			strings.Replace(inputProvider("p", "{type: Static}"), "labels:",
				"annotations: {fluxcd.controlplane.io/reconcile: disabled}, labels:", 1), "apps/p is suspended"},
		"neither name nor selector": {
			set("inputsFrom: [{}]\n" + tenant),
			"spec.inputsFrom[0]: exactly one of name and selector must be set",
		},
		"a bad selector": {set("inputsFrom: [{selector: {matchExpressions: [{key: a, operator: Like}]}}]\n" +
			tenant), "spec.inputsFrom[0].selector:"},
		"an unknown strategy": {
			set("inputStrategy: {name: Zip}\n" + tenant),
			`spec.inputStrategy: "Zip" is not known`,
		},
		"many permutations": {set("inputStrategy: {name: Permute}\ninputs: [" +
			strings.Repeat("{tenant: a},", 10_001) + "]\n" + tenant), "more than 10000 permutations"},
		"the id of inputs": {
			ofProvider("inputs.id"),
			"inputs.id of a ResourceSetInputProvider is not supported",
		},
		"the id in JSON": {
			ofProvider("inputs | toJson | sha256sum"),
			"inputs.id of a ResourceSetInputProvider is not supported",
		},
		"the id as text": {
			ofProvider("inputs.id | toString | sha256sum"),
			"inputs.id of a ResourceSetInputProvider is not supported",
		},
		"the id by printf": {
			ofProvider("printf `%d` inputs.id"),
			"inputs.id of a ResourceSetInputProvider is not supported",
		},
		"a shard by the id": {
			ofProvider("mod inputs.id 4 | printf `shard-%d`"),
			"inputs.id of a ResourceSetInputProvider is not supported",
		},
		"a condition on the id": {
			ofProvider("if eq (mod (int inputs.id) 3) 2 >>a<< else >>b<< end"),
			"inputs.id of a ResourceSetInputProvider is not supported",
		},
		"an error with the id": {
			ofProvider("fail inputs.id"),
			"inputs.id of a ResourceSetInputProvider is not supported",
		},
		"many permuted values": {
			set("inputStrategy: {name: Permute}\ninputs: ["+strings.Repeat("{a: b},", 5_000)+
				"]\ninputsFrom: [{selector: {matchLabels: {set: tenants}}}]\n"+tenant) + manyProviders(300),
			"spec.inputStrategy: 5000 permutations × 301 providers exceed the limit of 1048576 values",
		},
		"a random number": {set("inputs: [{tenant: a}]\n" +
			strings.Replace(tenant, "inputs.tenant", "randInt 1 9", 1)), "the function randInt is not supported"},
		"the clock": {
			set("inputs: [{tenant: a}]\n" + strings.Replace(tenant, "inputs.tenant", "now", 1)),
			`function "now" not defined`,
		},
		"the environment": {set("inputs: [{tenant: a}]\n" +
			strings.Replace(tenant, "inputs.tenant", "env `HOME`", 1)), `function "env" not defined`},
		"a long outcome": {
			set("resourcesTemplate: \"<< repeat 5000000 `x` >>\"\n"),
			"the outcome has more than 4 MiB",
		},
		"a loop without end": {
			set("resourcesTemplate: \"<< range 100000000000 >><< end >>\"\n"),
			"spec.resourcesTemplate: it is not done after 5000000 rounds of loops and calls, so it was stopped",
		},
		"copyFrom":              {set(one("{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {fluxcd.controlplane.io/copyFrom: a/b}}}")), "Secret default/s has the annotation fluxcd.controlplane.io/copyFrom, which is not supported"},
		"convertKubeConfigFrom": {set(one("{apiVersion: v1, kind: ConfigMap, metadata: {name: s, annotations: {fluxcd.controlplane.io/convertKubeConfigFrom: a/b}}}")), "the annotation fluxcd.controlplane.io/convertKubeConfigFrom, which is not supported"},
		"checksumFrom":          {set(one("{apiVersion: apps/v1, kind: Deployment, metadata: {name: s}, spec: {template: {metadata: {annotations: {fluxcd.controlplane.io/checksumFrom: ConfigMap/a/b}}}}}")), "the annotation fluxcd.controlplane.io/checksumFrom, which is not supported"},
		"steps and resources": {
			set("steps: [{name: a, resourcesTemplate: x}]\n" + tenant),
			"spec.steps cannot be used with spec.resources",
		},
		"an empty step": {
			set("inputs: [{n: 1}]\nsteps: [{name: a}]\n"),
			"spec.steps[0] a: it has neither resources nor resourcesTemplate",
		},
		"two steps of one name": {
			set("steps: [{name: a, resourcesTemplate: x}, {name: a, resourcesTemplate: x}]\n"),
			"spec.steps[1]: another step has the name \"a\" too",
		},
		"one object in two steps": {set("steps:\n- {name: a, resourcesTemplate: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\"}\n- {name: b, resourcesTemplate: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\"}\n"), "ConfigMap default/x is in the steps a and b"},
		"a failed step": {
			set("steps:\n- {name: a, resourcesTemplate: \"<< fail `no` >>\"}\n"),
			"spec.steps[0] a: resourcesTemplate: template: template:1:3: executing \"template\" at <fail `no`>: error calling fail: no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a loop without end" && testing.Short() {
				t.Skip("five million rounds take seconds")
			}
			all := units(t, sync+app("")+configMap+c.files)
			u := all["ResourceSet/set"]
			if u.Err == nil || !strings.Contains(u.Err.Error(), c.want) ||
				u.Origin.String() != "clusters/prod/set.yaml:2" {
				t.Errorf("%s: the error is %v, want %q", u.Origin, u.Err, c.want)
			}
			if server := name == "a provider of a server"; u.Brings == server { // the commit lacks none of its objects
				t.Errorf("brings: %v", u.Brings)
			}
			if other := all["Kustomization/app"]; other.Err != nil || len(objects(t, other)) != 1 {
				t.Errorf("the failure spread: %v", other.Err)
			}
		})
	}
}

// Inputs are those of the operator: integers beyond int64 are floats, and the inputs of the ResourceSet itself get no
// id.
func TestResourceSetInputs(t *testing.T) {
	object := func(text string) string {
		return "resources:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: apps}, data: {v: \"" +
			text + "\"}}\n"
	}
	for name, c := range map[string]struct{ files, want string }{
		"a large integer": {
			set("inputs: [{size: 18446744073709551615}]\n" + object("v<< inputs.size >>")),
			`"v":"v1.8446744073709552e+19"`,
		},
		"a large integer of a provider": {
			set("inputsFrom: [{name: one}]\n"+object("v<< inputs.size >>")) +
				inputProvider("one", "{type: Static, defaultValues: {size: 18446744073709551615}}"),
			`"v":"v1.8446744073709552e+19"`,
		},
		"the keys of a provider": {
			set("inputsFrom: [{name: one}]\n"+
				object("<< len inputs >> << keys inputs | join `,` >> << kindOf (get inputs `id`) >>")) +
				inputProvider("one", "{type: Static, defaultValues: {n: 1}}"), `"v":"3 id,n,provider string"`,
		},
		"null": {set("inputs: [null]\n" + object("<< len inputs >> inputs")), `"v":"1 inputs"`},
		"disabled, no inputs": {
			set("resources:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: apps, annotations: {fluxcd.controlplane.io/reconcile: disabled}}}\n"), `"name":"x"`,
		},
		"an id of its own": {set("inputs: [{id: tenant-1}]\n" + object("<< inputs.id >>")), `"v":"tenant-1"`},
		"the keys": {
			set("inputs: [{n: 1}]\n" +
				object("<< len inputs >> << keys inputs | join `,` >> << hasKey inputs `id` >>")),
			`"v":"2 n,provider false"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := units(t, sync+c.files)["ResourceSet/set"]
			if got := encoded(t, objects(t, u)); u.Err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%v\nthe result of encoded is\n%s, want %s", u.Err, got, c.want)
			}
		})
	}
}
