package argocd

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selected drops the parameters that a generator's selector does not match. Values may be any text, such as a URL.
func selected(list []params, selector any) ([]params, error) {
	if selector == nil {
		return list, nil
	}
	var s metav1.LabelSelector
	if err := decode(selector, &s); err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	for _, e := range s.MatchExpressions {
		if !slices.Contains([]string{"In", "NotIn", "Exists", "DoesNotExist"}, string(e.Operator)) {
			return nil, fmt.Errorf("selector: the operator %q is not known", e.Operator)
		}
	}
	return slices.DeleteFunc(list, func(p params) bool {
		flat := map[string]string{}
		flatten("", p, flat)
		return !matches(&s, flat)
	}), nil
}

func matches(s *metav1.LabelSelector, labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		got, ok := labels[e.Key]
		in := ok && slices.Contains(e.Values, got)
		var holds bool
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			holds = in
		case metav1.LabelSelectorOpNotIn:
			holds = !in
		case metav1.LabelSelectorOpExists:
			holds = ok
		case metav1.LabelSelectorOpDoesNotExist:
			holds = !ok
		}
		if !holds {
			return false
		}
	}
	return true
}

// flatten writes a value's scalars below dotted names.
func flatten(prefix string, v any, out map[string]string) {
	join := func(key string) string {
		if prefix == "" {
			return key
		}
		return prefix + "." + key
	}
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			flatten(join(k), inner, out)
		}
		if len(v) == 0 && prefix != "" {
			out[prefix] = fmt.Sprint(v)
		}
	case map[string]string:
		for k, inner := range v {
			out[join(k)] = inner
		}
	case []any:
		for n, inner := range v {
			flatten(join(fmt.Sprint(n)), inner, out)
		}
	case []string:
		for n, inner := range v {
			out[join(fmt.Sprint(n))] = inner
		}
	default:
		out[prefix] = fmt.Sprint(v)
	}
}
