package manifest

import (
	"cmp"
	"strings"
)

// Object is one Kubernetes object as plain data: map[string]any, []any, string, bool, int64, uint64, float64 and nil.
type Object map[string]any

// Identity names an object on a cluster. The version is no part of it: an object keeps its identity when its API
// version moves on.
type Identity struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupKind names a kind of objects.
type GroupKind struct{ Group, Kind string }

// String gives `Kind.group`, or `Kind` for the core group.
func (g GroupKind) String() string {
	if g.Group == "" {
		return g.Kind
	}
	return g.Kind + "." + g.Group
}

// String gives `Kind.group namespace/name` without the parts that are empty.
func (id Identity) String() string {
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + name
	}
	return GroupKind{id.Group, id.Kind}.String() + " " + name
}

// Identity is the object's identity as it stands; an object without a namespace has none there.
func (o Object) Identity() Identity {
	return Identity{Group: GroupOf(o.APIVersion()), Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()}
}

// GroupOf is the group of an apiVersion: "" for the core group's `v1`.
func GroupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// APIVersion is the object's apiVersion, or "".
func (o Object) APIVersion() string { return text(o["apiVersion"]) }

// Kind is the object's kind, or "".
func (o Object) Kind() string { return text(o["kind"]) }

// Namespace is the namespace that the object names, or "".
func (o Object) Namespace() string { return text(o.metadata()["namespace"]) }

// Name is the object's name, or "".
func (o Object) Name() string { return text(o.metadata()["name"]) }

// Annotation is the value of an annotation, or "".
func (o Object) Annotation(key string) string {
	annotations, _ := o.metadata()["annotations"].(map[string]any)
	return text(annotations[key])
}

// SetNamespace writes the namespace into the object's metadata.
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

// Compare orders identities: by namespace, group, kind and name.
func Compare(a, b Identity) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
	)
}
