package diff

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// rights says that a role allows more than it did, or that a binding gives it to more.
func (j *judgement) rights() {
	if j.after == nil {
		return
	}
	switch {
	case j.is("rbac.authorization.k8s.io", "Role", "ClusterRole"):
		j.roles()
	case j.is("rbac.authorization.k8s.io", "RoleBinding", "ClusterRoleBinding"):
		j.bindings()
	}
}

func (j *judgement) roles() {
	before := permissions(j.before)
	var more []string
	for _, p := range permissions(j.after) {
		if !slices.ContainsFunc(before, func(old permission) bool { return old.covers(p) }) {
			more = append(more, p.String())
		}
	}
	if len(more) == 0 {
		return
	}
	const most = 4
	text := strings.Join(more[:min(most, len(more))], ", ")
	if len(more) > most {
		text += fmt.Sprintf(" and %d more", len(more)-most)
	}
	j.add(EffectRBACWidened, RiskHigh, "rules", "it allows more: %s", text)
}

func (j *judgement) bindings() {
	subjects := func(o manifest.Object) []string {
		if o == nil {
			return nil
		}
		var out []string
		list, _ := o["subjects"].([]any)
		for _, s := range list {
			m, _ := s.(map[string]any)
			name := fmt.Sprint(m["name"])
			if ns, ok := m["namespace"].(string); ok {
				name = ns + "/" + name
			}
			out = append(out, fmt.Sprintf("%v %s", m["kind"], name))
		}
		return out
	}
	before := subjects(j.before)
	role := fmt.Sprintf("%v %v", get(j.after, "roleRef", "kind"), get(j.after, "roleRef", "name"))
	var more []string
	for _, s := range subjects(j.after) {
		if !slices.Contains(before, s) {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		j.add(EffectRBACWidened, RiskHigh, "subjects", "%s gets %s", strings.Join(more, ", "), role)
	}
}

// permission is one verb on one resource.
type permission struct{ group, resource, name, verb string }

func (p permission) String() string {
	resource := p.resource
	if p.group != "" {
		resource += "." + p.group
	}
	if p.name != "*" {
		resource += "/" + p.name
	}
	return p.verb + " " + resource
}

func (p permission) covers(o permission) bool {
	match := func(a, b string) bool { return a == "*" || a == b }
	return match(p.group, o.group) && match(p.resource, o.resource) && match(p.name, o.name) && match(p.verb, o.verb)
}

func permissions(o manifest.Object) []permission {
	if o == nil {
		return nil
	}
	const most = 3000 // of a hostile role, the rest is taken as the same
	var out []permission
	rules, _ := o["rules"].([]any)
	for _, r := range rules {
		m, _ := r.(map[string]any)
		groups, resources, names := words(m["apiGroups"], ""), words(m["resources"], ""), words(m["resourceNames"], "*")
		if urls := words(m["nonResourceURLs"], ""); len(resources) == 0 {
			groups, resources = []string{"url"}, urls
		}
		for _, verb := range words(m["verbs"], "") {
			for _, g := range groups {
				for _, resource := range resources {
					for _, name := range names {
						if len(out) < most {
							out = append(out, permission{g, resource, name, verb})
						}
					}
				}
			}
		}
	}
	return out
}

func words(v any, none string) []string {
	list, _ := v.([]any)
	if len(list) == 0 && none != "" {
		return []string{none}
	}
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// quantity reads an amount such as 10Gi.
func quantity(v any) (float64, bool) {
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return 0, false
	}
	return q.AsApproximateFloat64(), true
}
