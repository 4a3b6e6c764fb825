// Package confine holds the rendered objects of a workspace to the bounds that the trunk of the fleet sets for it.
//
// It is pure: callers hand in an object and the bounds, and get what the object violates. It judges what was rendered,
// never what a file asks for, so that a chart, a component or a patch cannot get around it. An unknown kind is outside
// of the bounds unless they name its group.
//
// The package is not API: it can change in every release.
package confine

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Identifiers of the rules. Each has a page docs/policy/<id>.md.
const (
	RuleCluster   = "workspace-cluster"
	RuleKind      = "workspace-kind"
	RuleNamespace = "workspace-namespace"
	RuleRBAC      = "workspace-rbac"
	RuleReference = "workspace-reference"
	RuleHost      = "workspace-host"
	RuleImage     = "workspace-image"
	RuleQuota     = "workspace-quota"
	RuleOwner     = "workspace-owner"
)

// Bounds are what a workspace may contain. Patterns are those of kind Workspace.
type Bounds struct {
	Name          string
	File          string // of the declaration
	Reaches       func(cluster string, labels map[string]string) bool
	Namespaces    []string
	References    []string // namespaces that objects may refer to besides
	Allow         []string
	Deny          []string
	ClusterScoped []string
	Roles         []string // ClusterRoles that may be bound; nil: edit and view
	Images        []string // nil: any
	HostAccess    bool
	AsRendered    bool // objects keep the namespaces that the renderer gave them, or none
	Objects       int  // on one cluster; 0: any number
	Targets       int
}

// Object is one object with what is known about its kind.
type Object struct {
	manifest.Object
	Scope     manifest.Scope // of its kind, as far as the fleet knows it
	Namespace string         // of the app, for an object that names none
}

// Breach is one violation.
type Breach struct{ Rule, Message, Hint, Path string }

// Check returns what an object violates.
func (b *Bounds) Check(o Object) []Breach {
	c := &check{bounds: b, object: o, kind: manifest.GroupKind{Group: manifest.GroupOf(o.APIVersion()), Kind: o.Kind()}}
	c.checkKind()
	c.checkNamespace()
	c.metadata(child(o.Object, "metadata"))
	c.rbac()
	c.webhooks()
	c.service()
	c.volume()
	for key, v := range o.Object {
		if key != "apiVersion" && key != "kind" && key != "metadata" && !c.content(key) {
			c.walk(v, key, 0)
		}
	}
	slices.SortStableFunc(c.out, func(x, y Breach) int {
		return strings.Compare(x.Rule+x.Path+x.Message,
			y.Rule+y.Path+y.Message)
	})
	return slices.Compact(c.out)
}

// check is one call of Check.
type check struct {
	bounds *Bounds
	object Object
	kind   manifest.GroupKind
	out    []Breach
}

func (c *check) add(rule, at, hint, format string, args ...any) {
	c.out = append(c.out, Breach{Rule: rule, Path: at, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// admits reports whether a pattern, Kind or Kind.group with *, admits a kind. A custom kind needs a pattern with its
// group.
func admits(pattern string, k manifest.GroupKind) bool {
	if !strings.Contains(pattern, ".") && manifest.BuiltinScope(k) == manifest.ScopeUnknown {
		return false
	}
	ok, err := path.Match(pattern, k.String())
	return err == nil && ok
}

// denies reports whether a pattern denies a kind. A pattern without a group denies the kind in every group.
func denies(pattern string, k manifest.GroupKind) bool {
	name := k.Kind
	if strings.Contains(pattern, ".") {
		name = k.String()
	}
	ok, err := path.Match(pattern, name)
	return err != nil || ok
}

// checkKind refuses kinds that the workspace may not contain. A kind whose scope nobody knows could be cluster-scoped:
// it needs an entry that names its group.
func (c *check) checkKind() {
	b, name := c.bounds, c.kind.String()
	listed := func(list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool {
			return admits(p, c.kind) &&
				(!redirects(c.kind) || p == name)
		})
	}
	hint := "ask the administrators of the fleet to change spec.kinds in " + b.File
	// Flux, Argo CD and kubectl apply the items of any object that has them, whatever its kind.
	items, hasItems := c.object.Object["items"]
	if _, array := items.([]any); array || hasItems && strings.HasSuffix(c.kind.Kind, "List") {
		c.add(RuleKind, "items", "write each object as a document of its own",
			"workspace %s may not hide objects in a list of kind %s", b.Name, name)
	}
	switch {
	case slices.ContainsFunc(b.Deny, func(p string) bool { return denies(p, c.kind) }):
		c.add(RuleKind, "kind", hint, "workspace %s may not contain objects of kind %s: spec.kinds.deny", b.Name, name)
	case c.object.Scope == manifest.ScopeCluster:
		if !listed(b.ClusterScoped) {
			c.add(RuleKind, "kind", hint, "workspace %s may not contain objects of the cluster-scoped kind %s", b.Name,
				name)
		}
	case c.object.Scope == manifest.ScopeUnknown:
		if !listed(b.Allow) && !listed(b.ClusterScoped) {
			c.add(RuleKind, "kind", hint,
				"workspace %s may not contain objects of the custom kind %s, whose scope is not known", b.Name, name)
		}
	case len(b.Allow) > 0 && !listed(b.Allow):
		c.add(RuleKind, "kind", hint, "workspace %s may not contain objects of kind %s: spec.kinds.allow", b.Name, name)
	case len(b.Allow) == 0 && !builtIn(c.kind):
		c.add(RuleKind, "kind", hint,
			"workspace %s may not contain objects of kind %s, which is not built into Kubernetes, sends traffic anywhere or places pods", b.Name, name)
	}
}

// builtIn reports whether a workspace may contain a namespaced kind without an entry.
func builtIn(k manifest.GroupKind) bool {
	return manifest.BuiltinScope(k) == manifest.ScopeNamespaced && !redirects(k)
}

// redirects reports whether objects of a kind can lead the traffic of a Service to the pods of others (Endpoints,
// EndpointSlice) or put a pod on any node (Binding). An entry admits such a kind only by its whole name, without a
// wildcard.
func redirects(k manifest.GroupKind) bool {
	switch k {
	case manifest.GroupKind{Kind: "Endpoints"}, manifest.GroupKind{Kind: "Binding"},
		manifest.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		return true
	}
	return false
}

func (c *check) checkNamespace() {
	hint := "move the object, or ask for the namespace in spec.namespaces in " + c.bounds.File
	if c.object.Scope == manifest.ScopeCluster {
		if c.kind == (manifest.GroupKind{Kind: "Namespace"}) && !c.owns(c.object.Name()) {
			c.add(RuleNamespace, "metadata.name", hint, "the namespace %s is outside of workspace %s", c.object.Name(),
				c.bounds.Name)
		}
		return
	}
	namespace := c.object.Object.Namespace()
	if namespace == "" && c.bounds.AsRendered {
		c.add(RuleNamespace, "metadata.namespace", "set metadata.namespace",
			"the object names no namespace, and spec.output.namespaces: asRendered adds none: whatever applies it chooses the namespace")
		return
	}
	if namespace == "" {
		namespace = c.object.Namespace
	}
	if !c.owns(namespace) {
		c.add(RuleNamespace, "metadata.namespace", hint,
			"the object is in the namespace %q, which is outside of workspace %s", namespace, c.bounds.Name)
	}
}

// owns reports whether a namespace is one of the workspace.
func (c *check) owns(namespace string) bool { return c.bounds.Owns(namespace) }

// Owns reports whether a namespace is one of the workspace.
func (b *Bounds) Owns(namespace string) bool { return matchAny(b.Namespaces, namespace) }

// mayName reports whether an object may refer to a namespace.
func (c *check) mayName(namespace string) bool {
	return c.owns(namespace) || matchAny(c.bounds.References, namespace)
}

func matchAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, s)
		return err == nil && ok && s != ""
	})
}

// managed are labels and annotations by which tools decide whose an object is.
func managed(key string) bool {
	switch key {
	case "kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace", "helm.toolkit.fluxcd.io/name",
		"helm.toolkit.fluxcd.io/namespace",
		"argocd.argoproj.io/instance", "argocd.argoproj.io/tracking-id":
		return true
	}
	return strings.HasPrefix(key, "sluice.dev/")
}

// metadata checks owners, and labels that give an object to somebody else or change what a namespace allows.
func (c *check) metadata(m map[string]any) {
	if owners, ok := m["ownerReferences"]; ok && owners != nil {
		c.add(RuleReference, "metadata.ownerReferences", "remove them",
			"the object names owners: their deletion would delete it, and nothing rendered can know their identity")
	}
	for _, field := range []string{"labels", "annotations"} {
		for key := range child(m, field) {
			at := "metadata." + field + "." + key
			switch {
			case managed(key):
				c.add(RuleReference, at, "remove it",
					"%s gives the object to another tool's or another workspace's inventory", key)
			case c.kind == (manifest.GroupKind{Kind: "Namespace"}) &&
				strings.HasPrefix(key, "pod-security.kubernetes.io/") && !c.bounds.HostAccess:
				c.add(RuleHost, at, "let the administrators of the fleet set it",
					"%s decides what pods of the namespace may do", key)
			case c.kind.Kind == "ClusterRole" && strings.Contains(key, "/aggregate-to-"):
				c.add(RuleRBAC, at, "remove the label", "%s adds the rules to a role of the whole cluster", key)
			}
		}
	}
	c.annotations(child(m, "annotations"), "metadata.annotations")
}

// refersTo are annotations whose value is NAMESPACE/NAME.
func refersTo(key string) bool {
	switch key {
	case "nginx.ingress.kubernetes.io/auth-secret", "nginx.ingress.kubernetes.io/auth-tls-secret",
		"nginx.ingress.kubernetes.io/proxy-ssl-secret",
		"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret":
		return true
	}
	return false
}

// annotations checks the annotations of an object or of a template of pods.
func (c *check) annotations(m map[string]any, at string) {
	for key, v := range m {
		value, _ := v.(string)
		if strings.HasPrefix(key, "container.apparmor.security.beta.kubernetes.io/") &&
			value != "" && value != "runtime/default" && !strings.HasPrefix(value, "localhost/") {
			c.host(at+"."+key, "the container runs without AppArmor")
		}
		if namespace, _, ok := strings.Cut(value, "/"); ok && refersTo(key) && !c.mayName(namespace) {
			c.add(RuleReference, at+"."+key, "refer to the workspace's own namespaces, or ask for spec.references in "+
				c.bounds.File,
				"the annotation refers to the namespace %s, which is outside of workspace %s", namespace, c.bounds.Name)
		}
	}
}

// content reports whether a top-level field holds data without meaning to Kubernetes.
func (c *check) content(key string) bool {
	switch c.kind {
	case manifest.GroupKind{Kind: "ConfigMap"}, manifest.GroupKind{Kind: "Secret"}:
		return key == "data" || key == "binaryData" || key == "stringData"
	}
	return false
}

// image checks one image.
func (c *check) image(image, at string) {
	if len(c.bounds.Images) == 0 || image == "" {
		return
	}
	name := repositoryOf(image)
	if !slices.ContainsFunc(c.bounds.Images, func(p string) bool { return doublestar.MatchUnvalidated(p, name) }) {
		c.add(RuleImage, at, "use an image of spec.sources.images in "+c.bounds.File,
			"the image %s is outside of what workspace %s may run", name, c.bounds.Name)
	}
}

// repositoryOf is the whole name of an image, without tag and digest: docker.io/library/nginx for nginx:1.27.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	host, rest, ok := strings.Cut(image, "/")
	switch {
	case !ok:
		return "docker.io/library/" + image
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return "docker.io/" + image
	case host == "index.docker.io":
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	return host + "/" + rest
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func list(m map[string]any, key string) []any {
	l, _ := m[key].([]any)
	return l
}

// texts are the strings of a list.
func texts(m map[string]any, key string) []string {
	var out []string
	for _, v := range list(m, key) {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
