package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	celgo "github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// admissionProgram is the compiled expressions of a ValidatingAdmissionPolicy.
//
// The API server's own packages compile and evaluate the expressions. This file decides on their results, because the
// API server's validator (k8s.io/apiserver/pkg/admission/plugin/policy/validating) imports informers and all typed
// clients: 500 packages. TestAdmissionPolicies compares the decisions with the documentation of the API.
type admissionProgram struct {
	spec        *admissionv1.ValidatingAdmissionPolicySpec
	conditions  cel.ConditionEvaluator // nil: no conditions
	validations cel.ConditionEvaluator
	messages    cel.ConditionEvaluator // an entry for each validation
}

// expression is an expression with its possible result types. Variables have a name.
type expression struct {
	name, text string
	types      []*celgo.Type
}

func (e *expression) GetName() string            { return e.name }
func (e *expression) GetExpression() string      { return e.text }
func (e *expression) ReturnTypes() []*celgo.Type { return e.types }

// compileAdmission compiles all expressions of a policy. Errors name the field.
func compileAdmission(p *admissionv1.ValidatingAdmissionPolicy) (*admissionProgram, error) {
	has := p.Spec.ParamKind != nil
	withAuthorizer := cel.OptionalVariableDeclarations{HasParams: has, HasAuthorizer: true}
	plain := cel.OptionalVariableDeclarations{HasParams: has}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	try := func(e *expression, o cel.OptionalVariableDeclarations, field string, i int, part string) error {
		if r := compiler.CompileCELExpression(e, o, environment.StoredExpressions); r.Error != nil {
			return fmt.Errorf("spec.%s[%d]%s: %w", field, i, part, r.Error)
		}
		return nil
	}
	boolean, text := []*celgo.Type{celgo.BoolType}, []*celgo.Type{celgo.StringType}
	var variables []cel.NamedExpressionAccessor
	for i, v := range p.Spec.Variables {
		one := &expression{name: v.Name, text: v.Expression, types: []*celgo.Type{celgo.AnyType, celgo.DynType}}
		if err := try(one, withAuthorizer, "variables", i, ""); err != nil {
			return nil, err
		}
		variables = append(variables, one)
	}
	compiler.CompileAndStoreVariables(variables, withAuthorizer, environment.StoredExpressions)
	validations, messages := make([]cel.ExpressionAccessor, len(p.Spec.Validations)),
		make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		one := &expression{text: v.Expression, types: boolean}
		if err := try(one, withAuthorizer, "validations", i, ""); err != nil {
			return nil, err
		}
		validations[i] = one
		if v.MessageExpression == "" {
			continue
		}
		message := &expression{text: v.MessageExpression, types: text}
		if err := try(message, plain, "validations", i, ".messageExpression"); err != nil {
			return nil, err
		}
		messages[i] = message
	}
	out := &admissionProgram{spec: &p.Spec}
	var conditions []cel.ExpressionAccessor
	for i, c := range p.Spec.MatchConditions {
		one := &expression{name: c.Name, text: c.Expression, types: boolean}
		if err := try(one, withAuthorizer, "matchConditions", i, ""); err != nil {
			return nil, err
		}
		conditions = append(conditions, one)
	}
	if len(conditions) > 0 {
		out.conditions = compiler.CompileCondition(conditions, withAuthorizer, environment.StoredExpressions)
	}
	out.validations = compiler.CompileCondition(validations, withAuthorizer, environment.StoredExpressions)
	out.messages = compiler.CompileCondition(messages, plain, environment.StoredExpressions)
	return out, nil
}

// admissionInput is one object as the API server passes it to a policy.
type admissionInput struct {
	attributes *admission.VersionedAttributes
	resource   schema.GroupVersionResource
	params     runtime.Object // nil: none
	namespace  *corev1.Namespace
}

// denials returns the message of each validation that denies the object.
func (p *admissionProgram) denials(ctx context.Context, in admissionInput) []string {
	request := cel.CreateAdmissionRequest(in.attributes.Attributes, metav1.GroupVersionResource(in.resource),
		metav1.GroupVersionKind(in.attributes.VersionedKind))
	namespace := cel.CreateNamespaceObject(in.namespace)
	bindings := cel.OptionalVariableBindings{VersionedParams: in.params}
	evaluate := func(e cel.ConditionEvaluator, budget int64) ([]cel.EvaluationResult, int64, error) {
		return e.ForInput(ctx, in.attributes, request, bindings, namespace, budget)
	}
	if p.conditions != nil {
		matches, err := p.matches(evaluate)
		if err != nil {
			return p.failed(err)
		}
		if !matches {
			return nil
		}
	}
	results, budget, err := evaluate(p.validations, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return p.failed(err)
	}
	messages, _, failed := evaluate(p.messages, budget)
	var out []string
	for i, r := range results {
		switch {
		case r.Error != nil:
			out = append(out, p.failed(r.Error)...)
		case r.EvalResult == celtypes.True:
		case failed != nil:
			out = append(out, p.failed(fmt.Errorf("messageExpression: %w", failed))...)
		default:
			out = append(out, message(p.spec.Validations[i], messages, i))
		}
	}
	return out
}

// matches evaluates the match conditions. A condition that is false decides, even if others fail.
func (p *admissionProgram) matches(evaluate func(cel.ConditionEvaluator, int64) ([]cel.EvaluationResult, int64,
	error),
) (bool, error) {
	results, _, err := evaluate(p.conditions, celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		return false, err
	}
	var failed []error
	for i, r := range results {
		if r.Error != nil {
			failed = append(failed, fmt.Errorf("matchConditions[%d]: %w", i, r.Error))
		} else if r.EvalResult == celtypes.False {
			return false, nil
		}
	}
	return true, errors.Join(failed...)
}

// failed returns the effect of an error in an expression: with failurePolicy Ignore, there is none.
func (p *admissionProgram) failed(err error) []string {
	if f := p.spec.FailurePolicy; f != nil && *f == admissionv1.Ignore {
		return nil
	}
	return []string{err.Error()}
}

// message returns the message of a denial: the value of messageExpression if it is one line of text, otherwise the
// fixed message, otherwise the expression.
func message(v admissionv1.Validation, results []cel.EvaluationResult, i int) string {
	if i < len(results) && results[i].Error == nil && results[i].EvalResult != nil {
		text, _ := results[i].EvalResult.Value().(string) // another type counts as no message
		text = strings.TrimSpace(text)
		if text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes &&
			!strings.Contains(text, "\n") {
			return text
		}
	}
	if text := strings.TrimSpace(v.Message); text != "" {
		return text
	}
	return "failed expression: " + strings.TrimSpace(v.Expression)
}
