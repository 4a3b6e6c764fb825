package policy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// admissionPolicy is a ValidatingAdmissionPolicy with one of its bindings.
type admissionPolicy struct {
	policy   *admissionv1.ValidatingAdmissionPolicy
	binding  *admissionv1.ValidatingAdmissionPolicyBinding // nil: the policy applies everywhere
	program  *admissionProgram
	params   *unstructured.Unstructured
	severity Severity
	needsOld bool
}

// kubernetes adds a document of a Kubernetes kind: a policy, its binding, or parameters.
func (l *loader) kubernetes(f File, index, line int, h header) {
	objects, err := manifest.Decode(f.Data, manifest.DefaultBudget())
	if err != nil || index >= len(objects) {
		l.errorf(f.Name, line, "cannot be read: %v", err)
		return
	}
	i := slices.IndexFunc(objects, func(o manifest.Object) bool {
		return o.Kind() == h.Kind &&
			o.Name() == h.Metadata.Name
	})
	if i < 0 {
		l.errorf(f.Name, line, "%s %s cannot be read", h.Kind, h.Metadata.Name)
		return
	}
	d := document{file: f.Name, line: line, object: objects[i]}
	switch {
	case strings.HasPrefix(h.APIVersion, "admissionregistration.k8s.io/") && h.Kind == "ValidatingAdmissionPolicy":
		l.vaps = append(l.vaps, d)
	case strings.HasPrefix(h.APIVersion, "admissionregistration.k8s.io/") &&
		h.Kind == "ValidatingAdmissionPolicyBinding":
		l.bindings = append(l.bindings, d)
	default:
		l.params = append(l.params, d.object)
	}
}

// into decodes a Kubernetes object strictly.
func into(o manifest.Object, v any) error {
	data, err := json.Marshal(normal(map[string]any(o)))
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(v)
}

// admission compiles the policies and joins each with its bindings.
func (l *loader) admission() {
	bindings := map[string][]*admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, d := range l.bindings {
		var b admissionv1.ValidatingAdmissionPolicyBinding
		if err := into(d.object, &b); err != nil {
			l.errorf(d.file, d.line, "ValidatingAdmissionPolicyBinding %s: %v", d.object.Name(), err)
			continue
		}
		bindings[b.Spec.PolicyName] = append(bindings[b.Spec.PolicyName], &b)
	}
	for _, d := range l.vaps {
		var p admissionv1.ValidatingAdmissionPolicy
		if err := into(d.object, &p); err != nil {
			l.errorf(d.file, d.line, "ValidatingAdmissionPolicy %s: %v", d.object.Name(), err)
			continue
		}
		l.policies(d, &p, bindings[p.Name])
		delete(bindings, p.Name)
	}
	for name := range bindings {
		l.errorf(l.engine.dir, 0,
			"a ValidatingAdmissionPolicyBinding names the policy %s, which is not in the folder (add the policy, or remove the binding)", name)
	}
}

func (l *loader) policies(d document, p *admissionv1.ValidatingAdmissionPolicy,
	bindings []*admissionv1.ValidatingAdmissionPolicyBinding,
) {
	compiled, err := compileAdmission(p)
	if err != nil {
		l.errorf(d.file, d.line, "ValidatingAdmissionPolicy %s: %v", p.Name, err)
		return
	}
	old := strings.Contains(string(mustJSON(p.Spec)), "oldObject") ||
		strings.Contains(string(mustJSON(p.Spec)), "request.")
	l.engine.known[p.Name] = Rule{
		ID: p.Name, Severity: SeverityError, Title: "ValidatingAdmissionPolicy " + p.Name,
		File: d.file,
	}
	if len(bindings) == 0 {
		if p.Spec.ParamKind != nil {
			l.errorf(d.file, d.line,
				"ValidatingAdmissionPolicy %s has a paramKind, but no binding names the parameters (add a ValidatingAdmissionPolicyBinding with paramRef to %s/)", p.Name, l.engine.dir)
		}
		l.engine.admission = append(l.engine.admission, &admissionPolicy{policy: p, program: compiled, needsOld: old})
		return
	}
	for _, b := range bindings {
		one := &admissionPolicy{policy: p, binding: b, program: compiled, needsOld: old}
		switch {
		case len(b.Spec.ValidationActions) == 0 || slices.Contains(b.Spec.ValidationActions, admissionv1.Deny):
		case slices.Contains(b.Spec.ValidationActions, admissionv1.Warn):
			one.severity = SeverityWarning
		default:
			one.severity = SeverityInfo
		}
		if p.Spec.ParamKind != nil {
			one.params = l.findParams(p.Spec.ParamKind, b.Spec.ParamRef)
			if one.params == nil {
				l.errorf(d.file, d.line, "ValidatingAdmissionPolicyBinding %s: the parameters %s %s are not in %s/",
					b.Name, p.Spec.ParamKind.Kind, paramName(b.Spec.ParamRef), l.engine.dir)
				continue
			}
		}
		l.engine.admission = append(l.engine.admission, one)
	}
}

func mustJSON(v any) []byte {
	data, _ := json.Marshal(v) // cannot fail: v was decoded from JSON
	return data
}

func paramName(r *admissionv1.ParamRef) string {
	if r == nil {
		return "without paramRef"
	}
	return r.Name
}

func (l *loader) findParams(kind *admissionv1.ParamKind, ref *admissionv1.ParamRef) *unstructured.Unstructured {
	for _, o := range l.params {
		if ref != nil && o.APIVersion() == kind.APIVersion && o.Kind() == kind.Kind && o.Name() == ref.Name {
			return toUnstructured(o)
		}
	}
	return nil
}

func (a *admissionPolicy) scope(_ *Subject, o *Object) string {
	if !a.matches(a.policy.Spec.MatchConstraints, o) || a.binding != nil &&
		!a.matches(a.binding.Spec.MatchResources, o) {
		return ""
	}
	if a.needsOld {
		return o.Key + "\x00" + o.OldKey
	}
	return o.Key
}

// matches reports whether the API server would evaluate the policy for an object. Namespaces have only the label that
// every namespace has.
func (a *admissionPolicy) matches(m *admissionv1.MatchResources, o *Object) bool {
	if m == nil {
		return true
	}
	if !selects(m.NamespaceSelector, labels.Set{"kubernetes.io/metadata.name": o.Object.Namespace()}) &&
		o.Object.Namespace() != "" {
		return false
	}
	own := labels.Set{}
	for k, v := range child(child(o.Object, "metadata"), "labels") {
		own[k], _ = v.(string)
	}
	if !selects(m.ObjectSelector, own) {
		return false
	}
	rule := func(r admissionv1.NamedRuleWithOperations) bool { return ruleMatches(r, o) }
	if slices.ContainsFunc(m.ExcludeResourceRules, rule) {
		return false
	}
	return len(m.ResourceRules) == 0 || slices.ContainsFunc(m.ResourceRules, rule)
}

func selects(s *metav1.LabelSelector, set labels.Set) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(set)
}

func ruleMatches(r admissionv1.NamedRuleWithOperations, o *Object) bool {
	gvr := resourceOf(o.Object)
	operation := admissionv1.Create
	if o.Old != nil {
		operation = admissionv1.Update
	}
	has := func(list []string, value string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, value)
	}
	if !has(r.APIGroups, gvr.Group) || !has(r.APIVersions, gvr.Version) ||
		!has(r.Resources, gvr.Resource) && !slices.Contains(r.Resources, "*/*") {
		return false
	}
	if len(r.ResourceNames) > 0 && !slices.Contains(r.ResourceNames, o.Object.Name()) {
		return false
	}
	if r.Scope != nil && *r.Scope != admissionv1.AllScopes &&
		(*r.Scope == admissionv1.NamespacedScope) != (o.Object.Namespace() != "") {
		return false
	}
	return slices.Contains(r.Operations, admissionv1.OperationAll) || slices.Contains(r.Operations, operation)
}

func resourceOf(o manifest.Object) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.APIVersion(), o.Kind()))
	return plural
}

func (a *admissionPolicy) check(ctx context.Context, _ *Subject, o *Object) ([]breach, error) {
	object := toUnstructured(o.Object)
	gvk, gvr := object.GroupVersionKind(), resourceOf(o.Object)
	operation, old := admission.Create, runtime.Object(nil)
	if o.Old != nil {
		operation, old = admission.Update, toUnstructured(o.Old)
	}
	attributes := admission.NewAttributesRecord(object, old, gvk, object.GetNamespace(), object.GetName(), gvr, "",
		operation, nil, true, nil)
	in := admissionInput{resource: gvr, attributes: &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(object),
		VersionedOldObject: admission.NewLazyObject(old),
	}}
	if ns := object.GetNamespace(); ns != "" {
		in.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:   ns,
			Labels: map[string]string{"kubernetes.io/metadata.name": ns},
		}}
	}
	if a.params != nil {
		in.params = a.params
	}
	var out []breach
	for _, message := range a.program.denials(ctx, in) {
		out = append(out, breach{rule: a.policy.Name, severity: a.severity, message: message})
	}
	return out, ctx.Err()
}

func toUnstructured(o manifest.Object) *unstructured.Unstructured {
	//nolint:forcetypeassert // normal keeps maps
	return &unstructured.Unstructured{Object: normal(map[string]any(o)).(map[string]any)}
}
