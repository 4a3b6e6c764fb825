package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// judge sets the effects, the images, the rights and the risk of a change. by says how it is applied, stored which
// changes of fields reach the cluster.
func judge(c *ObjectChange, before, after manifest.Object, by applying, stored []FieldChange) {
	j := &judgement{change: c, before: before, after: after, applying: by, stored: stored}
	switch c.Verb {
	case Added:
		j.hooks()
	case Removed:
		j.removed()
	default:
		j.renamed()
		j.immutable()
		j.storage()
		j.versions()
		j.replicas()
		j.hooks()
		j.rolls()
	}
	j.rights()
	j.host()
	j.exposed()
	j.budget()
	j.images()
	c.setRisk(Rules{})
}

// judgement collects the effects of one change. before is nil for an added object, after for a removed one.
type judgement struct {
	change        *ObjectChange
	before, after manifest.Object
	applying
	// changes of fields that reach the cluster; noise counts, another form of the same value does not
	stored []FieldChange
}

// applying is how a tool applies the objects of a target.
type applying struct {
	sync  Sync
	keeps string // why a removed object stays in the cluster; "" if its own annotations decide
	force bool   // Flux: spec.force of the Kustomization
}

func (j *judgement) add(name EffectName, risk Risk, path, format string, args ...any) {
	j.change.Effects = append(j.change.Effects, Effect{
		Name: name, Risk: risk, Path: path,
		Message: fmt.Sprintf(format, args...),
	})
}

func (j *judgement) is(group string, kinds ...string) bool {
	return j.change.ID.Group == group && slices.Contains(kinds, j.change.ID.Kind)
}

// Orphaned reports whether a removed object stays in the cluster and is no longer managed.
func (o *ObjectChange) Orphaned() bool {
	return o.Verb == Removed && slices.ContainsFunc(o.Effects, func(e Effect) bool { return e.Name == EffectOrphan })
}

// removed reports what is lost with a removed object.
func (j *judgement) removed() {
	effect, message := j.removal()
	outcomes := pruneOutcomes(j.before, j.sync)
	switch {
	case j.keeps != "":
		j.add(EffectOrphan, RiskMedium, "", "no longer managed, and stays in the cluster: %s", j.keeps)
	case all(outcomes, outcomeKept):
		j.add(EffectOrphan, RiskMedium, "", "no longer managed, and stays in the cluster: %s", reasons(outcomes))
	case effect == "":
	case slices.ContainsFunc(outcomes, func(o outcome) bool { return o.kind == outcomeKept }):
		j.add(effect, RiskHigh, "", "%s; %s", message, reasons(outcomes))
	default:
		j.add(effect, RiskCritical, "", "%s", message)
	}
}

func (j *judgement) removal() (EffectName, string) {
	switch {
	case j.is("apiextensions.k8s.io", "CustomResourceDefinition"):
		return EffectCRDRemoved, "the cluster deletes all objects of this kind"
	case j.is("", "Namespace"):
		return EffectNamespaceGone, "the cluster deletes everything in the namespace"
	case j.is("", "PersistentVolumeClaim"):
		return EffectDataLoss, "the volume is deleted or released, according to its reclaim policy"
	case j.is("", "PersistentVolume"):
		return EffectDataLoss, "the data is deleted if the reclaim policy is Delete"
	case j.is("apps", "StatefulSet"):
		return EffectStatefulGone, "its pods stop; persistentVolumeClaimRetentionPolicy decides about their volumes"
	}
	return "", ""
}

func (j *judgement) renamed() {
	if j.change.Verb != Renamed {
		return
	}
	if j.is("", "PersistentVolumeClaim", "Namespace") || j.is("apps", "StatefulSet") {
		j.add(EffectDataLoss, RiskCritical, "metadata.name", "%s is removed with its data; %s starts empty",
			Title(j.change.OldID), Title(j.change.ID))
		return
	}
	// A Job under another name is the usual way to run it again.
	if workload(j.change.ID) && !j.is("batch", "Job") {
		j.add(EffectRecreated, RiskHigh, "metadata.name", "%s is removed and %s is created", Title(j.change.OldID),
			Title(j.change.ID))
	}
}

func (j *judgement) storage() {
	const request = "spec.resources.requests.storage"
	path := strings.Split(request, ".")
	if had := get(j.before, path...); j.is("", "PersistentVolumeClaim") && had != nil && get(j.after, path...) == nil {
		j.add(EffectStorageShrinks, RiskCritical, request, "a volume cannot give up its size of %v", had)
	}
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
	now := servedVersions(j.after)
	for _, v := range servedVersions(j.before) {
		if !slices.Contains(now, v) {
			j.add(EffectCRDVersion, RiskCritical, "spec.versions[name="+v+"]",
				"version %s is no longer served; objects and clients that use it fail", v)
		}
	}
}

func servedVersions(crd manifest.Object) []string {
	var out []string
	list, _ := get(crd, "spec", "versions").([]any)
	for _, v := range list {
		m, _ := v.(map[string]any)
		if served, _ := m["served"].(bool); served {
			name, _ := m["name"].(string)
			out = append(out, name)
		}
	}
	return out
}

func (j *judgement) replicas() {
	if !workload(j.change.ID) && !j.is("autoscaling", "HorizontalPodAutoscaler") {
		return
	}
	for _, f := range j.change.Fields {
		if !slices.Contains([]string{"spec.replicas", "spec.minReplicas", "spec.maxReplicas"}, f.Path) {
			continue
		}
		now, has := number(f.New)
		old, had := number(f.Old)
		switch {
		case f.Has && has && now == 0 && f.Path != "spec.minReplicas" && (!had || old != 0):
			j.add(EffectZeroReplicas, RiskHigh, f.Path, "no replica keeps running")
		case had && f.Has && has && now < old:
			j.add(EffectReplicasCut, RiskMedium, f.Path, "%s falls from %v to %v", strings.TrimPrefix(f.Path, "spec."),
				f.Old, f.New)
		}
	}
}

// rolls reports that pods are replaced. Every change of a pod template does that, even one of noise.
func (j *judgement) rolls() {
	if j.change.Verb != Changed || !workload(j.change.ID) || j.is("batch", "Job", "CronJob") {
		return
	}
	in := func(f FieldChange) bool {
		return f.Path == "spec.template" || strings.HasPrefix(f.Path, "spec.template.")
	}
	if !slices.ContainsFunc(j.stored, in) {
		return
	}
	if strategy, _ := get(j.after, "spec", "updateStrategy", "type").(string); strategy == "OnDelete" {
		return
	}
	j.change.Rolls = true
	if strategy, _ := get(j.after, "spec", "strategy", "type").(string); strategy == "Recreate" {
		j.add(EffectRolls, RiskHigh, "spec.template", "all pods stop before new ones start (strategy Recreate)")
		return
	}
	j.add(EffectRolls, RiskMedium, "spec.template", "the pods are replaced")
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
	if n := len(j.change.Images); j.change.Verb == Changed && n > 0 {
		verb := " change"
		if n == 1 {
			verb = " changes"
		}
		j.add(EffectImage, RiskMedium, "", "%d %s%s", n, plural(n, "image"), verb)
	}
}

// images maps the names of an object's containers to their images.
func images(o manifest.Object) map[string]string {
	out := map[string]string{}
	if o == nil {
		return out
	}
	spec, _ := podSpec(o)
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

// Container is a container of a workload's pods.
type Container struct{ Name, Image string }

// Containers returns the containers of a workload's pods in their order, without those that only run before them; nil
// for another object.
func Containers(o manifest.Object) []Container {
	spec, _ := podSpec(o)
	items, _ := spec["containers"].([]any)
	var out []Container
	for _, c := range items {
		m, _ := c.(map[string]any)
		name, _ := m["name"].(string)
		image, _ := m["image"].(string)
		out = append(out, Container{name, image})
	}
	return out
}

// podSpec returns the specification of an object's pods, and the path of it; nil if the object has none.
func podSpec(o manifest.Object) (map[string]any, string) {
	path := []string{"spec", "template", "spec"}
	switch o.Kind() {
	case "CronJob":
		path = []string{"spec", "jobTemplate", "spec", "template", "spec"}
	case "Pod":
		path = []string{"spec"}
	}
	spec, _ := get(o, path...).(map[string]any)
	return spec, strings.Join(path, ".")
}

func workload(id manifest.Identity) bool {
	return id.Group == "apps" && slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"},
		id.Kind) ||
		id.Group == "batch" && (id.Kind == "Job" || id.Kind == "CronJob") ||
		id.Group == "argoproj.io" && id.Kind == "Rollout"
}

// get returns the value at a path of mapping keys, nil if there is none.
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
