package lifecycle

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Facts are what an assessment needs of an object. They do not depend on a version, so that the same object is read
// once for all versions.
type Facts struct {
	object     manifest.Identity
	apiVersion string
	custom     bool // the kind is not one of Kubernetes' own
	ends       bool // the API has an end of life
	crd        *definition
	admission  []admission
	images     []string
}

// definition is what a CustomResourceDefinition says of its kind.
type definition struct {
	kind     manifest.GroupKind
	versions map[string]served
}

type served struct {
	served, deprecated bool
	warning            string
}

// admission is a webhook, or an admission policy, with the resources that it is about.
type admission struct {
	name  string
	rules []resourceRule
}

type resourceRule struct{ groups, versions, resources []string }

// Read returns the facts of an object; nil if no version makes a difference for it.
func (t *Table) Read(o manifest.Object) *Facts {
	f := &Facts{object: o.Identity(), apiVersion: o.APIVersion()}
	group := manifest.GroupOf(f.apiVersion)
	_, f.ends = t.of(f.apiVersion, f.object.Kind)
	f.custom = !f.ends && manifest.BuiltinScope(manifest.GroupKind{Group: group, Kind: f.object.Kind}) == manifest.ScopeUnknown
	switch {
	case group == "apiextensions.k8s.io" && f.object.Kind == "CustomResourceDefinition":
		f.crd = readDefinition(o)
	case group == "admissionregistration.k8s.io":
		f.admission = readAdmission(o)
	}
	f.images = images(o)
	if !f.custom && !f.ends && f.crd == nil && len(f.admission)+len(f.images) == 0 {
		return nil
	}
	return f
}

func readDefinition(o manifest.Object) *definition {
	spec := mapping(o["spec"])
	d := &definition{versions: map[string]served{}}
	d.kind.Group, _ = spec["group"].(string)
	d.kind.Kind, _ = mapping(spec["names"])["kind"].(string)
	if one, ok := spec["version"].(string); ok { // v1beta1 may name one version, which is served
		d.versions[one] = served{served: true}
	}
	for _, v := range list(spec["versions"]) {
		version := mapping(v)
		name, _ := version["name"].(string)
		is, _ := version["served"].(bool)
		old, _ := version["deprecated"].(bool)
		warning, _ := version["deprecationWarning"].(string)
		d.versions[name] = served{is, old, warning}
	}
	return d
}

func readAdmission(o manifest.Object) []admission {
	var out []admission
	for _, w := range list(o["webhooks"]) {
		name, _ := mapping(w)["name"].(string)
		out = append(out, admission{"the webhook " + name, resourceRules(mapping(w)["rules"])})
	}
	if constraints := mapping(mapping(o["spec"])["matchConstraints"]); constraints != nil {
		out = append(out, admission{"the policy", resourceRules(constraints["resourceRules"])})
	}
	return out
}

func resourceRules(v any) []resourceRule {
	var out []resourceRule
	for _, r := range list(v) {
		m := mapping(r)
		out = append(out, resourceRule{texts(m["apiGroups"]), texts(m["apiVersions"]), texts(m["resources"])})
	}
	return out
}

// covers reports whether a rule is about a resource of a version of a group.
func (r *resourceRule) covers(group, version, resource string) bool {
	has := func(list []string, name string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, name)
	}
	return has(r.groups, group) && has(r.versions, version) && slices.ContainsFunc(r.resources, func(name string) bool {
		base, _, _ := strings.Cut(name, "/") // pods/exec
		return base == "*" || base == resource
	})
}

// images are the images of a workload's containers.
func images(o manifest.Object) []string {
	pod := mapping(o["spec"])
	switch o.Kind() {
	case "Pod":
	case "CronJob":
		pod = mapping(mapping(mapping(mapping(pod["jobTemplate"])["spec"])["template"])["spec"])
	default:
		pod = mapping(mapping(pod["template"])["spec"])
	}
	var out []string
	for _, key := range []string{"initContainers", "containers"} {
		for _, c := range list(pod[key]) {
			if name, _ := mapping(c)["image"].(string); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

func mapping(v any) map[string]any {
	switch m := v.(type) {
	case map[string]any:
		return m
	case manifest.Object:
		return m
	}
	return nil
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func texts(v any) []string {
	var out []string
	for _, one := range list(v) {
		if s, ok := one.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
