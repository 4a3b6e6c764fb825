package diff

import (
	"fmt"
	"slices"
	"strings"
)

// mergeKeys are the fields that tell the elements of a list of mappings apart, by the list's name: Kubernetes' own patch
// merge keys and list map keys (api/openapi-spec of Kubernetes 1.35: x-kubernetes-patch-merge-key, x-kubernetes-list-map-keys)
// and those of widely used kinds.
func mergeKeys(list string) [][]string {
	switch list {
	case "containers", "initContainers", "ephemeralContainers", "env", "volumes", "imagePullSecrets", "secrets", "webhooks", "versions",
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

// label is an element's selector in a path, `name=web`; "" if it lacks all of the keys.
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

// labels names every element by the first set of keys under which all names of both lists are there and no two are equal.
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

// align orders b's elements as a has them, those that are new behind the element that they follow in b: a list whose order
// means nothing then shows no moved elements.
func align(list string, a, b []any) []any {
	la, lb, ok := labels(list, a, b)
	if !ok {
		return b
	}
	at := make(map[string]int, len(lb))
	for i, l := range lb {
		at[l] = i
	}
	order := make([]int, 0, len(b))
	taken := make([]bool, len(b))
	for _, l := range la {
		if i, ok := at[l]; ok {
			order = append(order, i)
			taken[i] = true
		}
	}
	for i := range b {
		if taken[i] {
			continue
		}
		place := 0
		if i > 0 {
			place = slices.Index(order, i-1) + 1
		}
		order = slices.Insert(order, place, i)
		taken[i] = true
	}
	out := make([]any, len(b))
	for i, from := range order {
		out[i] = b[from]
	}
	return out
}

// alignAll aligns every list below two values and gives the second one anew.
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
		out := slices.Clone(align(name, x, y))
		la, lb, ok := labels(name, x, out)
		for i, v := range out {
			switch {
			case !ok && i < len(x):
				out[i] = alignAll(name, x[i], v)
			case ok:
				if j := slices.Index(la, lb[i]); j >= 0 {
					out[i] = alignAll("", x[j], v)
				}
			}
		}
		return out
	}
	return b
}
