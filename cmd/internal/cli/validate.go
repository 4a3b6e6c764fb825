package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

type validateOptions struct {
	common
	commit string
}

func newValidate(o IO) *cobra.Command {
	var v validateOptions
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check the fleet's files, without rendering",
		Long: `Decodes every file of the fleet strictly, resolves every reference for every cluster, and reports all problems at
once, with file, line and column. Without --commit the files of the working tree are checked.`,
		Example: `  sluice validate
  sluice validate --commit HEAD -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := v.check("text", "json"); err != nil {
				return err
			}
			return v.run(c.Context(), o)
		},
	}
	v.flags(c, "text", "json")
	c.Flags().StringVar(&v.commit, "commit", "", "`revision` to check (default: the working tree)")
	return c
}

func (v *validateOptions) run(ctx context.Context, o IO) error {
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
		problems = slices.Concat(problems, f.Check(ctx))
	}
	if v.output == "json" {
		if problems == nil {
			problems = fleet.Problems{}
		}
		if err := printJSON(o.Out, problems); err != nil {
			return err
		}
	} else {
		showWarnings(o.Err, problems)
		if problems.Err() == nil {
			fmt.Fprintf(o.Out, "%s: %d clusters, %d apps, %d targets, no errors\n", f.Name, len(f.Clusters), len(f.Apps), len(f.Targets()))
		}
	}
	if problems.Err() != nil {
		return &exitError{code: ExitFailed}
	}
	return nil
}
