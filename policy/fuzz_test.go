package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/policy"
)

// Loads policies. Whatever a file contains, the result is an engine or problems with the file's name.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"package main\n\ndeny contains msg if {\n\tinput.kind == \"Pod\"\n\tmsg := \"x\"\n}\n",
		"apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: acme}\nspec: {rules: {image-tag: {severity: warning}}}\n",
		"apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: x}\nspec: {rule: privileged, object: \"*\", reason: x, until: 2027-03-31}\n",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: x}\nspec:\n  validations: [{expression: \"true\"}]\n",
	} {
		f.Add("policy/x.rego", seed)
		f.Add("policy/x.yaml", seed)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if name != "policy/x.rego" {
			name = "policy/x.yaml"
		}
		_, err := policy.Load(t.Context(), tree(map[string]string{name: text}),
			policy.Options{Now: day(), RuleTimeout: time.Second})
		var problems policy.Problems
		if err != nil && !errors.As(err, &problems) {
			t.Errorf("the error is %T: the error is %v", err, err)
		}
	})
}
