package confine

import (
	"fmt"
	"slices"
	"strings"
)

// deepest is how deep Check looks; a deeper object is refused.
const deepest = 100

// walk looks for references to other namespaces, and for pods, anywhere in an object: custom resources have them under
// many names.
func (c *check) walk(v any, at string, depth int) {
	if depth > deepest {
		c.add(RuleReference, at, "make it flatter", "the object is nested deeper than %d levels, and cannot be checked",
			deepest)
		return
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			c.walk(item, fmt.Sprintf("%s[%d]", at, i), depth+1)
		}
	case map[string]any:
		c.namespaceFields(v, at)
		c.pod(v, at)
		c.security(child(v, "securityContext"), at+".securityContext")
		c.annotations(child(v, "annotations"), at+".annotations")
		for key, inner := range v {
			c.walk(inner, at+"."+key, depth+1)
		}
	}
}

// namespaceFields checks the fields of a mapping that name or select namespaces.
func (c *check) namespaceFields(m map[string]any, at string) {
	refuse := func(field, name string) {
		if name != "" && !c.mayName(name) && !c.rbacSubject(at) {
			c.add(RuleReference, at+"."+field,
				"refer to the workspace's own namespaces, or ask for spec.references in "+c.bounds.File,
				"the object refers to the namespace %s, which is outside of workspace %s", name, c.bounds.Name)
		}
	}
	for _, field := range []string{"namespace", "targetNamespace", "storageNamespace", "releaseNamespace"} {
		refuse(field, text(m, field))
	}
	for _, field := range []string{"namespaces", "matchNames", "targetNamespaces", "watchNamespaces"} {
		for _, name := range texts(m, field) {
			refuse(field, name)
		}
	}
	selector, ok := m["namespaceSelector"].(map[string]any)
	// peers of a policy are not its subjects
	if !ok || c.kind.Kind == "NetworkPolicy" || c.kind.Group == "admissionregistration.k8s.io" {
		return
	}
	names := texts(selector, "matchNames")
	if anyNamespace, _ := selector["any"].(bool); anyNamespace || len(names) == 0 && !c.selectsOwn(selector) {
		c.add(RuleReference, at+".namespaceSelector",
			"select kubernetes.io/metadata.name In the workspace's namespaces",
			"the object selects pods or objects outside of workspace %s", c.bounds.Name)
	}
}

// rbacSubject reports whether a path is that of a binding's subject, which binding has judged.
func (c *check) rbacSubject(at string) bool {
	return c.kind.Group == rbacGroup && strings.HasPrefix(at, "subjects[")
}

// pod checks a mapping that has containers: the spec of a pod, in whatever kind.
func (c *check) pod(m map[string]any, at string) {
	var found bool
	for _, field := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for i, v := range list(m, field) {
			if container, ok := v.(map[string]any); ok {
				found = true
				c.container(container, fmt.Sprintf("%s.%s[%d]", at, field, i))
			}
		}
	}
	for i, v := range list(m, "volumes") {
		volume, _ := v.(map[string]any)
		c.image(text(child(volume, "image"), "reference"), fmt.Sprintf("%s.volumes[%d].image.reference", at, i))
		if volume["hostPath"] != nil {
			c.host(fmt.Sprintf("%s.volumes[%d].hostPath", at, i), "the pod mounts a folder of the host")
		}
	}
	if !found {
		return
	}
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if on, _ := m[field].(bool); on {
			c.host(at+"."+field, "the pod shares a namespace of the host")
		}
	}
	if class := text(m, "priorityClassName"); strings.HasPrefix(class, "system-") {
		c.host(at+".priorityClassName", "the pod has the priority "+class+", and evicts the pods of others")
	}
	if text(m, "nodeName") != "" {
		c.host(at+".nodeName", "the pod chooses its node, whatever keeps pods off it")
	}
}

func (c *check) container(m map[string]any, at string) {
	c.image(text(m, "image"), at+".image")
	for _, field := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		c.handler(child(m, field), at+"."+field)
	}
	for _, field := range []string{"postStart", "preStop"} {
		c.handler(child(child(m, "lifecycle"), field), at+".lifecycle."+field)
	}
	for i, v := range list(m, "ports") {
		port, _ := v.(map[string]any)
		if p := port["hostPort"]; p != nil && fmt.Sprint(p) != "0" {
			c.host(fmt.Sprintf("%s.ports[%d].hostPort", at, i), "the container takes a port of the host")
		}
	}
}

// handler checks a probe or a hook of a container's life: the kubelet, on the network of the host, sends its requests.
func (c *check) handler(m map[string]any, at string) {
	for _, field := range []string{"httpGet", "tcpSocket"} {
		if host := child(m, field)["host"]; host != nil && host != "" {
			c.host(at+"."+field+".host", fmt.Sprintf("the kubelet sends requests to %v in the name of the container", host))
		}
	}
}

// security checks the security context of a pod or a container against the Pod Security Standard baseline
// of Kubernetes 1.37 (k8s.io/pod-security-admission v0.37.2).
func (c *check) security(m map[string]any, at string) {
	if on, _ := m["privileged"].(bool); on {
		c.host(at+".privileged", "the container is privileged")
	}
	if mount := text(m, "procMount"); mount != "" && mount != "Default" {
		c.host(at+".procMount", "the container sees the whole of /proc")
	}
	for _, name := range texts(child(m, "capabilities"), "add") {
		if !slices.Contains(baseline(), strings.TrimPrefix(name, "CAP_")) {
			c.host(at+".capabilities.add", "the container gets the capability "+name)
		}
	}
	if on, _ := child(m, "windowsOptions")["hostProcess"].(bool); on {
		c.host(at+".windowsOptions.hostProcess", "the container is a process of the Windows host")
	}
	for _, field := range []string{"seccompProfile", "appArmorProfile"} {
		if text(child(m, field), "type") == "Unconfined" {
			c.host(at+"."+field+".type", "the profile is Unconfined")
		}
	}
	for i, v := range list(m, "sysctls") {
		sysctl, _ := v.(map[string]any)
		if name := text(sysctl, "name"); !slices.Contains(safeSysctls(), name) {
			c.host(fmt.Sprintf("%s.sysctls[%d].name", at, i), "the pod sets the sysctl "+name)
		}
	}
	options := child(m, "seLinuxOptions")
	if kind := text(options, "type"); !slices.Contains([]string{
		"", "container_t", "container_init_t",
		"container_kvm_t", "container_engine_t",
	}, kind) {
		c.host(at+".seLinuxOptions.type", "the container has the SELinux type "+kind)
	}
	for _, field := range []string{"user", "role"} {
		if text(options, field) != "" {
			c.host(at+".seLinuxOptions."+field, "the container chooses its SELinux "+field)
		}
	}
}

// safeSysctls are the sysctls that the Pod Security Standard baseline of Kubernetes 1.37 allows.
func safeSysctls() []string {
	return []string{
		"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
		"net.ipv4.ip_unprivileged_port_start",
		"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes",
		"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_rmem",
		"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
	}
}

// baseline are the capabilities that the Pod Security Standard of this name allows.
func baseline() []string {
	return []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
		"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
}

func (c *check) host(at, message string) {
	if !c.bounds.HostAccess {
		c.add(RuleHost, at, "remove it, or ask for spec.hostAccess in "+c.bounds.File,
			"%s: workspace %s has no access to hosts", message, c.bounds.Name)
	}
}
