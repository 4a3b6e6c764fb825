package diff

import (
	"fmt"
	"slices"
	"strings"
)

// mergeKeys returns the fields that identify the elements of a list of mappings, by the list's name: Kubernetes'
// patch merge keys and list map keys (api/openapi-spec of Kubernetes 1.35: x-kubernetes-patch-merge-key,
// x-kubernetes-list-map-keys) and those of widely used kinds.
func mergeKeys(list string) [][]string {
	switch list {
	case "containers", "initContainers", "ephemeralContainers", "env", "volumes", "imagePullSecrets", "secrets",
		"webhooks", "versions",
		"resourceClaims", "validations", "matchConditions", "schedulingGates", "sources", "metrics":
		return [][]string{{"name"}}
	case "ports":
		return [][]string{{"name"}, {"containerPort", "protocol"}, {"port", "protocol"}}
	case "volumeMounts":
		return [][]string{{"mountPath"}}
	case "volumeDevices":
		return [][]string{{"devicePath"}}
	case "hostAliases":
		return [][]string{{"ip"}}
	case "topologySpreadConstraints":
		return [][]string{{"topologyKey", "whenUnsatisfiable"}}
	case "conditions":
		return [][]string{{"type"}}
	case "subjects":
		return [][]string{{"kind", "namespace", "name"}}
	case "volumeClaimTemplates":
		return [][]string{{"metadata.name"}}
	case "items":
		return [][]string{{"key"}, {"name"}, {"path"}}
	case "rules":
		return [][]string{{"host"}, {"name"}, {"alert"}, {"record"}}
	case "paths":
		return [][]string{{"path"}}
	case "groups":
		return [][]string{{"name"}}
	case "tolerations":
		return [][]string{{"key", "operator", "value", "effect"}}
	}
	return [][]string{{"name"}, {"id"}, {"key"}}
}

// label returns an element's selector in a path, `name=web`, or "" if the element has none of the keys.
func label(element any, keys []string) string {
	m, ok := element.(map[string]any)
	if !ok {
		return ""
	}
	var parts []string
	for _, k := range keys {
		var v any = m
		for step := range strings.SplitSeq(k, ".") {
			inner, ok := v.(map[string]any)
			if !ok {
				v = nil
				break
			}
			v = inner[step]
		}
		switch v.(type) {
		case nil:
			continue
		case map[string]any, []any:
			return ""
		}
		parts = append(parts, fmt.Sprintf("%s=%v", k, v))
	}
	return strings.Join(parts, ",")
}

// labels returns the selectors of all elements under the first set of keys that identifies each element of both
// lists. ok is false if there is none.
func labels(list string, a, b []any) (la, lb []string, ok bool) {
	for _, keys := range mergeKeys(list) {
		if la, ok = unique(a, keys); !ok {
			continue
		}
		if lb, ok = unique(b, keys); ok {
			return la, lb, true
		}
	}
	return nil, nil, false
}

func unique(list []any, keys []string) ([]string, bool) {
	out := make([]string, len(list))
	seen := make(map[string]bool, len(list))
	for i, e := range list {
		out[i] = label(e, keys)
		if out[i] == "" || seen[out[i]] {
			return nil, false
		}
		seen[out[i]] = true
	}
	return out, true
}

// reordered reports whether elements of a list whose order counts, with their selectors, stand in another order.
func reordered(list string, a []any, la, lb []string) bool {
	if unordered(list, a) {
		return false
	}
	common := func(in []string, other map[string]int) []string {
		return slices.DeleteFunc(slices.Clone(in), func(l string) bool { _, has := other[l]; return !has })
	}
	return !slices.Equal(common(la, positionsOf(lb)), common(lb, positionsOf(la)))
}

// unordered reports whether the order of a list means nothing to whatever reads it: the subjects of a binding add up,
// conditions and the ports of a Service are looked up. Elsewhere it counts: steps and routes are taken one after the
// other, a variable of a container sees those before it, and any other order in a pod template starts a rollout.
func unordered(list string, a []any) bool {
	switch list {
	case "subjects", "secrets", "conditions":
		return true
	case "ports":
		return !slices.ContainsFunc(a, func(e any) bool {
			port, _ := e.(map[string]any)
			_, ofContainer := port["containerPort"]
			return ofContainer
		})
	}
	return false
}

// align orders b's elements as in a, unless their order counts. A new element stays behind the element that it follows
// in b. The lists then differ only in content, not in order.
func align(list string, a, b []any) []any {
	la, lb, ok := labels(list, a, b)
	if !ok || reordered(list, a, la, lb) {
		return b
	}
	at, known := positionsOf(lb), positionsOf(la)
	out := make([]any, 0, len(b))
	follow := func(i int) { // appends b[i], which is in a or the first, and the new elements behind it
		for ; i < len(b); i++ {
			out = append(out, b[i])
			if i+1 < len(b) {
				if _, common := known[lb[i+1]]; common {
					return
				}
			}
		}
	}
	if len(b) > 0 {
		if _, common := known[lb[0]]; !common {
			follow(0)
		}
	}
	for _, l := range la {
		if i, ok := at[l]; ok {
			follow(i)
		}
	}
	return out
}

func positionsOf(labels []string) map[string]int {
	out := make(map[string]int, len(labels))
	for i, l := range labels {
		out[l] = i
	}
	return out
}

// alignAll returns a copy of b whose lists, at every depth, are aligned with those of a.
func alignAll(name string, a, b any) any {
	switch y := b.(type) {
	case map[string]any:
		x, _ := a.(map[string]any)
		out := make(map[string]any, len(y))
		for k, v := range y {
			out[k] = alignAll(k, x[k], v)
		}
		return out
	case []any:
		x, _ := a.([]any)
		if x == nil {
			return y
		}
		return alignElements(name, x, slices.Clone(align(name, x, y)))
	}
	return b
}

func alignElements(name string, a, b []any) []any {
	la, lb, ok := labels(name, a, b)
	if !ok {
		for i := range min(len(a), len(b)) {
			b[i] = alignAll(name, a[i], b[i])
		}
		return b
	}
	at := positionsOf(la)
	for i := range b {
		if j, ok := at[lb[i]]; ok {
			b[i] = alignAll("", a[j], b[i])
		}
	}
	return b
}
