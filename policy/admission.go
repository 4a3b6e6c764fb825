package policy

import (
	"context"
	"encoding/json"
	"fmt"
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
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// admissionPolicy is a ValidatingAdmissionPolicy with one of its bindings, evaluated by the API server's own code.
type admissionPolicy struct {
	policy    *admissionv1.ValidatingAdmissionPolicy
	binding   *admissionv1.ValidatingAdmissionPolicyBinding // nil: it holds everywhere
	validator validating.Validator
	params    *unstructured.Unstructured
	severity  Severity
	needsOld  bool
}

// kubernetes takes a document of a Kubernetes kind: a policy, its binding, or parameters.
func (l *loader) kubernetes(f file, index, line int, h header) {
	objects, err := manifest.Decode(f.data, manifest.DefaultBudget())
	if err != nil || index >= len(objects) {
		l.errorf(f.name, line, "cannot be read: %v", err)
		return
	}
	i := slices.IndexFunc(objects, func(o manifest.Object) bool { return o.Kind() == h.Kind && o.Name() == h.Metadata.Name })
	if i < 0 {
		l.errorf(f.name, line, "%s %s cannot be read", h.Kind, h.Metadata.Name)
		return
	}
	d := document{file: f.name, line: line, object: objects[i]}
	switch {
	case strings.HasPrefix(h.APIVersion, "admissionregistration.k8s.io/") && h.Kind == "ValidatingAdmissionPolicy":
		l.vaps = append(l.vaps, d)
	case strings.HasPrefix(h.APIVersion, "admissionregistration.k8s.io/") && h.Kind == "ValidatingAdmissionPolicyBinding":
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

// admission compiles the policies, each with its bindings.
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
		l.errorf(Dir, 0, "a ValidatingAdmissionPolicyBinding names the policy %s, which is not in the folder", name)
	}
}

func (l *loader) policies(d document, p *admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.ValidatingAdmissionPolicyBinding) {
	compiled, err := compileAdmission(p)
	if err != nil {
		l.errorf(d.file, d.line, "ValidatingAdmissionPolicy %s: %v", p.Name, err)
		return
	}
	old := strings.Contains(string(mustJSON(p.Spec)), "oldObject") || strings.Contains(string(mustJSON(p.Spec)), "request.")
	l.engine.known[p.Name] = Rule{ID: p.Name, Severity: SeverityError, Title: "the ValidatingAdmissionPolicy " + p.Name, File: d.file}
	if len(bindings) == 0 {
		if p.Spec.ParamKind != nil {
			l.errorf(d.file, d.line, "ValidatingAdmissionPolicy %s takes parameters: a ValidatingAdmissionPolicyBinding in policy/ must say which", p.Name)
		}
		l.engine.admission = append(l.engine.admission, &admissionPolicy{policy: p, validator: compiled, needsOld: old})
		return
	}
	for _, b := range bindings {
		one := &admissionPolicy{policy: p, binding: b, validator: compiled, needsOld: old}
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
				l.errorf(d.file, d.line, "ValidatingAdmissionPolicyBinding %s: its parameters (%s %s) are not in policy/", b.Name, p.Spec.ParamKind.Kind, paramName(b.Spec.ParamRef))
				continue
			}
		}
		l.engine.admission = append(l.engine.admission, one)
	}
}

func mustJSON(v any) []byte {
	data, _ := json.Marshal(v)
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
			return &unstructured.Unstructured{Object: normal(map[string]any(o)).(map[string]any)} //nolint:forcetypeassert // a map stays one
		}
	}
	return nil
}

// compileAdmission compiles as k8s.io/apiserver's plugin ValidatingAdmissionPolicy does.
func compileAdmission(p *admissionv1.ValidatingAdmissionPolicy) (validating.Validator, error) {
	has := p.Spec.ParamKind != nil
	withAuthorizer := cel.OptionalVariableDeclarations{HasParams: has, HasAuthorizer: true}
	plain := cel.OptionalVariableDeclarations{HasParams: has}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	variables := make([]cel.NamedExpressionAccessor, len(p.Spec.Variables))
	for i, v := range p.Spec.Variables {
		variables[i] = &validating.Variable{Name: v.Name, Expression: v.Expression}
		if r := compiler.CompileCELExpression(variables[i], withAuthorizer, environment.StoredExpressions); r.Error != nil {
			return nil, fmt.Errorf("spec.variables[%d]: %w", i, r.Error)
		}
	}
	compiler.CompileAndStoreVariables(variables, withAuthorizer, environment.StoredExpressions)
	validations := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if r := compiler.CompileCELExpression(validations[i], withAuthorizer, environment.StoredExpressions); r.Error != nil {
			return nil, fmt.Errorf("spec.validations[%d]: %w", i, r.Error)
		}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
			if r := compiler.CompileCELExpression(messages[i], plain, environment.StoredExpressions); r.Error != nil {
				return nil, fmt.Errorf("spec.validations[%d].messageExpression: %w", i, r.Error)
			}
		}
	}
	var matcher matchconditions.Matcher
	if len(p.Spec.MatchConditions) > 0 {
		conditions := make([]cel.ExpressionAccessor, len(p.Spec.MatchConditions))
		for i := range p.Spec.MatchConditions {
			conditions[i] = (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i])
			if r := compiler.CompileCELExpression(conditions[i], withAuthorizer, environment.StoredExpressions); r.Error != nil {
				return nil, fmt.Errorf("spec.matchConditions[%d]: %w", i, r.Error)
			}
		}
		matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, withAuthorizer, environment.StoredExpressions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	return validating.NewValidator(
		compiler.CompileCondition(validations, withAuthorizer, environment.StoredExpressions), matcher,
		compiler.CompileCondition(nil, withAuthorizer, environment.StoredExpressions),
		compiler.CompileCondition(messages, plain, environment.StoredExpressions), p.Spec.FailurePolicy, nil,
	), nil
}

func (a *admissionPolicy) scope(_ *Subject, o *Object) string {
	if !a.matches(a.policy.Spec.MatchConstraints, o) || a.binding != nil && !a.matches(a.binding.Spec.MatchResources, o) {
		return ""
	}
	if a.needsOld {
		return o.Key + "\x00" + o.OldKey
	}
	return o.Key
}

// matches says whether the API server would ask the policy. Namespaces have the one label that every namespace has.
func (a *admissionPolicy) matches(m *admissionv1.MatchResources, o *Object) bool {
	if m == nil {
		return true
	}
	if !selects(m.NamespaceSelector, labels.Set{"kubernetes.io/metadata.name": o.Object.Namespace()}) && o.Object.Namespace() != "" {
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
	if !has(r.APIGroups, gvr.Group) || !has(r.APIVersions, gvr.Version) || !has(r.Resources, gvr.Resource) && !slices.Contains(r.Resources, "*/*") {
		return false
	}
	if len(r.ResourceNames) > 0 && !slices.Contains(r.ResourceNames, o.Object.Name()) {
		return false
	}
	if r.Scope != nil && *r.Scope != admissionv1.AllScopes && (*r.Scope == admissionv1.NamespacedScope) != (o.Object.Namespace() != "") {
		return false
	}
	return slices.Contains(r.Operations, admissionv1.OperationAll) || slices.Contains(r.Operations, operation)
}

func resourceOf(o manifest.Object) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.APIVersion(), o.Kind()))
	return plural
}

func (a *admissionPolicy) check(ctx context.Context, _ *Subject, o *Object) ([]breach, error) {
	object := &unstructured.Unstructured{Object: normal(map[string]any(o.Object)).(map[string]any)} //nolint:forcetypeassert // a map stays one
	gvk, gvr := object.GroupVersionKind(), resourceOf(o.Object)
	operation, old := admission.Create, runtime.Object(nil)
	if o.Old != nil {
		operation = admission.Update
		old = &unstructured.Unstructured{Object: normal(map[string]any(o.Old)).(map[string]any)} //nolint:forcetypeassert // a map stays one
	}
	attributes := admission.NewAttributesRecord(object, old, gvk, object.GetNamespace(), object.GetName(), gvr, "", operation, nil, true, nil)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old)}
	var namespace *corev1.Namespace
	if ns := object.GetNamespace(); ns != "" {
		namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"kubernetes.io/metadata.name": ns}}}
	}
	var params runtime.Object
	if a.params != nil {
		params = a.params
	}
	result := a.validator.Validate(ctx, gvr, versioned, params, namespace, celconfig.RuntimeCELCostBudget, nil)
	var out []breach
	for _, d := range result.Decisions {
		if d.Action == validating.ActionDeny {
			out = append(out, breach{rule: a.policy.Name, severity: a.severity, message: d.Message})
		}
	}
	return out, nil
}
