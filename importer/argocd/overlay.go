package argocd

import "maps"

// patched is a JSON merge patch (RFC 7386). It changes copies.
func patched(target, patch map[string]any) map[string]any {
	out := maps.Clone(target)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(out, k)
		case map[string]any:
			inner, _ := out[k].(map[string]any)
			out[k] = patched(inner, v)
		default:
			out[k] = v
		}
	}
	return out
}

// overlaid puts the template of a generator over that of the set: what the generator leaves empty comes from the set.
func overlaid(base, override map[string]any) map[string]any {
	out := maps.Clone(base)
	for k, v := range override {
		inner, isMap := v.(map[string]any)
		under, wasMap := out[k].(map[string]any)
		switch {
		case isMap && wasMap:
			out[k] = overlaid(under, inner)
		case v == nil, v == "", v == false, v == float64(0):
		default:
			out[k] = v
		}
	}
	return out
}

// merged puts b over a. Empty values of b do not count.
func merged(a, b params) params {
	out := maps.Clone(a)
	for k, v := range b {
		upper, isMap := v.(map[string]any)
		lower, wasMap := out[k].(map[string]any)
		switch {
		case isMap && wasMap:
			out[k] = merged(lower, upper)
		case v == nil || v == "" || v == false || v == float64(0):
			if _, ok := out[k]; !ok {
				out[k] = v
			}
		default:
			out[k] = v
		}
	}
	return out
}
