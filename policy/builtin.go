package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/secret"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// plainCheck evaluates the rules that need only the object and its app.
type plainCheck struct{ engine *Engine }

func (c *plainCheck) scope(s *Subject, o *Object) string { return o.Key + "\x00" + s.App.Name }

func (c *plainCheck) check(_ context.Context, s *Subject, o *Object) ([]breach, error) {
	out := secretBreaches(o.Object)
	if pod, at := podSpec(o.Object); pod != nil {
		out = append(out, c.images(s, pod, at)...)
		out = append(out, c.privileges(s, o.Object, pod, at)...)
	}
	return out, nil
}

// secretBreaches finds Secrets with values in plain text. Sealed and external secrets are other kinds; SOPS marks
// encrypted values.
func secretBreaches(o manifest.Object) []breach {
	if o.APIVersion() != "v1" || str(o, "type") == "kubernetes.io/service-account-token" {
		return nil
	}
	switch o.Kind() {
	case "Secret":
		return secretValues(o, o, "")
	case "SecretList": // with a name: others are taken apart
		items, _ := o["items"].([]any)
		for i, item := range items {
			if one, ok := item.(map[string]any); ok {
				if found := secretValues(o, one, fmt.Sprintf("items[%d].", i)); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// secretValues finds values in plain text in the fields of a Secret, which is o or an item of it. The API server
// ignores fields in another case; the branch would show them.
func secretValues(o manifest.Object, one map[string]any, at string) []breach {
	sops := child(one, "sops")
	for _, field := range slices.Sorted(maps.Keys(one)) {
		if !strings.EqualFold(field, "data") && !strings.EqualFold(field, "stringData") {
			continue
		}
		for key, v := range child(one, field) {
			value, _ := v.(string)
			encrypted := sops != nil && str(sops, "mac") != "" && secret.Encrypted(value)
			if value != "" && !encrypted || v != nil && !isString(v) {
				return []breach{{
					rule: RulePlaintextSecret, path: at + field,
					message: fmt.Sprintf("the branch would contain the values of the Secret in plain text (such as %s)", at+firstKey(one, field, key)),
					hint:    secretHint(o),
				}}
			}
		}
	}
	return nil
}

// secretHint describes how to remove a Secret from Git, and how to allow it.
func secretHint(o manifest.Object) string {
	return fmt.Sprintf("move the values to an ExternalSecret or a SealedSecret, encrypt them with SOPS, or let the chart use an existing Secret; "+
		"to allow it, add a document of kind Exemption to %s/ with rule: %s, object: %q and a reason (docs/policy/%s.md shows each)",
		Dir, RulePlaintextSecret, "Secret "+strings.TrimPrefix(o.Namespace()+"/"+o.Name(), "/"), RulePlaintextSecret)
}

// firstKey returns the path of the first key of a field, so that the message does not depend on the order of a map.
func firstKey(o map[string]any, field, key string) string {
	for k := range child(o, field) {
		if k < key {
			key = k
		}
	}
	return field + "." + key
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

func (c *plainCheck) images(s *Subject, pod map[string]any, at string) []breach {
	allow := c.engine.allow(RuleImageTag)
	var out []breach
	eachContainer(pod, at, func(container map[string]any, path string) {
		image := str(container, "image")
		if image == "" || masked(image) || strings.Contains(image, "@sha256:") || allow.allows(s.App.Name, image) {
			return
		}
		base := image[strings.LastIndexByte(image, '/')+1:]
		_, tag, tagged := strings.Cut(base, ":")
		switch {
		case !tagged || tag == "":
			out = append(out, movingTag(path, fmt.Sprintf("the image %s has no tag", image)))
		case tag == "latest":
			out = append(out, movingTag(path, fmt.Sprintf("the image %s has the tag latest", image)))
		}
	})
	return out
}

// movingTag is the breach of a container at path whose image has no fixed version.
func movingTag(path, what string) breach {
	return breach{
		rule: RuleImageTag, path: path + ".image", message: what + ", so the version that runs can change at any time",
		hint: "use a version, or better a digest",
	}
}

// privileges finds what the Pod Security Standard `baseline` forbids:
// https://kubernetes.io/docs/concepts/security/pod-security-standards/.
func (c *plainCheck) privileges(s *Subject, o manifest.Object, pod map[string]any, at string) []breach {
	allow := c.engine.allow(RulePrivileged)
	var out []breach
	add := func(name, path, message string) {
		if !allow.allows(s.App.Name, name) {
			out = append(out, breach{
				rule: RulePrivileged, path: path, message: message,
				hint: "remove it, or add an Exemption for " + o.Kind() + " " + o.Name(),
			})
		}
	}
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if truth(pod, field) {
			add(field, at+"."+field, "the pod shares the "+strings.ToLower(strings.TrimPrefix(field, "host"))+
				" namespace of the host")
		}
	}
	volumes, _ := pod["volumes"].([]any)
	for i, v := range volumes {
		volume, _ := v.(map[string]any)
		if host := child(volume, "hostPath"); host != nil {
			name := fmt.Sprint(i)
			if n := str(volume, "name"); n != "" {
				name = "name=" + n
			}
			add("hostPath", fmt.Sprintf("%s.volumes[%s].hostPath", at, name),
				fmt.Sprintf("the pod mounts the folder %s of the host", str(host, "path")))
		}
	}
	eachContainer(pod, at, func(container map[string]any, path string) {
		security := child(container, "securityContext")
		if truth(security, "privileged") {
			add("privileged", path+".securityContext.privileged",
				"the container is privileged: it has the rights of root on the host")
		}
		added, _ := child(security, "capabilities")["add"].([]any)
		for _, v := range added {
			capability, _ := v.(string)
			if capability != "" && !slices.Contains(baselineCapabilities(), capability) {
				add(capability, path+".securityContext.capabilities.add", "the container gets the capability "+
					capability)
			}
		}
		ports, _ := container["ports"].([]any)
		for _, v := range ports {
			if p, ok := v.(map[string]any); ok && p["hostPort"] != nil && fmt.Sprint(p["hostPort"]) != "0" &&
				!truth(pod, "hostNetwork") {
				add("hostPort", path+".ports", fmt.Sprintf("the container uses the port %v of the host", p["hostPort"]))
			}
		}
	})
	return out
}

func baselineCapabilities() []string {
	return []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
		"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
}

// namespaceCheck evaluates the rules on the namespaces and scopes of an app's objects.
type namespaceCheck struct {
	engine *Engine
	crds   *definitions
}

func (c *namespaceCheck) scope(s *Subject, o *Object) string {
	if o.Object.Namespace() == s.App.Namespace {
		return ""
	}
	id := o.Object.Identity()
	if c.clusterScoped(s, o) {
		return "cluster\x00" + s.App.Name + "\x00" + id.Group + "\x00" + id.Kind
	}
	return "namespaced\x00" + s.App.Name + "\x00" + id.Namespace
}

func (c *namespaceCheck) clusterScoped(s *Subject, o *Object) bool {
	id := o.Object.Identity()
	kind := manifest.GroupKind{Group: id.Group, Kind: id.Kind}
	switch manifest.BuiltinScope(kind) {
	case manifest.ScopeCluster:
		return true
	case manifest.ScopeNamespaced:
		return false
	}
	if d := c.crds.of(s.Cluster.Name, kind); d != nil {
		return d.clusterScoped
	}
	return id.Namespace == ""
}

func (c *namespaceCheck) check(_ context.Context, s *Subject, o *Object) ([]breach, error) {
	id := o.Object.Identity()
	if c.clusterScoped(s, o) {
		allow := c.engine.allow(RuleClusterScoped)
		kind := manifest.GroupKind{Group: id.Group, Kind: id.Kind}.String()
		if allow.empty() || allow.allows(s.App.Name, kind) || allow.allows(s.App.Name, id.Kind) {
			return nil, nil
		}
		return []breach{{
			rule:    RuleClusterScoped,
			message: fmt.Sprintf("app %s may not contain objects of the cluster-scoped kind %s", s.App.Name, kind),
			hint:    "move it to a platform app, or add the kind to rules.cluster-scoped.allow in policy/",
		}}, nil
	}
	if c.engine.allow(RuleNamespace).allows(s.App.Name, id.Namespace) {
		return nil, nil
	}
	return []breach{{
		rule: RuleNamespace, path: "metadata.namespace",
		message: fmt.Sprintf("the object is in the namespace %s, and the app in %s", id.Namespace, s.App.Namespace),
		hint:    "move it, or add the namespace to rules.namespace-outside-app.allow in policy/",
	}}, nil
}
