package manifest

import (
	"cmp"
	"strings"
)

// Object is one Kubernetes object as plain data: map[string]any, []any, string, bool, int64, uint64, float64 and nil.
type Object map[string]any

// Identity identifies an object on a cluster. It excludes the version: an object keeps its identity when its API
// version changes.
type Identity struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupKind identifies a kind.
type GroupKind struct{ Group, Kind string }

// String returns `Kind.group`, or `Kind` for the core group.
func (g GroupKind) String() string {
	if g.Group == "" {
		return g.Kind
	}
	return g.Kind + "." + g.Group
}

// String returns `Kind.group namespace/name` without empty parts.
func (id Identity) String() string {
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + name
	}
	return GroupKind{id.Group, id.Kind}.String() + " " + name
}

// Identity returns the identity that the object states; the namespace is empty if the object has none.
func (o Object) Identity() Identity {
	return Identity{Group: GroupOf(o.APIVersion()), Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()}
}

// GroupOf returns the group of an apiVersion; it is empty for the core group's `v1`.
func GroupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// APIVersion returns the object's apiVersion, or "".
func (o Object) APIVersion() string { return text(o["apiVersion"]) }

// Kind returns the object's kind, or "".
func (o Object) Kind() string { return text(o["kind"]) }

// Namespace returns metadata.namespace, or "".
func (o Object) Namespace() string { return text(o.metadata()["namespace"]) }

// Name returns metadata.name, or "".
func (o Object) Name() string { return text(o.metadata()["name"]) }

// Annotation returns the value of an annotation, or "".
func (o Object) Annotation(key string) string {
	annotations, _ := o.metadata()["annotations"].(map[string]any)
	return text(annotations[key])
}

// SetNamespace sets metadata.namespace.
func (o Object) SetNamespace(namespace string) {
	if m := o.metadata(); m != nil {
		m["namespace"] = namespace
	}
}

func (o Object) metadata() map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// Compare orders identities by namespace, group, kind and name.
func Compare(a, b Identity) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
	)
}
