package policy

// Identifiers of the built-in rules. Each has a page docs/policy/<id>.md.
const (
	RuleSchema           = "schema"
	RuleCustomResource   = "custom-resource-schema"
	RuleAPIRemoved       = "api-removed"
	RuleAPIDeprecated    = "api-deprecated"
	RulePlaintextSecret  = "plaintext-secret"
	RuleNamespace        = "namespace-outside-app"
	RuleClusterScoped    = "cluster-scoped"
	RuleDuplicateOwner   = "duplicate-owner"
	RuleClusterEmptied   = "cluster-emptied"
	RuleImageTag         = "image-tag"
	RulePrivileged       = "privileged"
	RuleExemptionExpired = "exemption-expired"
	RulePolicyError      = "policy-error"
)

// Rule describes a rule.
type Rule struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"` // unless the fleet sets another one
	Title    string   `json:"title"`
	BuiltIn  bool     `json:"builtIn"`
	File     string   `json:"file,omitempty"` // of the fleet's own rules
}

// BuiltIn returns the built-in rules.
func BuiltIn() []Rule {
	rule := func(id string, s Severity, title string) Rule {
		return Rule{ID: id, Severity: s, Title: title, BuiltIn: true}
	}
	return append([]Rule{
		rule(RuleSchema, SeverityError,
			"the object does not match the types or the schema of its kind in the cluster's Kubernetes version"),
		rule(RuleCustomResource, SeverityError,
			"the custom resource does not match its CustomResourceDefinition in the fleet"),
		rule(RuleAPIRemoved, SeverityError, "the cluster's Kubernetes version no longer serves this API"),
		rule(RuleAPIDeprecated, SeverityWarning,
			"the API is deprecated, or the next Kubernetes version does not serve it"),
		rule(RulePlaintextSecret, SeverityError, "a Secret would be on a branch in plain text"),
		rule(RuleNamespace, SeverityWarning, "the object is outside the app's namespaces"),
		rule(RuleClusterScoped, SeverityError, "the app may not contain objects of this cluster-scoped kind"),
		rule(RuleDuplicateOwner, SeverityError, "two apps contain the same object on one cluster"),
		rule(RuleClusterEmptied, SeverityError, "the change deletes all that an active cluster has"),
		rule(RuleImageTag, SeverityWarning, "the image has neither a fixed tag nor a digest"),
		rule(RulePrivileged, SeverityWarning, "the pod gets privileges on its host"),
		rule(RuleExemptionExpired, SeverityWarning, "an exemption has expired"),
		rule(RulePolicyError, SeverityError, "a rule could not be evaluated"),
	}, workspaceRules()...)
}
