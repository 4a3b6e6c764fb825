package diff

import (
	"slices"
	"strings"
)

// immutableFields lists the fields of a kind that the API server refuses to change, from the API server's validation
// of updates (Kubernetes 1.35, pkg/apis/*/validation).
type immutableFields struct {
	fields []string // immutable paths
	except []string // if set: everything below spec is immutable except these paths
}

func (j *judgement) immutableFields() immutableFields {
	switch {
	case j.is("apps", "Deployment", "DaemonSet", "ReplicaSet"):
		return immutableFields{fields: []string{"spec.selector"}}
	case j.is("apps", "StatefulSet"):
		return immutableFields{except: []string{
			"spec.replicas", "spec.ordinals", "spec.template", "spec.updateStrategy", "spec.revisionHistoryLimit",
			"spec.persistentVolumeClaimRetentionPolicy", "spec.minReadySeconds",
		}}
	case j.is("batch", "Job"):
		return immutableFields{fields: []string{
			"spec.template", "spec.selector", "spec.completions", "spec.completionMode", "spec.podFailurePolicy",
			"spec.backoffLimitPerIndex", "spec.managedBy",
		}}
	case j.is("", "PersistentVolumeClaim"):
		return immutableFields{except: []string{"spec.resources", "spec.volumeAttributesClassName"}}
	case j.is("storage.k8s.io", "StorageClass"):
		return immutableFields{fields: []string{"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode", "mountOptions"}}
	case j.is("rbac.authorization.k8s.io", "RoleBinding", "ClusterRoleBinding"):
		return immutableFields{fields: []string{"roleRef"}}
	case j.is("scheduling.k8s.io", "PriorityClass"):
		return immutableFields{fields: []string{"value", "preemptionPolicy"}}
	case j.is("networking.k8s.io", "IngressClass"):
		return immutableFields{fields: []string{"spec.controller"}}
	case j.is("apiextensions.k8s.io", "CustomResourceDefinition"):
		return immutableFields{fields: []string{"spec.scope", "spec.group", "spec.names.kind", "spec.names.plural"}}
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
		return immutableFields{fields: []string{"spec.clusterIP", "spec.clusterIPs"}}
	case j.is("", "Secret") && frozen:
		return immutableFields{fields: []string{"type", "data", "stringData", "immutable"}}
	case j.is("", "Secret"):
		return immutableFields{fields: []string{"type"}}
	case j.is("", "ConfigMap") && frozen:
		return immutableFields{fields: []string{"data", "binaryData", "immutable"}}
	}
	return immutableFields{}
}

func (i immutableFields) has(path string) bool {
	if i.except != nil {
		return strings.HasPrefix(path, "spec.") && !under(path, i.except)
	}
	return under(path, i.fields)
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
		if frozen.has(f.Path) {
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
			j.add(EffectImmutable, RiskCritical, p, "%s is immutable: the API server refuses the change; delete the object so that it is created again", p)
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
		j.add(EffectDataLoss, RiskCritical, path, "the object is deleted and created again, and its data is lost: %s", why)
	case j.is("batch", "Job"):
		j.add(EffectRerun, RiskMedium, path, "the Job runs again: %s", why)
	case workload(j.change.ID):
		j.add(EffectRecreated, RiskHigh, path, "all pods stop and new ones start: %s", why)
	default:
		j.add(EffectRecreated, RiskMedium, path, "%s", why)
	}
}
