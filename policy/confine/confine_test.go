package confine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// bounds are those of a workspace with one family of namespaces, a shared namespace that it may refer to, and a
// registry.
func bounds(change func(*Bounds)) *Bounds {
	b := &Bounds{
		Name: "team-a", File: "workspaces/team-a.yaml", Namespaces: []string{"team-a", "team-a-*"},
		References: []string{"ingress"},
		Images:     []string{"ghcr.io/acme/**"},
	}
	if change != nil {
		change(b)
	}
	return b
}

func administrator(b *Bounds) {
	b.Allow = []string{"*", "*.example.com"}
	b.ClusterScoped = []string{
		"Namespace", "ClusterRole.*", "ClusterRoleBinding.*", "*.admissionregistration.k8s.io",
		"CustomResourceDefinition.*", "APIService.*", "PriorityClass.*", "PersistentVolume",
	}
}

func hosts(b *Bounds)       { b.HostAccess = true }
func asRendered(b *Bounds)  { b.AsRendered = true }
func custom(b *Bounds)      { b.Allow = []string{"*", "*.example.com"} }
func deployments(b *Bounds) { b.Allow = []string{"Deployment.apps"} }

type hostile struct {
	name   string
	change func(*Bounds)
	object string
	want   string // the rule; "" for none
	path   string
}

func object(apiVersion, kind, more string) string {
	return "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {name: x, namespace: team-a}" + more + "}"
}

func clusterWide(apiVersion, kind, more string) string {
	return "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {name: x}" + more + "}"
}

func pod(more string) string {
	return object("apps/v1", "Deployment",
		", spec: {template: {spec: {containers: [{name: a, image: ghcr.io/acme/a:1}]"+more+"}}}")
}

func container(more string) string {
	return object("apps/v1", "Deployment", ", spec: {template: {spec: {containers: [{name: a, image: ghcr.io/acme/a:1"+
		more+"}]}}}")
}

const rbacVersion = rbacGroup + "/v1"

func cases() []hostile {
	admission := "admissionregistration.k8s.io/v1"
	own := "{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team-a-x]}]}"
	return slices.Concat(permitted(), []hostile{
		{
			"another namespace", nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: kube-system}}",
			RuleNamespace, "metadata.namespace",
		},
		{
			"a namespace with the prefix of its own", nil,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: team-ab}}", RuleNamespace,
			"metadata.namespace",
		},
		{
			"a namespace that it may only refer to", nil,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: ingress}}", RuleNamespace,
			"metadata.namespace",
		},
		{
			"another workspace's namespace", nil, "{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: team-b}}",
			RuleNamespace, "metadata.namespace",
		},
		{"a Namespace", nil, "{apiVersion: v1, kind: Namespace, metadata: {name: team-a-x}}", RuleKind, "kind"},
		{
			"a Namespace of somebody else", administrator, clusterWide("v1", "Namespace", ""), RuleNamespace,
			"metadata.name",
		},
		{
			"a Namespace that allows privileged pods", administrator,
			"{apiVersion: v1, kind: Namespace, metadata: {name: team-a-x, labels: {pod-security.kubernetes.io/enforce: privileged}}}", RuleHost, "metadata.labels.pod-security.kubernetes.io/enforce",
		},
		{"a cluster-scoped kind with a namespace", nil, object(rbacVersion, "ClusterRole", ""), RuleKind, "kind"},
		{
			"a volume of the cluster", nil, clusterWide("v1", "PersistentVolume", ", spec: {nfs: {path: /}}"), RuleKind,
			"kind",
		},
		{
			"a definition of a kind", nil, clusterWide("apiextensions.k8s.io/v1", "CustomResourceDefinition", ""),
			RuleKind, "kind",
		},
		{"an API service", nil, clusterWide("apiregistration.k8s.io/v1", "APIService", ""), RuleKind, "kind"},
		{
			"a custom kind that could be cluster-scoped", nil, object("cert-manager.io/v1", "ClusterIssuer", ""), RuleKind,
			"kind",
		},
		{
			"a custom kind under a wildcard without group", func(b *Bounds) { b.Allow = []string{"*"} },
			object("kyverno", "ClusterPolicy", ""), RuleKind, "kind",
		},
		{
			"a Flux Kustomization", nil, object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", ", spec: {path: ./}"),
			RuleKind, "kind",
		},
		{"an Argo CD Application", nil, object("argoproj.io/v1alpha1", "Application", ""), RuleKind, "kind"},
		{"a built-in kind in a group of its own", nil, object("v1", "ClusterRole", ""), RuleKind, "kind"},
		{"a kind in other letters", nil, object("v1", "configmap", ""), RuleKind, "kind"},
		{
			"a denied kind", func(b *Bounds) { b.Deny = []string{"Ingress.*"} },
			object("networking.k8s.io/v1", "Ingress", ""), RuleKind, "kind",
		},
		{
			"a denied kind that is allowed", func(b *Bounds) { b.Allow, b.Deny = []string{"*"}, []string{"Job.batch"} },
			object("batch/v1", "Job", ""), RuleKind, "kind",
		},
		{"a kind that is not listed", deployments, object("v1", "ConfigMap", ""), RuleKind, "kind"},
		{
			"a list of objects", custom,
			"{apiVersion: example.com/v1, kind: ThingList, metadata: {name: x, namespace: team-a}, items: [{kind: Secret}]}", RuleKind, "items",
		},
		{"endpoints of foreign pods", nil, object("v1", "Endpoints", ", subsets: []"), RuleKind, "kind"},
		{"an endpoint slice", nil, object("discovery.k8s.io/v1", "EndpointSlice", ", endpoints: []"), RuleKind, "kind"},
		{"endpoints where * is allowed", custom, object("v1", "Endpoints", ", subsets: []"), RuleKind, "kind"},
		{"an endpoint slice where * is allowed", custom, object("discovery.k8s.io/v1", "EndpointSlice",
			", endpoints: []"), RuleKind, "kind"},
		{
			"an endpoint slice where its group is allowed", func(b *Bounds) { b.Allow = []string{"*.discovery.k8s.io"} },
			object("discovery.k8s.io/v1", "EndpointSlice", ", endpoints: []"), RuleKind, "kind",
		},
		{
			"an endpoint slice that is named", func(b *Bounds) { b.Allow = []string{"EndpointSlice.discovery.k8s.io"} },
			object("discovery.k8s.io/v1", "EndpointSlice", ", endpoints: []"), "", "",
		},
		{"owners", nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: team-a, ownerReferences: [{kind: Deployment, name: y, uid: z}]}}", RuleReference, "metadata.ownerReferences"},
		{
			"a Flux inventory's label", nil,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: team-a, labels: {kustomize.toolkit.fluxcd.io/name: flux-system}}}", RuleReference, "metadata.labels.kustomize.toolkit.fluxcd.io/name",
		},
		{
			"an Argo CD tracking id", nil,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: team-a, annotations: {argocd.argoproj.io/tracking-id: web}}}", RuleReference, "metadata.annotations.argocd.argoproj.io/tracking-id",
		},
		{"Sluice's label", nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: team-a, labels: {sluice.dev/app: web}}}", RuleReference, "metadata.labels.sluice.dev/app"},

		{"a binding of cluster-admin", nil, object(rbacVersion, "RoleBinding",
			", roleRef: {kind: ClusterRole, name: cluster-admin}"), RuleRBAC, "roleRef"},
		{
			"a binding of admin", nil, object(rbacVersion, "RoleBinding", ", roleRef: {kind: ClusterRole, name: admin}"),
			RuleRBAC, "roleRef",
		},
		{"a binding without a kind of role", nil, object(rbacVersion, "RoleBinding",
			", roleRef: {name: cluster-admin}"), RuleRBAC, "roleRef"},
		{"a binding for the whole cluster", administrator, clusterWide(rbacVersion, "ClusterRoleBinding",
			", roleRef: {kind: ClusterRole, name: cluster-admin}"), RuleRBAC, "roleRef"},
		{
			"a binding for everybody", nil, object(rbacVersion, "RoleBinding",
				", roleRef: {kind: Role, name: x}, subjects: [{kind: Group, name: \"system:authenticated\"}]"), RuleRBAC,
			"subjects[0].name",
		},
		{
			"a binding for another's account", nil, object(rbacVersion, "RoleBinding",
				", roleRef: {kind: Role, name: x}, subjects: [{kind: ServiceAccount, name: y, namespace: team-b}]"),
			RuleRBAC, "subjects[0].namespace",
		},
		{"a role with every verb", nil, object(rbacVersion, "Role",
			", rules: [{apiGroups: [\"\"], resources: [pods], verbs: [\"*\"]}]"), RuleRBAC, "rules[0].verbs"},
		{"a role with every resource", nil, object(rbacVersion, "Role",
			", rules: [{apiGroups: [\"\"], resources: [\"*\"], verbs: [get]}]"), RuleRBAC, "rules[0].resources"},
		{"a role with every group", nil, object(rbacVersion, "Role",
			", rules: [{apiGroups: [\"*\"], resources: [pods], verbs: [get]}]"), RuleRBAC, "rules[0].apiGroups"},
		{"a role that escalates", nil, object(rbacVersion, "Role",
			", rules: [{apiGroups: [x], resources: [roles], verbs: [escalate]}]"), RuleRBAC, "rules[0].verbs"},
		{
			"a role that binds", nil,
			object(rbacVersion, "Role", ", rules: [{apiGroups: [x], resources: [roles], verbs: [bind]}]"), RuleRBAC,
			"rules[0].verbs",
		},
		{"a role that impersonates", nil, object(rbacVersion, "Role",
			", rules: [{apiGroups: [\"\"], resources: [users], verbs: [impersonate]}]"), RuleRBAC, "rules[0].verbs"},
		{"a role that writes bindings", nil, object(rbacVersion, "Role", ", rules: [{apiGroups: ["+rbacGroup+
			"], resources: [rolebindings], verbs: [create]}]"), RuleRBAC, "rules[0].apiGroups"},
		{"a role for the API server's paths", administrator, clusterWide(rbacVersion, "ClusterRole",
			", rules: [{nonResourceURLs: [/metrics], verbs: [get]}]"), RuleRBAC, "rules[0].nonResourceURLs"},
		{"a role that grows", administrator, clusterWide(rbacVersion, "ClusterRole",
			", aggregationRule: {clusterRoleSelectors: []}"), RuleRBAC, "aggregationRule"},
		{"a role that adds to edit", administrator, "{apiVersion: " + rbacVersion +
			", kind: ClusterRole, metadata: {name: x, labels: {rbac.authorization.k8s.io/aggregate-to-edit: \"true\"}}}", RuleRBAC, "metadata.labels.rbac.authorization.k8s.io/aggregate-to-edit"},
		{"a role of Kubernetes", administrator, "{apiVersion: " + rbacVersion +
			", kind: ClusterRole, metadata: {name: view}}", RuleRBAC, "metadata.name"},

		{"a webhook", nil, clusterWide(admission, "ValidatingWebhookConfiguration", ""), RuleKind, "kind"},
		{
			"a webhook for all namespaces", administrator, clusterWide(admission, "MutatingWebhookConfiguration",
				", webhooks: [{clientConfig: {service: {namespace: team-a}}}]"), RuleReference,
			"webhooks[0].namespaceSelector",
		},
		{
			"a webhook for namespaces with a label", administrator,
			clusterWide(admission, "MutatingWebhookConfiguration",
				", webhooks: [{namespaceSelector: {matchLabels: {a: b}}}]"), RuleReference,
			"webhooks[0].namespaceSelector",
		},
		{"a webhook with a foreign namespace", administrator, clusterWide(admission, "MutatingWebhookConfiguration",
			", webhooks: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team-a, team-b]}]}}]"), RuleReference, "webhooks[0].namespaceSelector"},
		{
			"a webhook out of the cluster", administrator, clusterWide(admission, "MutatingWebhookConfiguration",
				", webhooks: [{namespaceSelector: "+own+", clientConfig: {url: \"https://x.org\"}}]"), RuleReference,
			"webhooks[0].clientConfig.url",
		},
		{
			"a webhook of another's Service", administrator, clusterWide(admission, "MutatingWebhookConfiguration",
				", webhooks: [{namespaceSelector: "+own+", clientConfig: {service: {namespace: team-b}}}]"), RuleReference,
			"webhooks[0].clientConfig.service.namespace",
		},
		{
			"an admission policy for everybody", administrator, clusterWide(admission, "ValidatingAdmissionPolicyBinding",
				", spec: {policyName: x}"), RuleReference,
			"spec.matchResources.namespaceSelector spec.matchResources.resourceRules",
		},
		{
			"a conversion out of the cluster", administrator, clusterWide("apiextensions.k8s.io/v1",
				"CustomResourceDefinition", ", spec: {conversion: {webhook: {clientConfig: {url: \"https://x.org\"}}}}"),
			RuleReference, "spec.conversion.webhook.clientConfig.url",
		},
		{"an API service of another", administrator, clusterWide("apiregistration.k8s.io/v1", "APIService",
			", spec: {service: {namespace: kube-system, name: x}}"), RuleReference, "spec.service.namespace"},

		{"a secret of another namespace", custom, object("example.com/v1", "Thing",
			", spec: {secretRef: {name: x, namespace: kube-system}}"), RuleReference, "spec.secretRef.namespace"},
		{
			"a target namespace", custom, object("example.com/v1", "Thing", ", spec: {targetNamespace: kube-system}"),
			RuleReference, "spec.targetNamespace",
		},
		{
			"a list of namespaces", custom, object("example.com/v1", "Thing",
				", spec: {namespaceSelector: {matchNames: [team-a, team-b]}}"), RuleReference,
			"spec.namespaceSelector.matchNames",
		},
		{"a monitor of every namespace", custom, object("example.com/v1", "Monitor",
			", spec: {namespaceSelector: {any: true}}"), RuleReference, "spec.namespaceSelector"},
		{
			"a selector of pods everywhere", nil,
			pod(", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x, namespaceSelector: {}}]}}"), RuleReference, "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector",
		},
		{
			"affinity to foreign pods", nil,
			pod(", affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{podAffinityTerm: {namespaces: [team-b]}}]}}"), RuleReference, "spec.template.spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespaces",
		},
		{"a template in another namespace", custom, object("example.com/v1", "Thing",
			", spec: {template: {metadata: {namespace: team-b}}}"), RuleReference, "spec.template.metadata.namespace"},
		{
			"a reference outside of spec", custom, object("example.com/v1", "Thing", ", config: {namespace: team-b}"),
			RuleReference, "config.namespace",
		},
		{
			"a Service of another namespace", nil, object("v1", "Service",
				", spec: {type: ExternalName, externalName: db.team-b.svc.cluster.local.}"), RuleReference,
			"spec.externalName",
		},
		{
			"a Service in capitals", nil,
			object("v1", "Service", ", spec: {type: ExternalName, externalName: DB.Team-B.SVC}"), RuleReference,
			"spec.externalName",
		},
		{
			"addresses of others", nil, object("v1", "Service", ", spec: {externalIPs: [8.8.8.8]}"), RuleReference,
			"spec.externalIPs",
		},
		{"an object without bottom", custom, object("example.com/v1", "Thing", ", spec: "+strings.Repeat("{a: ", 120)+
			"1"+strings.Repeat("}", 120)), RuleReference, "spec" + strings.Repeat(".a", 101)},

		{"the host's network", nil, pod(", hostNetwork: true"), RuleHost, "spec.template.spec.hostNetwork"},
		{"the host's processes", nil, pod(", hostPID: true"), RuleHost, "spec.template.spec.hostPID"},
		{
			"a folder of the host", nil, pod(", volumes: [{name: a, hostPath: {path: /}}]"), RuleHost,
			"spec.template.spec.volumes[0].hostPath",
		},
		{
			"a priority of the system", nil, pod(", priorityClassName: system-node-critical"), RuleHost,
			"spec.template.spec.priorityClassName",
		},
		{"a node", nil, pod(", nodeName: master-1"), RuleHost, "spec.template.spec.nodeName"},
		{
			"a privileged container", nil, container(", securityContext: {privileged: true}"), RuleHost,
			"spec.template.spec.containers[0].securityContext.privileged",
		},
		{
			"a capability", nil, container(", securityContext: {capabilities: {add: [SYS_ADMIN]}}"), RuleHost,
			"spec.template.spec.containers[0].securityContext.capabilities.add",
		},
		{
			"a port of the host", nil, container(", ports: [{containerPort: 80, hostPort: 80}]"), RuleHost,
			"spec.template.spec.containers[0].ports[0].hostPort",
		},
		{"a pod in a custom kind", custom, object("example.com/v1", "Rollout",
			", spec: {template: {spec: {initContainers: [{name: a, image: ghcr.io/acme/a, securityContext: {privileged: true}}]}}}"), RuleHost, "spec.template.spec.initContainers[0].securityContext.privileged"},

		{
			"a ConfigMap that tools expand as a list", nil, object("v1", "ConfigMap", ", items: [{apiVersion: "+
				rbacVersion+", kind: ClusterRoleBinding, roleRef: {kind: ClusterRole, name: cluster-admin}}]"), RuleKind,
			"items",
		},
		{"an object with an empty list of items", nil, object("v1", "Service", ", items: []"), RuleKind, "items"},
		{
			"no namespace where objects keep theirs", asRendered, clusterWide("v1", "ConfigMap", ""), RuleNamespace,
			"metadata.namespace",
		},
		{
			"a denied kind without its group", func(b *Bounds) { b.Deny = []string{"Ingress"} },
			object("networking.k8s.io/v1", "Ingress", ""), RuleKind, "kind",
		},
		{
			"denied kinds without a group", func(b *Bounds) { b.Deny = []string{"*Set"} },
			object("apps/v1", "DaemonSet", ""), RuleKind, "kind",
		},
		{
			"a pod that is put on a node", nil, object("v1", "Binding", ", target: {kind: Node, name: a}"), RuleKind,
			"kind",
		},

		{"edit for the whole cluster", administrator, clusterWide(rbacVersion, "ClusterRoleBinding",
			", roleRef: {kind: ClusterRole, name: edit}"), RuleRBAC, "roleRef"},
		{"a Role for the whole cluster", administrator, clusterWide(rbacVersion, "ClusterRoleBinding",
			", roleRef: {kind: Role, name: x}"), RuleRBAC, "roleRef"},
		{
			"a role that adds to an operator's role", administrator, "{apiVersion: " + rbacVersion +
				", kind: ClusterRole, metadata: {name: x, labels: {rbac.example.com/aggregate-to-monitoring: \"true\"}}}",
			RuleRBAC, "metadata.labels.rbac.example.com/aggregate-to-monitoring",
		},
		{
			"a webhook for cluster-scoped objects", administrator, clusterWide(admission, "MutatingWebhookConfiguration",
				", webhooks: [{namespaceSelector: "+own+", rules: [{scope: Namespaced}, {scope: \"*\"}]}]"), RuleReference,
			"webhooks[0].rules[1].scope",
		},
		{
			"a webhook for objects of any scope", administrator, clusterWide(admission, "ValidatingWebhookConfiguration",
				", webhooks: [{namespaceSelector: "+own+", rules: [{resources: [nodes]}]}]"), RuleReference,
			"webhooks[0].rules[0].scope",
		},
		{
			"an admission policy for all resources", administrator,
			clusterWide(admission, "ValidatingAdmissionPolicyBinding", ", spec: {matchResources: {namespaceSelector: "+
				own+"}}"), RuleReference, "spec.matchResources.resourceRules",
		},
		{
			"an admission policy for cluster-scoped objects", administrator,
			clusterWide(admission, "MutatingAdmissionPolicyBinding", ", spec: {matchResources: {namespaceSelector: "+
				own+", resourceRules: [{scope: Cluster}]}}"), RuleReference, "spec.matchResources.resourceRules[0].scope",
		},
		{
			"a Service of another namespace behind a name with svc", nil,
			object("v1", "Service", ", spec: {type: ExternalName, externalName: team-a.svc.team-b.svc.cluster.local}"),
			RuleReference, "spec.externalName",
		},
		{
			"a pod of another namespace", nil, object("v1", "Service",
				", spec: {type: ExternalName, externalName: 10-0-0-1.team-b.pod.cluster.local}"), RuleReference,
			"spec.externalName",
		},
		{
			"a secret of another namespace in an annotation", nil,
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x, namespace: team-a, annotations: {nginx.ingress.kubernetes.io/auth-secret: team-b/users}}}", RuleReference, "metadata.annotations.nginx.ingress.kubernetes.io/auth-secret",
		},

		{
			"a request to another host as a probe", nil, container(", livenessProbe: {httpGet: {host: 169.254.169.254, path: /, port: 80}}"), RuleHost,
			"spec.template.spec.containers[0].livenessProbe.httpGet.host",
		},
		{
			"a connection to another host as a probe", nil, container(", readinessProbe: {tcpSocket: {host: db, port: 80}}"), RuleHost,
			"spec.template.spec.containers[0].readinessProbe.tcpSocket.host",
		},
		{
			"a probe at the start", nil, container(", startupProbe: {httpGet: {host: 127.0.0.1, port: 80}}"), RuleHost,
			"spec.template.spec.containers[0].startupProbe.httpGet.host",
		},
		{
			"a host that is a number", nil, container(", startupProbe: {httpGet: {host: 1, port: 80}}"), RuleHost,
			"spec.template.spec.containers[0].startupProbe.httpGet.host",
		},
		{
			"a hook that sends a request", nil, container(", lifecycle: {postStart: {httpGet: {host: api, port: 80}}}"), RuleHost,
			"spec.template.spec.containers[0].lifecycle.postStart.httpGet.host",
		},
		{
			"a hook that connects", nil, container(", lifecycle: {preStop: {tcpSocket: {host: api, port: 80}}}"), RuleHost,
			"spec.template.spec.containers[0].lifecycle.preStop.tcpSocket.host",
		},
		{
			"a process of a Windows host", nil, pod(", securityContext: {windowsOptions: {hostProcess: true}}"), RuleHost,
			"spec.template.spec.securityContext.windowsOptions.hostProcess",
		},
		{
			"a pod without seccomp", nil, pod(", securityContext: {seccompProfile: {type: Unconfined}}"), RuleHost,
			"spec.template.spec.securityContext.seccompProfile.type",
		},
		{
			"a container without AppArmor", nil, container(", securityContext: {appArmorProfile: {type: Unconfined}}"),
			RuleHost, "spec.template.spec.containers[0].securityContext.appArmorProfile.type",
		},
		{"a container without AppArmor, by annotation", nil, object("batch/v1", "Job",
			", spec: {template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: unconfined}}}}"), RuleHost, "spec.template.metadata.annotations.container.apparmor.security.beta.kubernetes.io/a"},
		{
			"an unsafe sysctl", nil,
			pod(", securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: \"1\"}, {name: kernel.msgmax, value: \"1\"}]}"), RuleHost, "spec.template.spec.securityContext.sysctls[1].name",
		},
		{
			"an SELinux type", nil, pod(", securityContext: {seLinuxOptions: {type: spc_t}}"), RuleHost,
			"spec.template.spec.securityContext.seLinuxOptions.type",
		},
		{
			"an SELinux user", nil, container(", securityContext: {seLinuxOptions: {user: system_u}}"), RuleHost,
			"spec.template.spec.containers[0].securityContext.seLinuxOptions.user",
		},
		{"a security context without containers", custom, object("example.com/v1", "Thing",
			", spec: {securityContext: {privileged: true}}"), RuleHost, "spec.securityContext.privileged"},
		{"a volume on a host's folder", administrator, clusterWide("v1", "PersistentVolume",
			", spec: {hostPath: {path: /}}"), RuleHost, "spec.hostPath"},
		{"a volume on a host's disk", administrator, clusterWide("v1", "PersistentVolume",
			", spec: {local: {path: /dev}}"), RuleHost, "spec.local"},

		{
			"another registry", nil, container(", image: evil.org/a:1"), RuleImage,
			"spec.template.spec.containers[0].image",
		},
		{
			"an image without a registry", nil, container(", image: nginx"), RuleImage,
			"spec.template.spec.containers[0].image",
		},
		{
			"a registry with the name in its path", nil, container(", image: evil.org/ghcr.io/acme/a:1"), RuleImage,
			"spec.template.spec.containers[0].image",
		},
		{
			"a registry with a port", nil, container(", image: \"ghcr.io:8080/acme/a\""), RuleImage,
			"spec.template.spec.containers[0].image",
		},
		{
			"an image in a volume", nil, pod(", volumes: [{name: a, image: {reference: evil.org/a}}]"), RuleImage,
			"spec.template.spec.volumes[0].image.reference",
		},
	})
}

// permitted are objects that a workspace needs.
func permitted() []hostile {
	own := "{matchLabels: {kubernetes.io/metadata.name: team-a}}"
	return []hostile{
		{name: "a Deployment", object: pod("")},
		{name: "an object of the app's namespace", object: clusterWide("v1", "ConfigMap", "")},
		{name: "a ConfigMap whose data looks like a reference", object: object("v1", "ConfigMap",
			", data: {namespace: kube-system}")},
		{name: "a binding of view", object: object(rbacVersion, "RoleBinding",
			", roleRef: {kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: y, namespace: team-a-x}, {kind: Group, name: team-a}]")},
		{
			name: "a binding of a listed role", change: func(b *Bounds) { b.Roles = []string{"deployer"} },
			object: object(rbacVersion, "RoleBinding", ", roleRef: {kind: ClusterRole, name: deployer}"),
		},
		{name: "a role", object: object(rbacVersion, "Role",
			", rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get, list]}]")},
		{name: "the shared Gateway", change: custom, object: object("example.com/v1", "Route",
			", spec: {parentRefs: [{name: x, namespace: ingress}]}")},
		{name: "a NetworkPolicy that lets others in", object: object("networking.k8s.io/v1", "NetworkPolicy",
			", spec: {ingress: [{from: [{namespaceSelector: {}}]}]}")},
		{
			name: "a monitor of its own namespaces", change: custom,
			object: object("example.com/v1", "Monitor", ", spec: {namespaceSelector: {matchNames: [team-a]}}"),
		},
		{
			name: "a Namespace of its own", change: administrator,
			object: "{apiVersion: v1, kind: Namespace, metadata: {name: team-a-x}}",
		},
		{
			name: "a webhook for its own namespaces", change: administrator,
			object: clusterWide("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration",
				", webhooks: [{namespaceSelector: "+own+", clientConfig: {service: {namespace: team-a, name: x}}}]"),
		},
		{name: "a name outside of the cluster", object: object("v1", "Service",
			", spec: {type: ExternalName, externalName: db.example.com}")},
		{
			name: "a webhook for namespaced objects", change: administrator,
			object: clusterWide("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration",
				", webhooks: [{namespaceSelector: "+own+", rules: [{scope: Namespaced}]}]"),
		},
		{
			name: "an admission policy for its own objects", change: administrator,
			object: clusterWide("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding",
				", spec: {matchResources: {namespaceSelector: "+own+", resourceRules: [{scope: Namespaced}]}}"),
		},
		{
			name:   "a listed role for the whole cluster",
			change: func(b *Bounds) { administrator(b); b.Roles = []string{"deployer"} },
			object: clusterWide(rbacVersion, "ClusterRoleBinding", ", roleRef: {kind: ClusterRole, name: deployer}"),
		},
		{
			name: "a built-in kind under a wildcard", change: func(b *Bounds) { b.Allow = []string{"*"} },
			object: object("batch/v1", "Job", ""),
		},
		{
			name:   "a cluster-scoped kind where objects keep their namespaces",
			change: func(b *Bounds) { administrator(b); b.AsRendered = true },
			object: clusterWide(rbacVersion, "ClusterRole", ""),
		},
		{name: "a Service of its own by its full name", object: object("v1", "Service",
			", spec: {type: ExternalName, externalName: svc.team-a.svc.cluster.local}")},
		{
			name:   "a secret of its own in an annotation",
			object: "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x, namespace: team-a, annotations: {nginx.ingress.kubernetes.io/auth-secret: team-a/users}}}",
		},
		{
			name:   "a strict security context",
			object: pod(", securityContext: {seccompProfile: {type: RuntimeDefault}, appArmorProfile: {type: RuntimeDefault}, seLinuxOptions: {type: container_t, level: s0}, windowsOptions: {hostProcess: false}}"),
		},
		{
			name: "host access", change: hosts,
			object: pod(", hostNetwork: true, volumes: [{name: a, hostPath: {path: /}}]"),
		},
		{name: "any image", change: func(b *Bounds) { b.Images = nil }, object: container(", image: nginx")},
		{name: "an image by its digest", object: container(", image: \"ghcr.io/acme/a@sha256:0123\"")},
		{
			name: "Docker Hub", change: func(b *Bounds) { b.Images = []string{"docker.io/library/nginx"} },
			object: container(", image: \"index.docker.io/nginx:1\""),
		},
	}
}

func TestCheck(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			var o map[string]any
			// A later key replaces an earlier one, as `image` does in some cases.
			if err := yaml.Unmarshal([]byte(c.object), &o); err != nil {
				t.Fatal(err)
			}
			kind := manifest.GroupKind{
				Group: manifest.GroupOf(manifest.Object(o).APIVersion()),
				Kind:  manifest.Object(o).Kind(),
			}
			got := map[string]string{}
			for _, b := range bounds(c.change).Check(Object{
				Object: o, Scope: manifest.BuiltinScope(kind),
				Namespace: "team-a",
			}) {
				got[b.Rule] += b.Path + " "
				if b.Message == "" || b.Hint == "" {
					t.Errorf("%+v says too little", b)
				}
			}
			want := map[string]string{}
			if c.want != "" {
				want[c.want] = c.path + " "
			}
			if !maps.Equal(got, want) {
				t.Errorf("the result is %v, want %v", got, want)
			}
		})
	}
	if n := len(cases()) - len(permitted()); n < 40 {
		t.Errorf("%d hostile cases", n)
	}
}

func TestARepositoryOfAnImage(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": "docker.io/library/nginx", "nginx:1": "docker.io/library/nginx", "acme/a": "docker.io/acme/a",
		"localhost/a:1":            "localhost/a",
		"x.org:5000/a:1@sha256:ab": "x.org:5000/a", "docker.io/nginx": "docker.io/library/nginx",
	} {
		if got := repositoryOf(image); got != want {
			t.Errorf("repositoryOf(%q) = %q, want %q", image, got, want)
		}
	}
}

// A definition in the fleet tells the scope of a custom kind, but not that the workspace may contain the kind.
func TestAWildcardAdmitsNoCustomKind(t *testing.T) {
	for _, c := range []struct {
		allow, clusterScoped []string
		scope                manifest.Scope
		ok                   bool
	}{
		{[]string{"*"}, nil, manifest.ScopeNamespaced, false},
		{[]string{"Th*"}, nil, manifest.ScopeNamespaced, false},
		{[]string{"Thing.example.com"}, nil, manifest.ScopeNamespaced, true},
		{[]string{"*"}, []string{"*"}, manifest.ScopeCluster, false},
		{nil, []string{"*.example.com"}, manifest.ScopeCluster, true},
	} {
		b := bounds(func(b *Bounds) { b.Allow, b.ClusterScoped = c.allow, c.clusterScoped })
		o := manifest.Object{
			"apiVersion": "example.com/v1", "kind": "Thing",
			"metadata": map[string]any{"name": "x", "namespace": "team-a"},
		}
		if got := b.Check(Object{Object: o, Scope: c.scope}); (len(got) == 0) != c.ok {
			t.Errorf("allow %v, clusterScoped %v, %s: %v", c.allow, c.clusterScoped, c.scope, got)
		}
	}
}
