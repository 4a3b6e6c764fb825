package confine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const rbacGroup = "rbac.authorization.k8s.io"

// rbac refuses roles and bindings that give more than the workspace has.
func (c *check) rbac() {
	if c.kind.Group != rbacGroup {
		return
	}
	switch c.kind.Kind {
	case "Role", "ClusterRole":
		c.role()
	case "RoleBinding", "ClusterRoleBinding":
		c.binding()
	}
}

func (c *check) role() {
	if builtInRole(c.object.Name()) && c.kind.Kind == "ClusterRole" {
		c.add(RuleRBAC, "metadata.name", "choose another name", "the ClusterRole %s belongs to Kubernetes",
			c.object.Name())
	}
	if c.object.Object["aggregationRule"] != nil {
		c.add(RuleRBAC, "aggregationRule", "list the rules",
			"the role takes its rules from every ClusterRole with a label")
	}
	for i, v := range list(c.object.Object, "rules") {
		rule, _ := v.(map[string]any)
		at := fmt.Sprintf("rules[%d]", i)
		verbs, groups, resources := texts(rule, "verbs"), texts(rule, "apiGroups"), texts(rule, "resources")
		for field, values := range map[string][]string{"verbs": verbs, "apiGroups": groups, "resources": resources} {
			if slices.ContainsFunc(values, func(s string) bool { return strings.Contains(s, "*") }) {
				c.add(RuleRBAC, at+"."+field, "list what is needed",
					"the role allows everything (%s: *), also what workspace %s may not do", field, c.bounds.Name)
			}
		}
		for _, verb := range verbs {
			if verb == "bind" || verb == "escalate" || verb == "impersonate" {
				c.add(RuleRBAC, at+".verbs", "remove the verb",
					"the verb %s gives rights that workspace %s does not have", verb, c.bounds.Name)
			}
		}
		writes := slices.ContainsFunc(verbs, func(v string) bool { return v != "get" && v != "list" && v != "watch" })
		if writes && slices.Contains(groups, rbacGroup) {
			c.add(RuleRBAC, at+".apiGroups", "let Sluice write roles and bindings",
				"the role may change roles or bindings, which nobody reviews")
		}
		if len(texts(rule, "nonResourceURLs")) > 0 {
			c.add(RuleRBAC, at+".nonResourceURLs", "remove them", "the role reaches paths of the API server")
		}
	}
}

// builtInRole reports whether a ClusterRole belongs to Kubernetes.
func builtInRole(name string) bool {
	return strings.HasPrefix(name, "system:") || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"},
		name)
}

func (c *check) binding() {
	ref := child(c.object.Object, "roleRef")
	clusterWide := c.kind.Kind == "ClusterRoleBinding"
	roles := c.bounds.Roles
	if roles == nil && !clusterWide { // for the whole cluster, edit and view reach the namespaces of others
		roles = []string{"edit", "view"}
	}
	name := text(ref, "name")
	if (clusterWide || text(ref, "kind") != "Role") && !slices.Contains(roles, name) {
		may := strings.Join(roles, ", ")
		if may == "" {
			may = "none"
		}
		hint := "bind a Role of the workspace, or one of spec.roles in " + c.bounds.File
		if clusterWide {
			hint = "use a RoleBinding, or ask for the role in spec.roles in " + c.bounds.File
		}
		c.add(RuleRBAC, "roleRef", hint, "the %s gives the %s %s, and workspace %s may bind with it: %s", c.kind.Kind,
			cmp.Or(text(ref, "kind"), "ClusterRole"), name, c.bounds.Name, may)
	}
	for i, v := range list(c.object.Object, "subjects") {
		subject, _ := v.(map[string]any)
		at := fmt.Sprintf("subjects[%d]", i)
		switch who := text(subject, "name"); {
		case text(subject, "kind") == "ServiceAccount":
			if namespace := text(subject, "namespace"); namespace != "" && !c.owns(namespace) {
				c.add(RuleRBAC, at+".namespace", "bind accounts of the workspace",
					"the binding gives rights to the ServiceAccount %s/%s of somebody else", namespace, who)
			}
		case strings.HasPrefix(who, "system:"):
			c.add(RuleRBAC, at+".name", "name people or groups of your own", "the binding gives rights to %s %s",
				text(subject, "kind"), who)
		}
	}
}

// webhooks refuses webhooks that see objects of others, and API services and conversions that somebody else's Service
// answers.
func (c *check) webhooks() {
	o := c.object.Object
	switch c.kind.String() {
	case "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
		"MutatingWebhookConfiguration.admissionregistration.k8s.io":
		for i, v := range list(o, "webhooks") {
			hook, _ := v.(map[string]any)
			at := fmt.Sprintf("webhooks[%d]", i)
			if !c.selectsOwn(child(hook, "namespaceSelector")) {
				c.add(RuleReference, at+".namespaceSelector",
					"select kubernetes.io/metadata.name In the workspace's namespaces",
					"the webhook sees objects outside of workspace %s", c.bounds.Name)
			}
			c.namespacedRules(hook, "rules", at)
			if text(child(hook, "clientConfig"), "url") != "" {
				c.add(RuleReference, at+".clientConfig.url", "name a Service",
					"the webhook sends objects out of the cluster")
			}
		}
	case "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
		"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io":
		match := child(child(o, "spec"), "matchResources")
		if len(list(match, "resourceRules")) == 0 {
			c.add(RuleReference, "spec.matchResources.resourceRules", "list rules with scope: Namespaced",
				"the policy applies to cluster-scoped objects, to which no selector of namespaces applies")
		}
		c.namespacedRules(match, "resourceRules", "spec.matchResources")
		if !c.selectsOwn(child(match, "namespaceSelector")) {
			c.add(RuleReference, "spec.matchResources.namespaceSelector",
				"select kubernetes.io/metadata.name In the workspace's namespaces",
				"the policy applies to objects outside of workspace %s", c.bounds.Name)
		}
	case "CustomResourceDefinition.apiextensions.k8s.io":
		if text(child(child(child(child(o, "spec"), "conversion"), "webhook"), "clientConfig"), "url") != "" {
			c.add(RuleReference, "spec.conversion.webhook.clientConfig.url", "name a Service",
				"the webhook sends objects out of the cluster")
		}
	}
}

// namespacedRules refuses rules of a webhook or policy that match cluster-scoped objects: a selector of namespaces does
// not keep those out.
func (c *check) namespacedRules(m map[string]any, field, at string) {
	for i, v := range list(m, field) {
		rule, _ := v.(map[string]any)
		if text(rule, "scope") != "Namespaced" {
			c.add(RuleReference, fmt.Sprintf("%s.%s[%d].scope", at, field, i), "set scope: Namespaced",
				"the rule matches cluster-scoped objects, to which no selector of namespaces applies")
		}
	}
}

// selectsOwn reports whether a selector of namespaces can match only those of the workspace.
func (c *check) selectsOwn(selector map[string]any) bool {
	const key = "kubernetes.io/metadata.name"
	if name := text(child(selector, "matchLabels"), key); name != "" {
		return c.owns(name)
	}
	for _, v := range list(selector, "matchExpressions") {
		e, _ := v.(map[string]any)
		values := texts(e, "values")
		if text(e, "key") == key && text(e, "operator") == "In" && len(values) > 0 &&
			!slices.ContainsFunc(values, func(n string) bool { return !c.owns(n) }) {
			return true
		}
	}
	return false
}

// service refuses Services that lead to other namespaces or take addresses of others.
func (c *check) service() {
	if c.kind != (manifest.GroupKind{Kind: "Service"}) {
		return
	}
	spec := child(c.object.Object, "spec")
	if len(list(spec, "externalIPs")) > 0 {
		c.add(RuleReference, "spec.externalIPs", "remove them",
			"the Service takes over traffic to any address that it lists")
	}
	name := strings.ToLower(strings.TrimSuffix(text(spec, "externalName"), "."))
	if name == "" {
		return
	}
	labels := strings.Split(name, ".")
	i := len(labels) - 1 // a Service or a namespace can itself be called svc
	for i > 0 && labels[i] != "svc" && (labels[i] != "pod" || i < 2) {
		i--
	}
	if i > 0 && !c.mayName(labels[i-1]) {
		c.add(RuleReference, "spec.externalName", "let its owners expose the Service",
			"the Service leads to the namespace %s, which is outside of workspace %s", labels[i-1], c.bounds.Name)
	}
}

// volume refuses a PersistentVolume that is a folder or a disk of a host.
func (c *check) volume() {
	if c.kind != (manifest.GroupKind{Kind: "PersistentVolume"}) {
		return
	}
	for _, field := range []string{"hostPath", "local"} {
		if child(c.object.Object, "spec")[field] != nil {
			c.host("spec."+field, "the volume is on the disk of a host")
		}
	}
}
