// Package policy finds what is wrong with rendered objects: by built-in rules, by the fleet's own rules in Rego, and by
// ValidatingAdmissionPolicies. It owns the rules' names, severities, parameters and exemptions.
//
// It is pure: objects, facts and schemas are handed in, findings come out; it reads no clock, file or network by itself and never
// changes an object. Objects reach it with their secrets masked, and a masked value is never held against a schema.
package policy

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Severity of a finding.
type Severity string

// The severities, gravest first. Off is for rules that a fleet does not want.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
	SeverityOff     Severity = "off"
)

func (s Severity) valid() bool {
	return s == SeverityError || s == SeverityWarning || s == SeverityInfo || s == SeverityOff
}

func (s Severity) rank() int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityInfo, SeverityOff}, s)
}

// Cluster is what the registry says of a cluster.
type Cluster struct {
	Name, Environment, Class string
	KubeVersion              string // 1.33.2; "" if the registry does not say
	Labels                   map[string]string
	Vars                     map[string]any
}

// App is what app.yaml says of an app.
type App struct {
	Name, Namespace string
}

// Object is one object of a target. Equal keys mean equal objects.
type Object struct {
	Key    string
	Object manifest.Object
	OldKey string          // "" if it is new
	Old    manifest.Object // the object before the change; nil if it is new
}

// Subject is one app on one cluster, with the objects to judge.
type Subject struct {
	Cluster *Cluster
	App     *App
	Objects []Object
}

// Surroundings tell what else is on a cluster. Safe for concurrent use.
type Surroundings interface {
	// Definitions are the CustomResourceDefinitions on a cluster. Equal keys mean equal definitions.
	Definitions(ctx context.Context, cluster string) ([]Object, error)
	// Owner is another app than this one that has an object with the identity on the cluster; "" if there is none.
	Owner(ctx context.Context, cluster, app string, id manifest.Identity) (string, error)
}

// Input is what is judged.
type Input struct {
	Subjects     []Subject
	Surroundings Surroundings // nil: there is nothing else
}

// Finding is one breach of one rule by one object on one cluster.
type Finding struct {
	Rule        string
	Severity    Severity
	Message     string
	Hint        string // the next step
	Path        string // the field
	Object      manifest.Identity
	App         string
	Cluster     string
	Environment string
	Exemption   *Exempt // what lets it pass
}

// Exempt is the exemption that a finding has.
type Exempt struct {
	Reason, Until, File string
}

// Result of a check.
type Result struct {
	Findings []Finding // by severity, rule, app, object, cluster; those with an exemption too
	Notes    []string  // what could not be checked, and why
}

// breach is a finding before it is known where it applies.
type breach struct {
	rule, message, hint, path string
	severity                  Severity // "" is the rule's
}

func sortFindings(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Severity.rank(), b.Severity.rank()), strings.Compare(a.Rule, b.Rule), strings.Compare(a.App, b.App),
			manifest.Compare(a.Object, b.Object), strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message),
		)
	})
}

// Comparison is what became of the findings between two states.
type Comparison struct {
	Introduced, Existing, Resolved []Finding // without exempted ones
	Exempted                       []Finding // of the state after
}

// Compare tells findings that a change brings from those that were there before.
func Compare(before, after []Finding) Comparison {
	var out Comparison
	had := map[findingKey]int{}
	for i := range before {
		if before[i].Exemption == nil {
			had[keyOf(&before[i])]++
		}
	}
	for i := range after {
		f := after[i]
		k := keyOf(&f)
		switch {
		case f.Exemption != nil:
			out.Exempted = append(out.Exempted, f)
		case had[k] > 0:
			had[k]--
			out.Existing = append(out.Existing, f)
			continue
		default:
			out.Introduced = append(out.Introduced, f)
		}
		if f.Exemption != nil && had[k] > 0 {
			had[k]--
		}
	}
	for i := len(before) - 1; i >= 0; i-- {
		if k := keyOf(&before[i]); before[i].Exemption == nil && had[k] > 0 {
			had[k]--
			out.Resolved = append(out.Resolved, before[i])
		}
	}
	slices.Reverse(out.Resolved)
	return out
}

type findingKey struct {
	rule, app, cluster, at string
	object                 manifest.Identity
	severity               Severity
}

// keyOf is what stays the same about a finding when the object changes otherwise: the message may name a value.
func keyOf(f *Finding) findingKey {
	at := f.Path
	if at == "" {
		at = f.Message
	}
	return findingKey{rule: f.Rule, app: f.App, cluster: f.Cluster, at: at, object: f.Object, severity: f.Severity}
}
