package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// judge names the consequences of a change and its risk.
func judge(c *ObjectChange, before, after manifest.Object) {
	j := &judgement{change: c, before: before, after: after}
	switch c.Verb {
	case Added:
		c.Risk = RiskMedium
		j.hooks()
	case Removed:
		c.Risk = RiskHigh
		j.removed()
	default:
		c.Risk = RiskLow
		if c.OnlyNoise() {
			c.Risk = RiskNone
		}
		j.renamed()
		j.immutable()
		j.storage()
		j.versions()
		j.replicas()
		j.hooks()
		j.rolls()
	}
	j.rights()
	j.images()
	for _, e := range c.Effects {
		if e.Risk.Rank() < c.Risk.Rank() {
			c.Risk = e.Risk
		}
	}
}

type judgement struct {
	change        *ObjectChange
	before, after manifest.Object
}

func (j *judgement) add(name EffectName, risk Risk, path, format string, args ...any) {
	j.change.Effects = append(j.change.Effects, Effect{Name: name, Risk: risk, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (j *judgement) is(group string, kinds ...string) bool {
	return j.change.ID.Group == group && slices.Contains(kinds, j.change.ID.Kind)
}

func (j *judgement) removed() {
	switch {
	case j.is("apiextensions.k8s.io", "CustomResourceDefinition"):
		j.add(EffectCRDRemoved, RiskCritical, "", "every object of its kind goes with the CustomResourceDefinition")
	case j.is("", "Namespace"):
		j.add(EffectNamespaceGone, RiskCritical, "", "everything in the namespace goes with it")
	case j.is("", "PersistentVolumeClaim"):
		j.add(EffectDataLoss, RiskCritical, "", "the volume's data may go with the claim, as its reclaim policy says")
	case j.is("", "PersistentVolume"):
		j.add(EffectDataLoss, RiskCritical, "", "the volume goes, as its reclaim policy says")
	case j.is("apps", "StatefulSet"):
		j.add(EffectStatefulGone, RiskCritical, "", "its pods stop; what becomes of their volumes is up to persistentVolumeClaimRetentionPolicy")
	}
}

func (j *judgement) renamed() {
	if j.change.Verb != Renamed {
		return
	}
	if workload(j.change.ID) {
		j.add(EffectRecreated, RiskHigh, "metadata.name", "%s is removed and %s made: another object to the cluster", Title(j.change.OldID), Title(j.change.ID))
	}
	if j.is("", "PersistentVolumeClaim", "Namespace") || j.is("apps", "StatefulSet") {
		j.add(EffectDataLoss, RiskCritical, "metadata.name", "%s goes, and %s begins empty", Title(j.change.OldID), Title(j.change.ID))
	}
}

// immutable fields, by the API server's validation of updates (Kubernetes 1.35, pkg/apis/*/validation).
func (j *judgement) immutable() {
	if j.change.Verb == Renamed {
		return // the new object begins anew
	}
	var why string
	var match func(path string) bool
	under := func(prefixes ...string) func(string) bool {
		return func(p string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool {
				return p == prefix || strings.HasPrefix(p, prefix+".") || strings.HasPrefix(p, prefix+"[")
			})
		}
	}
	why = "the API server refuses to change it: delete and make the object anew"
	switch {
	case j.is("apps", "Deployment", "DaemonSet", "ReplicaSet"):
		match = under("spec.selector")
	case j.is("apps", "StatefulSet"):
		allowed := under("spec.replicas", "spec.ordinals", "spec.template", "spec.updateStrategy", "spec.revisionHistoryLimit",
			"spec.persistentVolumeClaimRetentionPolicy", "spec.minReadySeconds")
		match = func(p string) bool { return strings.HasPrefix(p, "spec.") && !allowed(p) }
	case j.is("batch", "Job"):
		match = under("spec.template", "spec.selector", "spec.completions", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy")
	case j.is("", "Service"):
		match = func(p string) bool {
			return under("spec.clusterIP", "spec.clusterIPs")(p) && !j.leavesType("ExternalName")
		}
	case j.is("", "PersistentVolumeClaim"):
		allowed := under("spec.resources", "spec.volumeAttributesClassName")
		match = func(p string) bool { return strings.HasPrefix(p, "spec.") && !allowed(p) }
	case j.is("storage.k8s.io", "StorageClass"):
		match = under("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode", "mountOptions")
	case j.is("rbac.authorization.k8s.io", "RoleBinding", "ClusterRoleBinding"):
		match = under("roleRef")
	case j.is("", "Secret"):
		match = under("type")
		if j.frozenData() {
			match = under("type", "data", "stringData", "immutable")
		}
	case j.is("", "ConfigMap") && j.frozenData():
		match = under("data", "binaryData", "immutable")
	case j.is("scheduling.k8s.io", "PriorityClass"):
		match = under("value", "preemptionPolicy")
	case j.is("networking.k8s.io", "IngressClass"):
		match = under("spec.controller")
	case j.is("apiextensions.k8s.io", "CustomResourceDefinition"):
		match = under("spec.scope", "spec.group", "spec.names.kind", "spec.names.plural")
	default:
		return
	}
	for _, f := range j.change.Fields {
		if match(f.Path) {
			j.add(EffectImmutable, RiskCritical, f.Path, "%s: %s", f.Path, why)
		}
	}
}

func (j *judgement) leavesType(t string) bool {
	old, _ := get(j.before, "spec", "type").(string)
	return old == t
}

func (j *judgement) frozenData() bool {
	v, _ := get(j.before, "immutable").(bool)
	return v
}

func (j *judgement) storage() {
	for _, f := range j.change.Fields {
		if !strings.HasSuffix(f.Path, "resources.requests.storage") {
			continue
		}
		old, ok1 := quantity(f.Old)
		now, ok2 := quantity(f.New)
		if ok1 && ok2 && now < old {
			j.add(EffectStorageShrinks, RiskCritical, f.Path, "a volume cannot shrink from %v to %v", f.Old, f.New)
		}
	}
}

func (j *judgement) versions() {
	if !j.is("apiextensions.k8s.io", "CustomResourceDefinition") {
		return
	}
	served := func(o manifest.Object) []string {
		var out []string
		list, _ := get(o, "spec", "versions").([]any)
		for _, v := range list {
			m, _ := v.(map[string]any)
			if on, _ := m["served"].(bool); on {
				name, _ := m["name"].(string)
				out = append(out, name)
			}
		}
		return out
	}
	now := served(j.after)
	for _, v := range served(j.before) {
		if !slices.Contains(now, v) {
			j.add(EffectCRDVersion, RiskCritical, "spec.versions[name="+v+"]", "version %s is not served any more: objects and clients that use it fail", v)
		}
	}
}

func (j *judgement) replicas() {
	if !workload(j.change.ID) && !j.is("autoscaling", "HorizontalPodAutoscaler") {
		return
	}
	for _, f := range j.change.Fields {
		if f.Path != "spec.replicas" && f.Path != "spec.maxReplicas" {
			continue
		}
		now, has := number(f.New)
		old, had := number(f.Old)
		if f.Has && has && now == 0 && (!had || old != 0) {
			j.add(EffectZeroReplicas, RiskHigh, f.Path, "no replica is left running")
		}
	}
}

func (j *judgement) hooks() {
	hook := func(o manifest.Object) string {
		for _, key := range []string{"helm.sh/hook", "argocd.argoproj.io/hook"} {
			if v := o.Annotation(key); v != "" {
				return key + "=" + v
			}
		}
		return ""
	}
	if now := hook(j.after); now != "" && (j.before == nil || hook(j.before) != now) {
		j.add(EffectHook, RiskMedium, "metadata.annotations", "it is a hook now (%s)", now)
	}
}

// rolls says that pods are replaced: any change of a pod template does, one of noise too.
func (j *judgement) rolls() {
	if j.change.Verb != Changed || !workload(j.change.ID) || j.is("batch", "Job", "CronJob") {
		return
	}
	in := func(f FieldChange) bool {
		return f.Path == "spec.template" || strings.HasPrefix(f.Path, "spec.template.")
	}
	if !slices.ContainsFunc(j.change.Fields, in) && !slices.ContainsFunc(j.change.Noise, in) {
		return
	}
	if strategy, _ := get(j.after, "spec", "updateStrategy", "type").(string); strategy == "OnDelete" {
		return
	}
	j.change.Rolls = true
	risk := RiskMedium
	message := "its pods are replaced"
	if strategy, _ := get(j.after, "spec", "strategy", "type").(string); strategy == "Recreate" {
		risk, message = RiskHigh, "its pods are all stopped before new ones start (strategy Recreate)"
	}
	j.add(EffectRolls, risk, "spec.template", "%s", message)
}

func (j *judgement) images() {
	if !workload(j.change.ID) && !j.is("", "Pod") {
		return
	}
	old, now := images(j.before), images(j.after)
	names := make([]string, 0, len(now))
	for name := range now {
		names = append(names, name)
	}
	for name := range old {
		if _, ok := now[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if old[name] != now[name] {
			j.change.Images = append(j.change.Images, Image{Container: name, Old: old[name], New: now[name]})
		}
	}
	if j.change.Verb == Changed && len(j.change.Images) > 0 {
		j.add(EffectImage, RiskMedium, "", "%d images change", len(j.change.Images))
	}
}

func images(o manifest.Object) map[string]string {
	out := map[string]string{}
	if o == nil {
		return out
	}
	spec, _ := get(o, "spec", "template", "spec").(map[string]any)
	switch {
	case o.Kind() == "CronJob":
		spec, _ = get(o, "spec", "jobTemplate", "spec", "template", "spec").(map[string]any)
	case o.Kind() == "Pod":
		spec, _ = o["spec"].(map[string]any)
	}
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, c := range items {
			m, _ := c.(map[string]any)
			name, _ := m["name"].(string)
			image, _ := m["image"].(string)
			out[name] = image
		}
	}
	return out
}

func workload(id manifest.Identity) bool {
	return id.Group == "apps" && slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, id.Kind) ||
		id.Group == "batch" && (id.Kind == "Job" || id.Kind == "CronJob") ||
		id.Group == "argoproj.io" && id.Kind == "Rollout"
}

func get(o map[string]any, path ...string) any {
	var v any = o
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func number(v any) (float64, bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float64:
		return x, true
	case string:
		f, err := strconv.ParseFloat(x, 64)
		return f, err == nil
	}
	return 0, false
}
