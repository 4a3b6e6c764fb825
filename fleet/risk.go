package fleet

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// RiskEffects returns the effects that spec.risk.levels may name, sorted; docs/diff.md describes them.
func RiskEffects() []string {
	return []string{
		"added", "cluster-emptied", "crd-removed", "crd-version-removed", "data-loss", "depends-on-sync",
		"disruption-blocked", "environment-removed", "exposed", "hook", "host-access", "image", "immutable-field",
		"job-runs-again", "large-loss", "namespace-removed", "not-applied", "orphaned", "rbac-widened", "recreated",
		"removed", "replicas-cut", "rolls", "statefulset-removed", "storage-shrinks", "zero-replicas",
	}
}

// riskLevels returns the risks, highest first.
func riskLevels() []string { return []string{"critical", "high", "medium", "low", "none"} }

// risk checks spec.risk.
func (fc fleetChecks) risk() {
	r := fc.fleet.Spec.Risk
	for _, name := range slices.Sorted(maps.Keys(r.Levels)) {
		at := []string{"spec", "risk", "levels", name}
		if !slices.Contains(RiskEffects(), name) {
			fc.errorf(fc.file, at, "one of "+strings.Join(RiskEffects(), ", "), "there is no effect %q%s", name,
				nearest.DidYouMean(name, RiskEffects()))
			continue
		}
		if level := r.Levels[name]; !slices.Contains(riskLevels(), level) {
			fc.errorf(fc.file, at, "one of "+strings.Join(riskLevels(), ", "), "there is no risk %q%s", level,
				nearest.DidYouMean(level, riskLevels()))
		}
	}
	for i, pattern := range r.Production {
		at := []string{"spec", "risk", "production", strconv.Itoa(i)}
		if _, err := path.Match(pattern, ""); err != nil {
			fc.errorf(fc.file, at, "a name, or one with *", "%q is not a pattern", pattern)
			continue
		}
		if !strings.Contains(pattern, "*") && !slices.Contains(fc.fleet.environmentNames(), pattern) {
			names := fc.fleet.environmentNames()
			fc.errorf(fc.file, at, "one of "+strings.Join(names, ", "), "there is no environment %q%s", pattern,
				nearest.DidYouMean(pattern, names))
		}
	}
}

// routine checks the patterns of spec.routine.
func (fc fleetChecks) routine() {
	r := fc.fleet.Spec.Routine
	if r == nil {
		return
	}
	fc.patterns(r.Images, "routine", "images")
	fc.patterns(r.Environments, "routine", "environments")
	fc.patterns(r.Files, "routine", "files")
}

// patterns checks the patterns of a field of spec. A pattern that cannot be read would match nothing.
func (fc fleetChecks) patterns(list []string, field ...string) {
	for i, pattern := range list {
		if _, err := parseGlob(pattern); err != nil {
			fc.errorf(fc.file, slices.Concat([]string{"spec"}, field, []string{strconv.Itoa(i)}), "", "%q: %v", pattern, err)
		}
	}
}

// Production reports whether an environment serves users, by spec.risk.production or by its place in the promotion
// graph.
func (f *Fleet) Production(environment string) bool {
	if patterns := f.Spec.Risk.Production; len(patterns) > 0 {
		return slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, environment)
			return ok && err == nil // Load has refused invalid patterns
		})
	}
	graph, known := false, false
	for _, e := range f.Spec.Environments {
		graph = graph || len(e.After) > 0
		known = known || e.Name == environment
		if slices.Contains(e.After, environment) {
			return false
		}
	}
	if graph {
		return known
	}
	return strings.HasPrefix(environment, "prod")
}
