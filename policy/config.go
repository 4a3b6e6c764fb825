package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// APIVersion is the apiVersion of Policy and Exemption.
const APIVersion = "sluice.dev/v1alpha1"

type header struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
}

// policyFile is a document of kind Policy.
type policyFile struct {
	header `yaml:",inline"`
	Spec   policySpec `yaml:"spec"`
}

type policySpec struct {
	// Rules configures rules by identifier: built-in rules, Rego rules (package.rule) and ValidatingAdmissionPolicies
	// (name).
	Rules map[string]ruleSpec `yaml:"rules"`
	// Schemas configures where the schemas of built-in kinds come from.
	Schemas schemaSpec `yaml:"schemas"`
	// Parameters are data.sluice.parameters in Rego.
	Parameters map[string]any `yaml:"parameters"`
}

type ruleSpec struct {
	Severity     Severity            `yaml:"severity"`
	Environments map[string]Severity `yaml:"environments"`
	// Allow lists exceptions from the rule; the page of each rule describes the entries.
	Allow allowList `yaml:"allow"`
}

// allowList is a list of globs, or lists by app.
type allowList struct {
	all   []string
	byApp map[string][]string
}

// UnmarshalYAML accepts both forms.
func (a *allowList) UnmarshalYAML(unmarshal func(any) error) error {
	var list []string
	if err := unmarshal(&list); err == nil {
		a.all = list
		return nil
	}
	if err := unmarshal(&a.byApp); err != nil {
		return errors.New("allow must be a list, or a list for each app")
	}
	return nil
}

func (a *allowList) empty() bool { return len(a.all) == 0 && len(a.byApp) == 0 }

// allows reports whether a name matches an entry for the app. The app `*` means all apps.
func (a *allowList) allows(app, name string) bool {
	for _, list := range [][]string{a.all, a.byApp["*"], a.byApp[app]} {
		if slices.ContainsFunc(list, func(pattern string) bool { return glob(pattern, name) }) {
			return true
		}
	}
	return false
}

func (a *allowList) check() error {
	for _, list := range append([][]string{a.all}, mapValues(a.byApp)...) {
		for _, p := range list {
			if _, err := path.Match(p, ""); err != nil {
				return fmt.Errorf("%q is not a valid pattern", p)
			}
		}
	}
	return nil
}

func mapValues(m map[string][]string) [][]string {
	out := make([][]string, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

type schemaSpec struct {
	// Locations are kubeconform's URL templates, or folders of the repository; empty means the default.
	Locations []string `yaml:"locations"`
	// AllowUnknownFields accepts fields that the schema does not have.
	AllowUnknownFields bool `yaml:"allowUnknownFields"`
}

// exemptionFile is a document of kind Exemption.
type exemptionFile struct {
	header `yaml:",inline"`
	Spec   exemptionSpec `yaml:"spec"`
}

type exemptionSpec struct {
	Rule         string   `yaml:"rule"`   // identifier, or a pattern
	Object       string   `yaml:"object"` // Kind name, Kind namespace/name, with patterns
	Apps         []string `yaml:"apps"`
	Clusters     []string `yaml:"clusters"`
	Environments []string `yaml:"environments"`
	Reason       string   `yaml:"reason"`
	Until        string   `yaml:"until"` // the last day, 2006-01-02
}

type exemption struct {
	exemptionSpec
	name, file string
	until      time.Time // when it expires; zero: never
}

const day = 24 * time.Hour

func (s *exemptionSpec) check() (time.Time, error) {
	switch {
	case s.Rule == "":
		return time.Time{}, errors.New("spec.rule is missing (the identifier of the rule, as the finding shows it)")
	case s.Object == "":
		return time.Time{}, errors.New(`spec.object is missing (such as "Deployment shop/web", or "*" for all objects)`)
	case strings.TrimSpace(s.Reason) == "":
		return time.Time{}, errors.New("spec.reason is missing (say why the rule does not apply here)")
	}
	for _, p := range slices.Concat([]string{s.Rule, s.Object}, s.Apps, s.Clusters, s.Environments) {
		if _, err := path.Match(p, ""); err != nil {
			return time.Time{}, fmt.Errorf("%q is not a valid pattern", p)
		}
	}
	if s.Until == "" {
		return time.Time{}, nil
	}
	last, err := time.Parse(time.DateOnly, s.Until)
	if err != nil {
		return time.Time{}, fmt.Errorf("spec.until %q is not a day such as 2026-12-31", s.Until)
	}
	return last.Add(day), nil
}

func (e *exemption) expired(now time.Time) bool { return !e.until.IsZero() && !now.Before(e.until) }

func (e *exemption) covers(f *Finding) bool {
	any := func(patterns []string, name string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return glob(p, name) })
	}
	return glob(e.Rule, f.Rule) && e.coversObject(f.Object) && any(e.Apps, f.App) && any(e.Clusters, f.Cluster) &&
		any(e.Environments, f.Environment)
}

func (e *exemption) coversObject(id manifest.Identity) bool {
	kind, name, ok := strings.Cut(e.Object, " ")
	if !ok {
		return e.Object == "*" || glob(kind, id.Kind)
	}
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		return glob(kind, id.Kind) && glob(name, id.Name)
	}
	return glob(kind, id.Kind) && glob(namespace, id.Namespace) && glob(short, id.Name)
}

// glob matches like path.Match, with the name as one segment.
func glob(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x01"), strings.ReplaceAll(name, "/", "\x01"))
	return err == nil && ok
}
