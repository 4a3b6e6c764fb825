package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/check"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

type validateOptions struct {
	common
	commit string
}

func newValidate(o IO) *cobra.Command {
	var v validateOptions
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check the files of the fleet and its policy, without rendering",
		Long: `Checks everything that needs no rendering: decodes every file of the fleet strictly, resolves every reference for every
cluster, looks for charts, roots and locked versions, and compiles the policy. It reports all problems at once, with file,
line and column. Without --commit, validate reads the files of the working tree; the folder need not be a Git repository.

Exit status: 0 if there are no errors, even if there are warnings; 1 otherwise.`,
		Example: `  sluice validate
  sluice validate --commit HEAD -o json`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := v.check(); err != nil {
				return err
			}
			return v.run(c.Context(), o)
		},
	}
	v.readFlags(c, "text", "json")
	c.Flags().StringVar(&v.commit, "commit", "", "`revision` to check (default: the working tree)")
	return c
}

func (v *validateOptions) run(ctx context.Context, o IO) error {
	v.Remember = true
	s, tree, err := openTree(ctx, o, &v.common, v.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	f, problems, err := s.Fleet(ctx, tree)
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	if f != nil {
		problems = slices.Concat(problems, check.Targets(ctx, f),
			check.UnreadValues(ctx, f, f.Targets(), check.OfTree(f), explain.Imported))
	}
	more, err := policyProblems(ctx, s, tree)
	if err != nil {
		return err
	}
	problems = append(problems, more...)
	if f != nil {
		unlocked, err := unlockedCharts(ctx, s, tree, f)
		if err != nil {
			return err
		}
		problems = append(problems, unlocked...)
	}
	problems = withoutRepeated(problems)
	if v.structured() {
		if problems == nil {
			problems = fleet.Problems{}
		}
		if err := v.encode(o.Out, problems); err != nil {
			return err
		}
	} else {
		showWarnings(o.Err, problems)
		if problems.Errors() == 0 {
			fmt.Fprintf(o.Out, "%s: %s, %s, %s, no errors\n", f.Name, count(len(f.Clusters), "cluster"),
				count(len(f.Apps), "app"), count(len(f.Targets()), "target"))
		}
	}
	if n := problems.Errors(); n > 0 {
		return &exitError{ExitFailed, fmt.Errorf("%s in the fleet", count(n, "problem"))}
	}
	return nil
}

// withoutRepeated removes warnings of the import that an error of the same place repeats: an import only warns of an
// Application for a cluster that is not known, because hydration goes on without it.
func withoutRepeated(problems fleet.Problems) fleet.Problems {
	return slices.DeleteFunc(slices.Clone(problems), func(p fleet.Problem) bool {
		return p.Severity == fleet.SeverityWarning && slices.ContainsFunc(problems, func(e fleet.Problem) bool {
			_, message, ok := strings.Cut(e.Message, ": ")
			return ok && e.Severity == fleet.SeverityError && e.File == p.File && e.Line == p.Line &&
				strings.Contains(p.Message, message)
		})
	})
}

// unlockedCharts reports remote charts of apps that sluice.lock lacks, with their positions. Dependencies of remote
// charts are reported when they are resolved, because the archive that lists them may not be here.
func unlockedCharts(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet) (fleet.Problems, error) {
	charts := f.Charts()
	if len(charts) == 0 {
		return nil, nil
	}
	view, err := s.Open(ctx, tree)
	if err != nil {
		return nil, err
	}
	lock := view.Lock()
	var out fleet.Problems
	for _, use := range charts {
		ref := fetch.Ref{Repo: use.Repo, Chart: use.Chart, Version: use.Version}
		if _, locked := lock.Lookup(ref); locked {
			continue
		}
		out = append(out, fleet.Problem{
			File: use.File, Line: use.Line, Column: use.Column, Severity: fleet.SeverityError,
			Message: fmt.Sprintf("sluice.lock does not lock the chart %s", ref),
			Hint:    "run `sluice deps lock` and commit sluice.lock",
		})
	}
	return out, nil
}

// policyProblems compiles the policy of a tree and returns its mistakes as problems of the fleet.
func policyProblems(ctx context.Context, s *app.Session, tree gitstore.Hash) (fleet.Problems, error) {
	_, err := s.Policy(ctx, tree, true)
	if err == nil {
		return nil, nil
	}
	problems, ok := errors.AsType[policy.Problems](err)
	if !ok {
		return nil, err
	}
	out := make(fleet.Problems, len(problems))
	for i, p := range problems {
		out[i] = fleet.Problem{
			File: p.File, Line: p.Line, Column: p.Column, Severity: fleet.SeverityError,
			Message: p.Message,
		}
	}
	return out, nil
}
