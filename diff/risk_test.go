package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
)

const daemon = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: ops}\nspec:\n" +
	"  selector: {matchLabels: {app: agent}}\n  template:\n    metadata: {labels: {app: agent}}\n    spec:\n" +
	"      containers:\n      - {name: agent, image: \"agent:1\"}\n"

func TestHostAccess(t *testing.T) {
	with := func(old, text string) string { return strings.Replace(daemon, old, text, 1) }
	container, spec := "{name: agent, image: \"agent:1\"}", "labels: {app: agent}}\n    spec:\n"
	for name, tc := range map[string]struct{ before, after, message, path string }{
		"privileged": {
			daemon, with(container, `{name: agent, image: "agent:1", securityContext: {privileged: true}}`),
			"the pods newly have all rights in container agent",
			"spec.template.spec.containers[name=agent].securityContext.privileged",
		},
		"capability": {
			daemon, with(container,
				`{name: agent, image: "agent:1", securityContext: {capabilities: {add: [CAP_SYS_ADMIN, CHOWN]}}}`),
			"the pods newly have the capability SYS_ADMIN in container agent",
			"spec.template.spec.containers[name=agent].securityContext.capabilities.add",
		},
		"network of a new workload": {
			"", with(spec, spec+"      hostNetwork: true\n"), "the pods newly have the network of the node",
			"spec.template.spec.hostNetwork",
		},
		"folder beside what it has": {
			with(spec, spec+"      hostNetwork: true\n"),
			with(spec, spec+"      hostNetwork: true\n      volumes: [{name: root, hostPath: {path: /}}]\n"),
			"the pods newly have the folder / of the node", "spec.template.spec.volumes[name=root]",
		},
		"kept": {
			with(spec, spec+"      hostPID: true\n"), with(spec, spec+"      hostPID: true\n      nodeName: a\n"), "", "",
		},
		"given up": {with(spec, spec+"      hostPID: true\n"), daemon, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			checkEffect(t, change(t, tc.before, tc.after), diff.EffectHostAccess, tc.message, tc.path)
		})
	}
}

func checkEffect(t *testing.T, c *diff.ObjectChange, name diff.EffectName, message, path string) {
	t.Helper()
	i := slices.IndexFunc(c.Effects, func(e diff.Effect) bool { return e.Name == name })
	switch {
	case message == "" && i < 0:
	case message == "":
		t.Errorf("unexpected effect %+v", c.Effects[i])
	case i < 0:
		t.Errorf("no effect %s in %+v", name, c.Effects)
	case c.Effects[i].Message != message || c.Effects[i].Path != path || c.Effects[i].Risk != diff.RiskHigh:
		t.Errorf("got %+v, want high %q at %s", c.Effects[i], message, path)
	case c.Risk.Rank() > diff.RiskHigh.Rank():
		t.Errorf("risk of the change: got %s, want high or graver", c.Risk)
	}
}

func TestExposed(t *testing.T) {
	const (
		service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec:\n  ports: [{port: 80}]\n"
		policy  = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\n" +
			"spec:\n  podSelector: {}\n"
		closed = policy + "  ingress: [{from: [{podSelector: {matchLabels: {app: proxy}}}]}]\n"
	)
	balancer := service + "  type: LoadBalancer\n"
	annotated := func(text string) string {
		return strings.Replace(balancer, "namespace: shop", "namespace: shop, annotations: {"+text+"}", 1)
	}
	for name, tc := range map[string]struct{ before, after, message, path string }{
		"load balancer":     {service, balancer, "the Service is newly reachable from everywhere through a load balancer", "spec.type"},
		"new load balancer": {"", balancer, "the Service is newly reachable from everywhere through a load balancer", "spec.type"},
		"no longer internal": {
			strings.Replace(balancer, "namespace: shop",
				"namespace: shop, annotations: {networking.gke.io/load-balancer-type: Internal}", 1), balancer,
			"the Service is newly reachable from everywhere through a load balancer", "spec.type",
		},
		"no more source ranges": {
			balancer + "  loadBalancerSourceRanges: [10.0.0.0/8]\n", balancer,
			"the Service is newly reachable from everywhere through a load balancer", "spec.type",
		},
		"another source range": {
			balancer + "  loadBalancerSourceRanges: [10.0.0.0/8]\n",
			balancer + "  loadBalancerSourceRanges: [10.0.0.0/8, 192.0.2.0/24]\n",
			"the Service is newly reachable from 192.0.2.0/24 through a load balancer", "spec.loadBalancerSourceRanges",
		},
		"node port": {service, service + "  type: NodePort\n", "the Service is newly reachable at a port of each node", "spec.type"},
		"address": {
			service, service + "  externalIPs: [192.0.2.1]\n", "the Service is newly reachable at the address 192.0.2.1",
			"spec.externalIPs",
		},
		"fewer":   {balancer, balancer + "  loadBalancerSourceRanges: [10.0.0.0/8]\n", "", ""},
		"closed":  {balancer, service, "", ""},
		"another": {balancer, balancer + "  sessionAffinity: ClientIP\n", "", ""},

		"policy removed": {closed, "", "pods that no other NetworkPolicy selects accept and send any traffic", ""},
		"everybody": {
			closed, policy + "  ingress: [{}]\n", "the policy newly allows incoming traffic from everybody at all ports",
			"spec.ingress[0]",
		},
		"everybody at a port": {
			closed, closed + "  egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}], ports: [{port: 443}]}]\n",
			"the policy newly allows outgoing traffic to everybody at port 443", "spec.egress[0]",
		},
		"no longer restricted": {
			closed, closed + "  policyTypes: [Egress]\n", "the policy no longer restricts incoming traffic", "spec.policyTypes",
		},
		"other pods": {
			policy + "  ingress: []\n", strings.Replace(policy, "podSelector: {}", "podSelector: {matchLabels: {app: none}}", 1) + "  ingress: []\n",
			"the policy selects other pods: those that it leaves may accept and send any traffic", "spec.podSelector",
		},
		"more ports": {
			policy + "  ingress: [{ports: [{port: 80}]}]\n", policy + "  ingress: [{ports: [{port: 80, endPort: 65535}]}]\n",
			"the policy newly allows incoming traffic from everybody at port 80-65535", "spec.ingress[0]",
		},
		"all namespaces": {
			closed, policy + "  ingress: [{from: [{namespaceSelector: {}}]}]\n",
			"the policy newly allows incoming traffic from everybody at all ports", "spec.ingress[0]",
		},
		"no more exception": {
			policy + "  egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [169.254.169.254/32]}}]}]\n",
			policy + "  egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]\n",
			"the policy newly allows outgoing traffic to everybody at all ports", "spec.egress[0]",
		},
		"fewer ports": {policy + "  ingress: [{}]\n", policy + "  ingress: [{ports: [{port: 80}]}]\n", "", ""},
		"internet-facing": {
			annotated("service.beta.kubernetes.io/aws-load-balancer-internal: \"true\""),
			annotated("example.com/internal: \"true\""), "the Service is newly reachable from everywhere through a load balancer", "spec.type",
		},
		"no more source ranges of an annotation": {
			annotated("service.beta.kubernetes.io/load-balancer-source-ranges: 10.0.0.0/8"), balancer,
			"the Service is newly reachable from everywhere through a load balancer", "spec.type",
		},
		"address of a public balancer": {
			balancer, balancer + "  externalIPs: [192.0.2.1]\n", "the Service is newly reachable at the address 192.0.2.1",
			"spec.externalIPs",
		},
		"ranges of an internal balancer": {
			annotated("networking.gke.io/load-balancer-type: Internal"),
			annotated("networking.gke.io/load-balancer-type: Internal") + "  loadBalancerSourceRanges: [10.0.0.0/8]\n", "", "",
		},
		"internal to everybody": {
			annotated("networking.gke.io/load-balancer-type: Internal"), balancer + "  loadBalancerSourceRanges: [0.0.0.0/0]\n",
			"the Service is newly reachable from everywhere through a load balancer", "spec.type",
		},
		"internal now": {balancer, annotated("networking.gke.io/load-balancer-type: Internal"), "", ""},
		"another peer": {closed, strings.Replace(closed, "proxy", "other", 1), "", ""},
		"new policy":   {"", closed, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			checkEffect(t, change(t, tc.before, tc.after), diff.EffectExposed, tc.message, tc.path)
		})
	}
}

func TestBudgets(t *testing.T) {
	budget := "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: shop}\n" +
		"spec: {selector: {matchLabels: {app: web}}, SPEC}\n"
	with := func(spec string) string { return strings.Replace(budget, "SPEC", spec, 1) }
	for name, tc := range map[string]struct{ before, after, message, path string }{
		"none may be unavailable": {
			with("maxUnavailable: 1"), with("maxUnavailable: 0"),
			"no pod may be evicted (maxUnavailable: 0): nodes with such pods cannot be drained", "spec.maxUnavailable",
		},
		"all must be available": {
			"", with("minAvailable: 100%"),
			"no pod may be evicted (minAvailable: 100%): nodes with such pods cannot be drained", "spec.minAvailable",
		},
		"as before":   {with("maxUnavailable: 0"), with("maxUnavailable: 0%"), "", ""},
		"one may":     {"", with("maxUnavailable: 1"), "", ""},
		"50 % may":    {"", with("minAvailable: 50%"), "", ""},
		"no workload": {"", with("minAvailable: 3"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			checkEffect(t, change(t, tc.before, tc.after), diff.EffectNoDisruption, tc.message, tc.path)
		})
	}
	autoscaler := "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n" +
		"metadata: {name: web, namespace: shop}\nspec: {maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: web}}\n"
	for name, tc := range map[string]struct{ before, after, message string }{
		"too few replicas": {
			"", deployment + "---\n" + with("minAvailable: 2"),
			"no pod may be evicted: Deployment web has 2 of the 2 pods that minAvailable asks for; nodes with such pods cannot be drained",
		},
		"enough replicas": {"", deployment + "---\n" + with("minAvailable: 1"), ""},
		"scaled":          {"", deployment + "---\n" + with("minAvailable: 2") + autoscaler, ""},
		"both before": {
			deployment + "---\n" + with("minAvailable: 2"),
			strings.Replace(deployment, "side:1", "side:2", 1) + "---\n" + with("minAvailable: 3"), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			set, seen := one(t, tc.before, tc.after), false
			for i := range set.Groups[0].Objects {
				if c := &set.Groups[0].Objects[i]; c.ID.Kind == "PodDisruptionBudget" {
					seen = true
					checkEffect(t, c, diff.EffectNoDisruption, tc.message, "spec.minAvailable")
				}
			}
			if !seen {
				t.Errorf("no change of the budget in %+v", set.Groups[0].Objects)
			}
		})
	}
}

// An object that makes a tool install something is never harmless: nobody has seen what it installs.
func TestInstallersAreNotHarmless(t *testing.T) {
	for kind, want := range map[string]bool{
		"helm.toolkit.fluxcd.io/v2, HelmRelease": false, "source.toolkit.fluxcd.io/v1, OCIRepository": false,
		"argoproj.io/v1alpha1, Application": false, "argoproj.io/v1alpha1, Rollout": true, "example.com/v1, Thing": true,
	} {
		version, name, _ := strings.Cut(kind, ", ")
		text := "apiVersion: " + version + "\nkind: " + name + "\nmetadata: {name: x, namespace: z}\nspec: {version: 1.0.0}\n"
		why := one(t, text, strings.Replace(text, "1.0.0", "1.0.1", 1)).Harmless()
		if (why == "") != want || !want && !strings.Contains(why, "what it installs is not rendered") {
			t.Errorf("%s: got %q, want harmless %t", kind, why, want)
		}
	}
}

func TestRules(t *testing.T) {
	cut := strings.Replace(deployment, "replicas: 2", "replicas: 1", 1)
	production := func(environment string) bool { return environment == "prod" }
	own := func(name diff.EffectName, risk diff.Risk) diff.Rules {
		return diff.Rules{Production: production, Risks: map[diff.EffectName]diff.Risk{name: risk}}
	}
	for name, tc := range map[string]struct {
		before, after string
		rules         diff.Rules
		risk          diff.Risk
	}{
		"replicas cut":               {deployment, cut, diff.Rules{}, diff.RiskMedium},
		"replicas cut in production": {deployment, cut, diff.Rules{Production: production}, diff.RiskHigh},
		"replicas cut elsewhere": {
			deployment, cut, diff.Rules{Production: func(string) bool { return false }}, diff.RiskMedium,
		},
		"replicas cut, the fleet's own risk": {deployment, cut, own(diff.EffectReplicasCut, diff.RiskNone), diff.RiskLow},
		"more replicas":                      {cut, deployment, diff.Rules{Production: production}, diff.RiskLow},
		"removed":                            {deployment, "", diff.Rules{Production: production}, diff.RiskHigh},
		"removed, the fleet's own risk":      {deployment, "", own(diff.EffectRemoved, diff.RiskLow), diff.RiskLow},
		"added, the fleet's own risk":        {"", cut, own(diff.EffectAdded, diff.RiskCritical), diff.RiskCritical},
	} {
		t.Run(name, func(t *testing.T) {
			target := diff.Target{
				App: "shop", Cluster: "prod-1", Environment: "prod", Before: objects(t, tc.before),
				After: objects(t, tc.after),
			}
			set := tc.rules.Compare([]diff.Target{target}, nil, []string{"prod"}, clusters(nil))
			before := one(t, tc.before, tc.after).Totals
			if g := set.Groups[0]; g.Risk != tc.risk || g.Objects[0].Risk != tc.risk || set.Apps[0].Risk != tc.risk {
				t.Errorf("risk of group, object, app: got %s, %s, %s, want %s; effects %+v", g.Risk, g.Objects[0].Risk,
					set.Apps[0].Risk, tc.risk, g.Objects[0].Effects)
			}
			if set.Totals != before {
				t.Errorf("the totals change: got %+v, want %+v", set.Totals, before)
			}
		})
	}
}

// A cut of replicas is grave if one of several environments is production, and the names of the clusters stay.
func TestRulesOfGroupsInSeveralEnvironments(t *testing.T) {
	fleet := labelledFleet()
	cut := objects(t, strings.Replace(deployment, "replicas: 2", "replicas: 1", 1))
	var targets []diff.Target
	for _, c := range fleet {
		targets = append(targets, diff.Target{
			App: "shop", Cluster: c.Name, Environment: c.Environment, Before: objects(t, deployment), After: cut,
		})
	}
	rules := diff.Rules{Production: func(e string) bool { return e == "prod" }}
	set := rules.Compare(targets, nil, []string{"dev", "staging", "prod"}, fleet)
	if got := set.Groups[0].Risk; got != diff.RiskHigh {
		t.Errorf("risk of fewer replicas on all clusters: got %s, want %s", got, diff.RiskHigh)
	}
	if got, want := diff.Patterns(set.Apps[0].Where), "all clusters (24)"; got != want {
		t.Errorf("name of the app's clusters: got %q, want %q", got, want)
	}
}
