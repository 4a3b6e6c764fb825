package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

type verifyOptions struct {
	common
	environments []string
	commit       string
	fromRemote   bool
	remote       string
}

func newVerify(o IO) *cobra.Command {
	var v verifyOptions
	c := &cobra.Command{
		Use:   "verify",
		Short: "Render branches again from their recorded commits and compare",
		Long: `Renders every environment again from the commits that its branch records, and compares file by file. It names each
difference, such as a change that somebody pushed to a branch by hand.

A cluster that a rollout has not reached, or that a freeze or a halt keeps where it is, is reported as behind, as planned.

Exit status: 0 if every branch is what its record says, or behind as planned; 1 if a branch could not be verified; 3 if a branch differs.`,
		Example: `  sluice verify
  sluice verify --env prod --from-remote
  sluice verify -o json`,
		Args: noArgs("select with --env"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := v.check(); err != nil {
				return err
			}
			return v.run(c.Context(), o)
		},
	}
	v.flags(c, "text", "json")
	c.Flags().StringSliceVar(&v.environments, "env", nil, "`environments` to verify (default: all)")
	c.Flags().StringVar(&v.commit, "commit", "", "`revision` whose fleet names the branches (default HEAD)")
	c.Flags().BoolVar(&v.fromRemote, "from-remote", false, "verify the branches of the remote")
	c.Flags().StringVar(&v.remote, "remote", "origin", "`name` of the remote")
	return c
}

func (v *verifyOptions) run(ctx context.Context, o IO) error {
	s, err := app.Open(ctx, o.Env, v.Options, v.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := s.Commit(ctx, v.commit)
	if err != nil {
		return err
	}
	f, _, err := s.Fleet(ctx, head.Tree)
	if err != nil {
		return err
	}
	if err := (&selection{environments: v.environments}).check(f); err != nil {
		return err
	}
	if v.fromRemote || s.IsURL() {
		if s, err = s.WithRemote(ctx, head, v.remote); err != nil {
			return err
		}
	}
	found, err := verify.Run(ctx, s.Hydrator, head, v.environments)
	if err != nil {
		return err
	}
	if v.structured() {
		if err := v.encode(o.Out, found); err != nil {
			return err
		}
	} else {
		printVerification(o.Out, found)
	}
	return verifyStatus(found)
}

// verifyStatus is a failure if a branch could not be verified, else a difference if there is one.
func verifyStatus(found []verify.Verification) error {
	code := ExitOK
	for _, e := range found {
		switch e.Status {
		case "failed":
			return &exitError{code: ExitFailed}
		case "differs":
			code = ExitDiffers
		}
	}
	if code != ExitOK {
		return &exitError{code: code}
	}
	return nil
}

func printVerification(w io.Writer, found []verify.Verification) {
	for _, e := range found {
		fmt.Fprintf(w, "%s %s", e.Branch, e.Status)
		if e.Source != "" {
			fmt.Fprintf(w, ", rendered from %.10s", e.Source)
		}
		if e.Reason != "" {
			fmt.Fprintf(w, ": %s", safetext.Line(e.Reason))
		}
		fmt.Fprintln(w)
		printFailures(w, e.Failures, "  ")
		for _, b := range e.Behind {
			fmt.Fprintf(w, "  behind  %s runs %s, as planned: %s\n", b.Branch, safetext.Line(b.Source), safetext.Line(b.Reason))
		}
		for _, h := range e.Held {
			fmt.Fprintf(w, "  held    %s\n", safetext.Line(h))
		}
		for _, d := range e.Differences {
			fmt.Fprintf(w, "  %-7s %s:%s\n", d.Effect, d.Branch, safetext.Line(d.Path))
		}
	}
}
