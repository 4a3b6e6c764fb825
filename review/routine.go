package review

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
)

// routine classifies a change by spec.routine of the rulebook, as far as its files and objects tell; nil without it.
// Whatever is not known to be routine is not.
func routine(ctx context.Context, c *compare.Comparison) (*report.Routine, error) {
	rules := c.Rulebook().Spec.Routine
	if rules == nil {
		return nil, nil //nolint:nilnil // the fleet does not ask
	}
	not := func(format string, args ...any) (*report.Routine, error) {
		return &report.Routine{Why: fmt.Sprintf(format, args...)}, nil
	}
	if c.Partial() {
		return not("only a part of the fleet is compared")
	}
	if why := c.Changes.Harmless(); why != "" {
		return not("%s", why)
	}
	if len(c.Changes.Groups) == 0 {
		return not("no object changes")
	}
	for i := range c.Changes.Groups {
		for _, name := range c.Changes.Groups[i].Environments {
			if len(rules.Environments) > 0 && !fleet.MatchesAny(rules.Environments, name) {
				return not("it reaches %s, which spec.routine.environments does not name", name)
			}
		}
	}
	files, err := c.Routine(ctx, rules.Files)
	if err != nil {
		return nil, err
	}
	allowed := func(repository string) bool { return matchesImage(rules.Images, repository) }
	images, charts := c.Changes.OnlyImages(allowed), rules.Charts != fleet.RoutineNone
	if charts && files.Charts == "" {
		files.Charts = c.Changes.KeepsRepositories(allowed)
	}
	switch {
	case images == "" && files.Other == "":
		return &report.Routine{Routine: true, Why: "only images change"}, nil
	case charts && files.Charts == "":
		return &report.Routine{Routine: true, Why: "only patch versions of charts change"}, nil
	case files.Other != "":
		return not("%s", files.Other)
	case charts:
		return not("%s; %s", images, files.Charts)
	}
	return not("%s", images)
}

// confirm takes the class back if something else of a finished review asks for a reader.
func confirm(r *report.Review, judged bool) {
	if r.Routine == nil || !r.Routine.Routine {
		return
	}
	why := ""
	switch {
	case !judged:
		why = "it was not judged by the policy alone"
	case r.Verdict != report.VerdictPass:
		why = "the policy does not simply pass"
	case len(r.Warnings) > 0:
		why = "there is a new warning about the fleet's files"
	case len(r.Pins) > 0:
		why = "it pins another commit of " + r.Pins[0].Name
	}
	if why != "" {
		r.Routine = &report.Routine{Why: why}
	}
}

// matchesImage reports whether one of the patterns matches the repository of an image; without patterns, all do.
func matchesImage(patterns []string, repository string) bool {
	return len(patterns) == 0 || fleet.MatchesAny(patterns, repository)
}
