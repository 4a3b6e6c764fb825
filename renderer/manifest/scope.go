package manifest

import "slices"

// Scope states whether objects of a kind belong to a namespace.
type Scope int

// The scopes. ScopeUnknown is the scope of a kind that is neither built in nor defined by a CustomResourceDefinition.
const (
	ScopeUnknown Scope = iota
	ScopeNamespaced
	ScopeCluster
)

// String returns the value of `spec.scope` in a CustomResourceDefinition.
func (s Scope) String() string {
	switch s {
	case ScopeNamespaced:
		return "Namespaced"
	case ScopeCluster:
		return "Cluster"
	default:
		return "unknown"
	}
}

// BuiltinScope returns the scope of a kind that Kubernetes itself serves, according to the API reference of Kubernetes
// 1.35 and earlier versions, and ScopeUnknown for all others.
func BuiltinScope(k GroupKind) Scope {
	if clusterScoped(k) {
		return ScopeCluster
	}
	if namespaced(k) {
		return ScopeNamespaced
	}
	return ScopeUnknown
}

// BuiltinGroups returns the groups that have a built-in kind of this name, with the group to prefer first.
func BuiltinGroups(kind string) []string {
	var out []string
	for _, group := range []string{
		"", "apps", "batch", "autoscaling", "networking.k8s.io", "rbac.authorization.k8s.io", "policy",
		"coordination.k8s.io", "discovery.k8s.io",
		"storage.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "admissionregistration.k8s.io",
		"scheduling.k8s.io", "node.k8s.io",
		"certificates.k8s.io", "flowcontrol.apiserver.k8s.io", "resource.k8s.io", "authentication.k8s.io",
		"authorization.k8s.io",
		"internal.apiserver.k8s.io", "storagemigration.k8s.io", "events.k8s.io", "extensions",
	} {
		if BuiltinScope(GroupKind{Group: group, Kind: kind}) != ScopeUnknown {
			out = append(out, group)
		}
	}
	return out
}

func clusterScoped(k GroupKind) bool {
	switch k.Group {
	case "":
		return oneOf(k.Kind, "Namespace", "Node", "PersistentVolume", "ComponentStatus")
	case "rbac.authorization.k8s.io":
		return oneOf(k.Kind, "ClusterRole", "ClusterRoleBinding")
	case "apiextensions.k8s.io":
		return k.Kind == "CustomResourceDefinition"
	case "apiregistration.k8s.io":
		return k.Kind == "APIService"
	case "admissionregistration.k8s.io":
		return oneOf(k.Kind, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
			"ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
	case "storage.k8s.io":
		return oneOf(k.Kind, "StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "VolumeAttributesClass")
	case "scheduling.k8s.io":
		return k.Kind == "PriorityClass"
	case "node.k8s.io":
		return k.Kind == "RuntimeClass"
	case "networking.k8s.io":
		return oneOf(k.Kind, "IngressClass", "ServiceCIDR", "IPAddress")
	case "certificates.k8s.io":
		return oneOf(k.Kind, "CertificateSigningRequest", "ClusterTrustBundle")
	case "flowcontrol.apiserver.k8s.io":
		return oneOf(k.Kind, "FlowSchema", "PriorityLevelConfiguration")
	case "resource.k8s.io":
		return oneOf(k.Kind, "DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClass")
	case "authentication.k8s.io":
		return oneOf(k.Kind, "TokenReview", "SelfSubjectReview")
	case "authorization.k8s.io":
		return oneOf(k.Kind, "SubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview")
	case "internal.apiserver.k8s.io":
		return k.Kind == "StorageVersion"
	case "storagemigration.k8s.io":
		return k.Kind == "StorageVersionMigration"
	case "policy", "extensions":
		return k.Kind == "PodSecurityPolicy"
	}
	return false
}

func namespaced(k GroupKind) bool {
	switch k.Group {
	case "":
		return oneOf(k.Kind, "Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "PersistentVolumeClaim", "Pod",
			"PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount")
	case "apps":
		return oneOf(k.Kind, "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision")
	case "batch":
		return oneOf(k.Kind, "Job", "CronJob")
	case "autoscaling":
		return k.Kind == "HorizontalPodAutoscaler"
	case "networking.k8s.io":
		return oneOf(k.Kind, "Ingress", "NetworkPolicy")
	case "rbac.authorization.k8s.io":
		return oneOf(k.Kind, "Role", "RoleBinding")
	case "policy":
		return oneOf(k.Kind, "PodDisruptionBudget", "Eviction")
	case "coordination.k8s.io":
		return oneOf(k.Kind, "Lease", "LeaseCandidate")
	case "discovery.k8s.io":
		return k.Kind == "EndpointSlice"
	case "events.k8s.io":
		return k.Kind == "Event"
	case "storage.k8s.io":
		return k.Kind == "CSIStorageCapacity"
	case "authorization.k8s.io":
		return k.Kind == "LocalSubjectAccessReview"
	case "resource.k8s.io":
		return oneOf(k.Kind, "ResourceClaim", "ResourceClaimTemplate", "ResourceClaimParameters",
			"ResourceClassParameters",
			"PodSchedulingContext")
	case "certificates.k8s.io":
		return k.Kind == "PodCertificateRequest"
	case "extensions":
		return oneOf(k.Kind, "Deployment", "DaemonSet", "ReplicaSet", "Ingress", "NetworkPolicy")
	}
	return false
}

func oneOf(kind string, kinds ...string) bool {
	return slices.Contains(kinds, kind)
}

// CRDScope returns the kind and scope that a CustomResourceDefinition defines; ok is false for any other object.
func CRDScope(o Object) (GroupKind, Scope, bool) {
	if o.Kind() != "CustomResourceDefinition" || GroupOf(o.APIVersion()) != "apiextensions.k8s.io" {
		return GroupKind{}, ScopeUnknown, false
	}
	spec, _ := o["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	kind := GroupKind{Group: text(spec["group"]), Kind: text(names["kind"])}
	switch text(spec["scope"]) {
	case "Namespaced":
		return kind, ScopeNamespaced, true
	case "Cluster":
		return kind, ScopeCluster, true
	}
	return kind, ScopeUnknown, false
}
