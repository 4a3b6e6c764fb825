// Package policy evaluates rules on rendered objects: built-in rules, the fleet's own rules in Rego, and
// ValidatingAdmissionPolicies. It owns the names of rules, their severities, parameters and exemptions.
//
// It is pure: callers hand in objects, facts and schemas, and get findings. It reads no clock, file or network itself
// and never changes an object. Callers mask secrets first; masked values are not compared with schemas.
//
// The package is API: docs/architecture.md says how stable it is.
package policy

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Severity of a finding.
type Severity string

// The severities, most severe first. Off disables a rule.
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

// Cluster holds the facts of a cluster that rules can read.
type Cluster struct {
	Name, Environment, Class string
	KubeVersion              string // 1.33.2; "" if the registry does not set it
	Labels                   map[string]string
	Vars                     map[string]any
}

// App holds the facts of an app that rules can read.
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

// Subject is one target with the objects to judge.
type Subject struct {
	Cluster *Cluster
	App     *App
	Objects []Object
}

// Surroundings describes the other targets of a cluster. It must be safe for concurrent use.
type Surroundings interface {
	// Definitions returns the CustomResourceDefinitions on a cluster. Equal keys mean equal definitions.
	Definitions(ctx context.Context, cluster string) ([]Object, error)
	// Owners returns all apps that have an object with the identity on the cluster. The caller does not change the
	// list.
	Owners(ctx context.Context, cluster string, id manifest.Identity) ([]string, error)
	// Had reports whether an app had an object with the identity on the cluster before the change.
	Had(ctx context.Context, cluster, app string, id manifest.Identity) (bool, error)
	// Size counts the apps and the objects of a workspace on a cluster.
	Size(ctx context.Context, cluster, workspace string) (apps, objects int, err error)
}

// Subjects are the targets to judge, in batches, so that not all of their objects must be in memory at once. All
// targets of a cluster are in one batch. Nothing keeps a batch when the next one begins.
type Subjects = iter.Seq2[[]Subject, error]

// Listed returns subjects as one batch.
func Listed(list ...Subject) Subjects {
	return func(yield func([]Subject, error) bool) { yield(list, nil) }
}

// Input is what Check judges.
type Input struct {
	Subjects     Subjects     // nil: none
	Surroundings Surroundings // nil: the cluster has nothing else
	Emptied      []Emptied    // clusters that lose all their objects by the change
}

// Emptied is a cluster that loses all its objects, although nobody took it out of the registry.
type Emptied struct {
	Cluster *Cluster
	Unread  bool // the fleet no longer reads the cluster's file, which is as it was
}

// Finding is one violation of a rule by one object on one cluster.
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
	Exemption   *Exempt // nil without one
	Own         bool    // by the own policy of the app's workspace
	Same        bool    // the change leaves the object as it was
}

// Exempt is the exemption that covers a finding.
type Exempt struct {
	Reason, Until, File string
}

// Result is the result of a check.
type Result struct {
	Findings []Finding // by severity, rule, app, object, cluster; including exempted ones
	Notes    []string  // what could not be checked, and why
}

// breach is a violation without its target: equal objects share it.
type breach struct {
	rule, message, hint, path string
	severity                  Severity // "" means the severity of the rule
	same                      bool     // the object is as it was before the change
}

func sortFindings(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Severity.rank(), b.Severity.rank()), strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.App, b.App),
			manifest.Compare(a.Object, b.Object), strings.Compare(a.Cluster, b.Cluster),
			strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message),
		)
	})
}

// Comparison divides the findings of two states.
type Comparison struct {
	Introduced, Existing, Resolved []Finding // without the exempted ones
	Exempted                       []Finding // of the state after
}

// Compare separates the findings that a change introduces from those that existed before. A finding of a rule of
// workspaces is always introduced: its identity leaves out the value at the path, and the change may replace one
// violation with a worse one. So is a rule that could not be evaluated on a changed object, and an own policy that
// could not be evaluated at all: nobody knows what they would find.
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
		case had[k] > 0 && !OfWorkspace(f.Rule) && !f.unjudged():
			had[k]--
			out.Existing = append(out.Existing, f)
			continue
		default:
			out.Introduced = append(out.Introduced, f)
		}
		if had[k] > 0 {
			had[k]-- // not resolved
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

// unjudged reports whether the finding is a rule that could not be evaluated on a changed object, or an own policy that
// could not be evaluated.
func (f *Finding) unjudged() bool {
	return f.Own && strings.HasSuffix(f.Rule, "/"+RulePolicyError) || f.Rule == RulePolicyError && !f.Same
}

type findingKey struct {
	rule, app, cluster, at string
	object                 manifest.Identity
	severity               Severity
}

// keyOf returns the identity of a finding for comparing two states. It leaves out the message of a finding with a
// path, because the message may contain a value.
func keyOf(f *Finding) findingKey {
	at := f.Path
	if at == "" {
		at = f.Message
	}
	return findingKey{rule: f.Rule, app: f.App, cluster: f.Cluster, at: at, object: f.Object, severity: f.Severity}
}
