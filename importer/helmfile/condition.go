package helmfile

import (
	"fmt"
	"strings"
)

// enabled evaluates the condition of a release. `helmfile build` prints it without evaluating it, as helmfile does that
// when it selects releases (ConditionEnabled in pkg/state/state.go).
func enabled(r *release, doc *document) (bool, *problem) {
	if r.Condition == nil || r.Condition == "" {
		return true, nil
	}
	condition := fmt.Sprint(r.Condition)
	switch strings.ToLower(condition) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	keys := strings.Split(condition, ".")
	last := len(keys) - 1
	if keys[last] != "enabled" {
		return false, problemf("condition", "%q is neither true, false nor NAME.enabled", condition)
	}
	values, ok := doc.fields["renderedvalues"].(map[string]any)
	if !ok {
		return false, problemf("condition",
			"%q needs renderedvalues, which the state does not have (build it with helmfile 1.0 or later)", condition)
	}
	for i, key := range keys[:last] {
		if values, ok = values[key].(map[string]any); !ok {
			return false, problemf("condition", "the values of the environment have no map %s",
				strings.Join(keys[:i+1], "."))
		}
	}
	on, ok := values[keys[last]].(bool)
	return on && ok, nil // helmfile takes another type, and no value, as false
}
