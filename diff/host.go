package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// host reports what pods newly may do on their nodes.
func (j *judgement) host() {
	if !workload(j.change.ID) && !j.is("", "Pod") {
		return
	}
	j.newly(EffectHostAccess, hostAccess(j.before), hostAccess(j.after), "the pods newly have %s")
}

// newly adds an effect of high risk for what only the second map has, with the path of the first such thing.
func (j *judgement) newly(name EffectName, had, has map[string]string, format string) {
	var more []string
	path := ""
	for _, what := range slices.Sorted(maps.Keys(has)) {
		if _, ok := had[what]; !ok {
			more = append(more, what)
			path = cmp.Or(path, has[what])
		}
	}
	if len(more) > 0 {
		j.add(name, RiskHigh, path, format, listed(more))
	}
}

// baseCapabilities returns those that a pod may add by the baseline level of the Pod Security Standards
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func baseCapabilities() []string {
	return []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
		"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
}

// hostAccess returns what an object's pods may do on their nodes beyond their own containers, each with the path of the
// field that allows it.
func hostAccess(o manifest.Object) map[string]string {
	out := map[string]string{}
	if o == nil {
		return out
	}
	spec, path := podSpec(o)
	for field, words := range map[string]string{
		"hostNetwork": "the network of the node", "hostPID": "the processes of the node",
		"hostIPC": "the shared memory of the node",
	} {
		if on, _ := spec[field].(bool); on {
			out[words] = path + "." + field
		}
	}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		m, _ := v.(map[string]any)
		if host, ok := m["hostPath"].(map[string]any); ok {
			out[fmt.Sprintf("the folder %v of the node", host["path"])] = fmt.Sprintf("%s.volumes[name=%v]", path, m["name"])
		}
	}
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, c := range items {
			m, _ := c.(map[string]any)
			name, _ := m["name"].(string)
			for words, field := range containerAccess(m) {
				out[words+" in container "+name] = fmt.Sprintf("%s.%s[name=%s].securityContext.%s", path, list, name, field)
			}
		}
	}
	return out
}

// containerAccess returns what a container's security context allows on the node, each with the field.
func containerAccess(container map[string]any) map[string]string {
	out := map[string]string{}
	security, _ := container["securityContext"].(map[string]any)
	if on, _ := security["privileged"].(bool); on {
		out["all rights"] = "privileged"
	}
	if windows, _ := security["windowsOptions"].(map[string]any); windows != nil {
		if on, _ := windows["hostProcess"].(bool); on {
			out["all rights"] = "windowsOptions.hostProcess"
		}
	}
	capabilities, _ := security["capabilities"].(map[string]any)
	added, _ := capabilities["add"].([]any)
	for _, c := range added {
		name := strings.TrimPrefix(strings.ToUpper(fmt.Sprint(c)), "CAP_")
		if !slices.Contains(baseCapabilities(), name) {
			out["the capability "+name] = "capabilities.add"
		}
	}
	return out
}
