package diff

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// budget reports a PodDisruptionBudget that newly allows no disruption, by what it says itself.
func (j *judgement) budget() {
	if !isBudget(j.change.ID) || j.after == nil || blocksAlone(j.after) == "" ||
		j.before != nil && blocksAlone(j.before) != "" {
		return
	}
	path := blocksAlone(j.after)
	j.add(EffectNoDisruption, RiskHigh, path, "no pod may be evicted (%s: %v): nodes with such pods cannot be drained",
		strings.TrimPrefix(path, "spec."), get(j.after, strings.Split(path, ".")...))
}

func isBudget(id manifest.Identity) bool {
	return id.Group == "policy" && id.Kind == "PodDisruptionBudget"
}

// blocksAlone returns the field by which a budget allows no disruption, however many pods there are; "" if there is
// none.
func blocksAlone(o manifest.Object) string {
	switch most := get(o, "spec", "maxUnavailable"); {
	case most == "0%":
		return "spec.maxUnavailable"
	case most != nil:
		if n, ok := number(most); ok && n == 0 {
			return "spec.maxUnavailable"
		}
	}
	if get(o, "spec", "minAvailable") == "100%" {
		return "spec.minAvailable"
	}
	return ""
}

// budgets adds to the changes of a target the budgets whose minAvailable leaves none of their workload's replicas to
// evict. It sees only objects that the change adds or changes. Changes that it adds to are copied, because targets
// share them.
func budgets(changes []*ObjectChange, t *Target) []*ObjectChange {
	if !slices.ContainsFunc(changes, func(c *ObjectChange) bool { return isBudget(c.ID) }) {
		return changes
	}
	blockedBefore := map[manifest.Identity]bool{}
	for id := range blocked(t.Before) {
		blockedBefore[id] = true
	}
	now := blocked(t.After)
	for i, c := range changes {
		b, ok := now[c.ID]
		old := c.ID
		if c.Verb == Renamed {
			old = c.OldID
		}
		if !ok || blockedBefore[old] {
			continue
		}
		own := *c
		own.Effects = append(slices.Clone(c.Effects), Effect{
			Name: EffectNoDisruption, Risk: RiskHigh, Path: "spec.minAvailable",
			Message: "no pod may be evicted: " + b + "; nodes with such pods cannot be drained",
		})
		own.setRisk(Rules{})
		changes[i] = &own
	}
	return changes
}

// blocked returns the budgets that leave no pod to evict, each with the reason. Workloads that an autoscaler scales,
// and those without a number of replicas, are left out.
func blocked(list []Object) map[manifest.Identity]string {
	scaled := map[string]bool{}
	for i := range list {
		o := list[i].Object
		if o.Kind() == "HorizontalPodAutoscaler" || o.Kind() == "ScaledObject" {
			name, _ := get(o, "spec", "scaleTargetRef", "name").(string)
			scaled[o.Namespace()+"/"+name] = true
		}
	}
	out := map[manifest.Identity]string{}
	for i := range list {
		o := list[i].Object
		least, ok := number(get(o, "spec", "minAvailable"))
		if !ok || !isBudget(o.Identity()) || blocksAlone(o) != "" {
			continue
		}
		selector := selectorOf(o)
		if selector == nil || selector.Empty() {
			continue
		}
		replicas, names := 0.0, map[string]bool{}
		for k := range list {
			w := list[k].Object
			id := w.Identity()
			if !workload(id) || id.Group == "batch" || id.Kind == "DaemonSet" || w.Namespace() != o.Namespace() {
				continue
			}
			set, _ := get(w, "spec", "template", "metadata", "labels").(map[string]any)
			if !selector.Matches(labelsOf(set)) {
				continue
			}
			if scaled[w.Namespace()+"/"+w.Name()] {
				replicas += least + 1
			}
			n, ok := number(get(w, "spec", "replicas"))
			if !ok {
				n = 1
			}
			replicas += n
			names[id.Kind+" "+w.Name()] = true
		}
		if len(names) > 0 && replicas > 0 && least >= replicas {
			out[o.Identity()] = listed(slices.Sorted(maps.Keys(names))) + " has " + count(replicas) +
				" of the " + count(least) + " pods that minAvailable asks for"
		}
	}
	return out
}

// selectorOf returns the pods that a budget is for; nil if it says none, or in a form that cannot be read.
func selectorOf(o manifest.Object) k8slabels.Selector {
	m, _ := get(o, "spec", "selector").(map[string]any)
	var s metav1.LabelSelector
	if m == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(m, &s) != nil {
		return nil
	}
	out, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil { // the API server refuses it
		return nil
	}
	return out
}

func labelsOf(m map[string]any) k8slabels.Set {
	out := k8slabels.Set{}
	for k, v := range m {
		out[k], _ = v.(string) // the API server refuses a label of another type
	}
	return out
}

func count(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
