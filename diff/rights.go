package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// maxRights is the number of rights that a change lists.
const maxRights = 300

// rights lists the permissions of a role, and reports a role with more permissions than before and a binding with new
// subjects.
func (j *judgement) rights() {
	switch {
	case j.is("rbac.authorization.k8s.io", "Role", "ClusterRole"):
		j.roles()
	case j.is("rbac.authorization.k8s.io", "RoleBinding", "ClusterRoleBinding") && j.after != nil:
		j.bindings()
	}
}

func (j *judgement) roles() {
	before, after := permissions(j.before), permissions(j.after)
	j.change.Rights = listRights(before, after)
	had := make(map[permission]bool, len(before))
	for _, p := range before {
		had[p] = true
	}
	var more []string
	for _, p := range after {
		if !had[p] && !slices.ContainsFunc(before, func(old permission) bool { return old.covers(p) }) {
			more = append(more, p.String())
		}
	}
	if len(more) == 0 {
		return
	}
	j.add(EffectRBACWidened, RiskHigh, "rules", "the role newly allows %s", listed(more))
}

// listed joins the first texts and counts the others.
func listed(list []string) string {
	const most = 4
	text := strings.Join(list[:min(most, len(list))], ", ")
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// listRights merges the permissions of both sides, by resource and verb.
func listRights(before, after []permission) []Right {
	at := map[permission]int{}
	var out []Right
	add := func(list []permission, mark func(*Right)) {
		for _, p := range list {
			i, ok := at[p]
			if !ok {
				if len(out) == maxRights {
					continue
				}
				i = len(out)
				at[p] = i
				out = append(out, Right{Resource: p.target(), Verb: p.verb})
			}
			mark(&out[i])
		}
	}
	add(after, func(r *Right) { r.Has = true })
	add(before, func(r *Right) { r.Had = true })
	slices.SortStableFunc(out, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return out
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
	role := fmt.Sprint(get(j.after, "roleRef", "name"))
	var more []string
	for _, s := range subjects(j.after) {
		if !slices.Contains(before, s) {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		j.add(EffectRBACWidened, RiskHigh, "subjects", "the binding gives %s the role %s", listed(more), role)
	}
}

// permission is one verb on one resource.
type permission struct{ group, resource, name, verb string }

// urlGroup stands for non-resource URLs.
const urlGroup = "url"

func (p permission) String() string { return p.verb + " " + p.target() }

// target is the resource as kubectl writes it: deployments.apps/web.
func (p permission) target() string {
	resource := p.resource
	switch p.group {
	case "":
	case urlGroup:
		return urlGroup + " " + resource
	default:
		resource += "." + p.group
	}
	if p.name != "*" {
		resource += "/" + p.name
	}
	return resource
}

func (p permission) covers(o permission) bool {
	match := func(a, b string) bool { return a == "*" || a == b }
	return match(p.group, o.group) && match(p.resource, o.resource) && match(p.name, o.name) && match(p.verb, o.verb)
}

func permissions(o manifest.Object) []permission {
	if o == nil {
		return nil
	}
	const most = 3000 // limits the cost of a hostile role
	var out []permission
	rules, _ := o["rules"].([]any)
	for _, r := range rules {
		m, _ := r.(map[string]any)
		groups, resources, names := words(m["apiGroups"], ""), words(m["resources"], ""), words(m["resourceNames"], "*")
		if urls := words(m["nonResourceURLs"], ""); len(resources) == 0 {
			groups, resources = []string{urlGroup}, urls
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

// quantity parses an amount such as 10Gi.
func quantity(v any) (float64, bool) {
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return 0, false
	}
	return q.AsApproximateFloat64(), true
}
