package fleet

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// longestLabel is the number of characters that GitHub allows in the name of a label.
const longestLabel = 50

// EnvironmentLabel returns the label of merge requests that change an environment.
func EnvironmentLabel(environment string) string { return "sluice/" + environment }

// RiskLabel returns the label of merge requests whose change has a risk.
func RiskLabel(risk string) string { return "risk/" + risk }

// RoutineLabel is the label of merge requests that may be merged without a reader. No environment can have this name.
const RoutineLabel = "sluice/routine"

// IsEnvironmentLabel reports whether a label can be one of EnvironmentLabel.
func IsEnvironmentLabel(name string) bool {
	return name != RoutineLabel && strings.HasPrefix(name, EnvironmentLabel(""))
}

// OwnLabel reports whether a label can be one that reviews set and remove, in some fleet.
func OwnLabel(name string) bool {
	risk, ok := strings.CutPrefix(name, RiskLabel(""))
	return ok && slices.Contains(riskLevels(), risk) || strings.HasPrefix(name, EnvironmentLabel(""))
}

// Labels returns the labels of which reviews of the fleet's merge requests decide whether they are set.
func (f *Fleet) Labels() []string {
	var out []string
	use := f.Spec.Review.Labels
	if use.Environments {
		for _, e := range f.Spec.Environments {
			out = append(out, EnvironmentLabel(e.Name))
		}
	}
	if use.Risk {
		for _, level := range riskLevels() {
			out = append(out, RiskLabel(level))
		}
	}
	if use.Routine {
		out = append(out, RoutineLabel)
	}
	return out
}

// Covers reports whether the rule is about a change of an app in an environment with a risk.
func (r ReviewerRule) Covers(app, environment, risk string) bool {
	matches := func(patterns []string, name string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, name)
			return ok && err == nil // Load has refused invalid patterns
		})
	}
	levels := riskLevels()
	return matches(r.Environments, environment) && matches(r.Workspaces, WorkspaceOf(app)) &&
		(r.Risk == "" || slices.Index(levels, risk) <= slices.Index(levels, r.Risk))
}

// review checks spec.review.
func (fc fleetChecks) review() {
	r := fc.fleet.Spec.Review
	if r.Labels.Routine && fc.fleet.Spec.Routine == nil {
		fc.warnf(fc.file, []string{"spec", "review", "labels", "routine"}, "add `routine: {}` to spec",
			"no change gets the label %s, because spec.routine does not say what is routine", RoutineLabel)
	}
	names := fc.fleet.environmentNames()
	for i, name := range names {
		if label := EnvironmentLabel(name); r.Labels.Environments && len(label) > longestLabel {
			fc.warnf(fc.file, []string{"spec", "environments", strconv.Itoa(i), "name"}, "choose a shorter name",
				"GitHub refuses the label %s, which has more than %d characters", label, longestLabel)
		}
	}
	for i, rule := range r.Reviewers {
		at := []string{"spec", "review", "reviewers", strconv.Itoa(i)}
		if len(rule.Users)+len(rule.Teams) == 0 {
			fc.errorf(fc.file, at, "add users or teams", "the rule asks nobody")
		}
		for field, list := range map[string][]string{"users": rule.Users, "teams": rule.Teams} {
			for j, name := range list {
				if strings.TrimLeft(name, "@") != name || strings.TrimSpace(name) == "" {
					fc.errorf(fc.file, append(slices.Clone(at), field, strconv.Itoa(j)), "write it without @",
						"%q is not a name", name)
				}
			}
		}
		for field, list := range map[string][]string{"environments": rule.Environments, "workspaces": rule.Workspaces} {
			for j, pattern := range list {
				place := append(slices.Clone(at), field, strconv.Itoa(j))
				if _, err := path.Match(pattern, ""); err != nil {
					fc.errorf(fc.file, place, "a name, or one with *", "%q is not a pattern", pattern)
				} else if field == "environments" && !strings.ContainsAny(pattern, `*?[\`) &&
					!slices.Contains(names, pattern) {
					fc.errorf(fc.file, place, "one of "+strings.Join(names, ", "), "there is no environment %q%s",
						pattern, nearest.DidYouMean(pattern, names))
				}
			}
		}
	}
}
