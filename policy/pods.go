package policy

import (
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// podSpec returns the pod spec of a workload or a pod, with its path; nil for other kinds.
func podSpec(o manifest.Object) (map[string]any, string) {
	group, spec := manifest.GroupOf(o.APIVersion()), child(o, "spec")
	switch o.Kind() {
	case "Pod":
		return spec, "spec"
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job":
		if group == "" || group == "apps" || group == "batch" || group == "extensions" {
			return child(child(spec, "template"), "spec"), "spec.template.spec"
		}
	case "CronJob":
		if group == "batch" {
			return child(child(child(child(spec, "jobTemplate"), "spec"), "template"), "spec"),
				"spec.jobTemplate.spec.template.spec"
		}
	}
	return nil, ""
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

func str(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func truth(m map[string]any, key string) bool {
	b, _ := m[key].(bool)
	return b
}

// eachContainer visits all containers of a pod with their paths.
func eachContainer(pod map[string]any, at string, visit func(c map[string]any, path string)) {
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers, _ := pod[list].([]any)
		for i, v := range containers {
			c, ok := v.(map[string]any)
			if !ok {
				continue
			}
			name := str(c, "name")
			if name == "" || strings.ContainsAny(name, "[]") {
				name = fmt.Sprint(i)
			} else {
				name = "name=" + name
			}
			visit(c, fmt.Sprintf("%s.%s[%s]", at, list, name))
		}
	}
}

// masked reports whether a text contains a masked value, which cannot be judged.
func masked(s string) bool { return strings.Contains(s, "‹masked ") }
