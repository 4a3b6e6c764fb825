package diff

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// immutableFields lists the fields of a kind that the API server refuses to change.
type immutableFields struct {
	fields []string // immutable paths
	except []string // if set: everything below spec is immutable except these paths
	images bool     // the images of containers can change
	kept   []string // the API server keeps the values of these fields if the object no longer sets them
}

// immutableOf returns the immutable fields of the built-in kinds in which they do not depend on the object, by group
// and kind. The source is the validation of updates in Kubernetes 1.36 (pkg/apis/*/validation) and, for
// resource.k8s.io, the markers in k8s.io/api. TestAPIServerImmutableFields compares it with an API server.
func immutableOf(k manifest.GroupKind) (immutableFields, bool) {
	i, ok := map[manifest.GroupKind]immutableFields{
		{Group: "apps", Kind: "Deployment"}:         {fields: []string{"spec.selector"}},
		{Group: "apps", Kind: "DaemonSet"}:          {fields: []string{"spec.selector"}},
		{Group: "apps", Kind: "ReplicaSet"}:         {fields: []string{"spec.selector"}},
		{Group: "apps", Kind: "ControllerRevision"}: {fields: []string{"data"}},
		{Group: "apps", Kind: "StatefulSet"}: {except: []string{
			"spec.replicas", "spec.ordinals", "spec.template", "spec.updateStrategy", "spec.revisionHistoryLimit",
			"spec.persistentVolumeClaimRetentionPolicy", "spec.minReadySeconds",
		}},
		{Group: "batch", Kind: "Job"}: {fields: []string{
			"spec.template", "spec.selector", "spec.completions", "spec.completionMode", "spec.podFailurePolicy",
			"spec.backoffLimitPerIndex", "spec.managedBy", "spec.successPolicy",
		}},
		{Kind: "PersistentVolumeClaim"}: {except: []string{
			"spec.resources",
			"spec.volumeAttributesClassName",
		}},
		{Kind: "ResourceQuota"}: {fields: []string{"spec.scopes"}},
		{Group: "storage.k8s.io", Kind: "StorageClass"}: {fields: []string{
			"provisioner",
			"parameters", "reclaimPolicy", "volumeBindingMode",
		}},
		{Group: "storage.k8s.io", Kind: "CSIDriver"}: {fields: []string{
			"spec.attachRequired",
			"spec.volumeLifecycleModes",
		}},
		{Group: "storage.k8s.io", Kind: "CSIStorageCapacity"}: {fields: []string{
			"nodeTopology",
			"storageClassName",
		}},
		{Group: "storage.k8s.io", Kind: "VolumeAttachment"}: {fields: []string{"spec"}},
		{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}: {fields: []string{
			"driverName",
			"parameters",
		}},
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        {fields: []string{"roleRef"}},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: {fields: []string{"roleRef"}},
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: {fields: []string{
			"value",
			"preemptionPolicy",
		}},
		{Group: "node.k8s.io", Kind: "RuntimeClass"}:                      {fields: []string{"handler"}},
		{Group: "networking.k8s.io", Kind: "IngressClass"}:                {fields: []string{"spec.controller"}},
		{Group: "networking.k8s.io", Kind: "IPAddress"}:                   {fields: []string{"spec.parentRef"}},
		{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:                 {fields: []string{"spec.cidrs[0]"}},
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                {fields: []string{"addressType"}},
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: {fields: []string{"spec"}},
		{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:        {fields: []string{"spec.signerName"}},
		{Group: "resource.k8s.io", Kind: "ResourceClaim"}:                 {fields: []string{"spec"}},
		{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}:         {fields: []string{"spec"}},
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}: {fields: []string{
			"spec.pool.name",
			"spec.driver", "spec.nodeName",
		}},
		{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}: {fields: []string{"spec"}},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {fields: []string{
			"spec.scope",
			"spec.group", "spec.names.kind", "spec.names.plural",
		}},
	}[k]
	return i, ok
}

func (j *judgement) immutableFields() immutableFields {
	if i, ok := immutableOf(manifest.GroupKind{Group: j.change.ID.Group, Kind: j.change.ID.Kind}); ok {
		return i
	}
	return j.conditionallyImmutable()
}

// conditionallyImmutable covers kinds whose immutable fields depend on other fields of the object.
func (j *judgement) conditionallyImmutable() immutableFields {
	frozen, _ := get(j.before, "immutable").(bool)
	switch {
	case j.is("", "Service"):
		if t, _ := get(j.before, "spec", "type").(string); t == "ExternalName" {
			return immutableFields{} // such a Service has no cluster IP yet
		}
		return immutableFields{
			fields: j.serviceFields(), kept: []string{"spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort"},
		}
	case j.is("", "PersistentVolume"):
		return j.volumeFields()
	case j.is("", "Pod"):
		return immutableFields{
			images: true, except: []string{"spec.activeDeadlineSeconds", "spec.tolerations"},
			kept: []string{"spec.serviceAccountName"}, // its older name serviceAccount stays
		}
	case j.is("", "Secret") && frozen:
		return immutableFields{fields: []string{"type", "data", "stringData", "immutable"}}
	case j.is("", "Secret"):
		return immutableFields{fields: []string{"type"}}
	case j.is("", "ConfigMap") && frozen:
		return immutableFields{fields: []string{"data", "binaryData", "immutable"}}
	}
	return immutableFields{}
}

// serviceFields lists the immutable fields of a Service that is not of type ExternalName.
func (j *judgement) serviceFields() []string {
	out := []string{"spec.clusterIP", "spec.clusterIPs"}
	t, _ := get(j.before, "spec", "type").(string)
	// another type drops both fields
	if now, _ := get(j.after, "spec", "type").(string); t == "LoadBalancer" && now == t {
		out = append(out, "spec.loadBalancerClass", "spec.healthCheckNodePort")
	}
	return out
}

// volumeFields returns the immutable fields of a PersistentVolume: its source, its mode, and a node affinity that it
// has.
func (j *judgement) volumeFields() immutableFields {
	out := immutableFields{except: []string{
		"spec.capacity", "spec.accessModes", "spec.claimRef", "spec.persistentVolumeReclaimPolicy",
		"spec.storageClassName", "spec.mountOptions",
		"spec.volumeAttributesClassName",
	}}
	if get(j.before, "spec", "nodeAffinity") == nil {
		out.except = append(out.except, "spec.nodeAffinity")
	}
	if get(j.before, "spec", "csi", "controllerExpandSecretRef") == nil {
		out.except = append(out.except, "spec.csi.controllerExpandSecretRef")
	}
	return out
}

func (i immutableFields) has(path string) bool {
	if i.images && strings.HasSuffix(path, ".image") {
		return false
	}
	if i.except != nil {
		return strings.HasPrefix(path, "spec.") && !under(path, i.except)
	}
	return under(path, i.fields)
}

// below reports whether an immutable field is below a path.
func (i immutableFields) below(path string) bool {
	return slices.ContainsFunc(i.fields, func(field string) bool {
		return strings.HasPrefix(field, path+".") || strings.HasPrefix(field, path+"[")
	})
}

// under reports whether a path is one of the prefixes or below one of them.
func under(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, prefix+".") || strings.HasPrefix(path, prefix+"[")
	})
}

// immutable reports changes of immutable fields, according to the tool that applies the object.
func (j *judgement) immutable() {
	if j.change.Verb == Renamed {
		return // the cluster creates another object
	}
	frozen := j.immutableFields()
	var paths []string
	for _, f := range j.change.Fields {
		switch {
		case !f.Has && slices.Contains(frozen.kept, f.Path):
		case frozen.has(f.Path), !f.Has && frozen.below(f.Path):
			paths = append(paths, f.Path)
		}
	}
	if len(paths) == 0 {
		return
	}
	outcomes := applyOutcomes(j.after, j.applying)
	path := paths[0]
	switch {
	case all(outcomes, outcomeRefused):
		for _, p := range paths {
			j.add(EffectImmutable, RiskCritical, p,
				"%s is immutable: the API server refuses the change; delete the object so that it is created again", p)
		}
	case all(outcomes, outcomeRecreated):
		j.recreated(path, reasons(outcomes))
	case all(outcomes, outcomeKept):
		j.add(EffectNotApplied, RiskLow, path, "the change does not reach the cluster: %s", reasons(outcomes))
	default:
		j.add(EffectDependsOnSync, RiskHigh, path, "%s is immutable: %s", path, reasons(outcomes))
	}
}

// recreated reports that the object is deleted and created again, and what is lost thereby.
func (j *judgement) recreated(path, why string) {
	switch {
	case j.is("", "PersistentVolumeClaim") || j.is("apiextensions.k8s.io", "CustomResourceDefinition"):
		j.add(EffectDataLoss, RiskCritical, path, "the object is deleted and created again, and its data is lost: %s",
			why)
	case j.is("batch", "Job"):
		j.add(EffectRerun, RiskMedium, path, "the Job runs again: %s", why)
	case workload(j.change.ID):
		j.add(EffectRecreated, RiskHigh, path, "all pods stop and new ones start: %s", why)
	default:
		j.add(EffectRecreated, RiskMedium, path, "%s", why)
	}
}
