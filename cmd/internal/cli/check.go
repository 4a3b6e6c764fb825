package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/bot/report/data"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate"
)

type checkOptions struct {
	reviewFlags
	strict bool
}

func newCheck(o IO) *cobra.Command {
	var k checkOptions
	c := &cobra.Command{
		Use:   "check [REV]",
		Short: "Judge whole environments by the fleet's policy",
		Long: `Renders every target, as far as no branch holds it, and judges all objects by policy/ of the same commit: built-in rules,
Rego, ValidatingAdmissionPolicies, exemptions. Without REV, the files as they are.

Exit status: 0; 1 if there are findings of severity error or a target could not be rendered; with --strict, for warnings too.`,
		Example: `  sluice check
  sluice check --env prod
  sluice check main --sarif-file findings.sarif --junit-file findings.xml
  sluice check -o json | jq -r '.review.findings.introduced[].rule' | sort | uniq -c`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := k.check("text", "json", "sarif", "junit"); err != nil {
				return err
			}
			return k.run(c.Context(), o, strings.Join(args, ""))
		},
	}
	k.add(c, "text", "json", "sarif", "junit")
	c.Flags().BoolVar(&k.strict, "strict", false, "fail on warnings too")
	return c
}

func (k *checkOptions) run(ctx context.Context, o IO, rev string) error {
	s, err := app.Open(ctx, o.Env, k.Options, k.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := headOf(ctx, s, rev, k.Repo)
	if err != nil {
		return err
	}
	if err := k.useRemote(ctx, s, head); err != nil {
		return err
	}
	r, _, err := s.Review(ctx, app.ReviewOptions{
		Compare: hydrate.CompareRequest{Head: head, Against: hydrate.AgainstNothing, Environments: k.environments, Key: s.FingerprintKey()},
		Policy:  head.Tree, Offline: k.offline, Whole: true, FindingsOnly: true,
	})
	if err != nil {
		return err
	}
	if err := k.files.write(r); err != nil {
		return err
	}
	if err := k.print(o, r); err != nil {
		return err
	}
	if r.Verdict == report.VerdictError || r.Verdict == report.VerdictFail || k.strict && r.Verdict == report.VerdictWarn {
		return &exitError{code: ExitFailed}
	}
	return nil
}

func (k *checkOptions) print(o IO, r *report.Review) error {
	switch k.output {
	case "json":
		return data.JSON(o.Out, r)
	case "sarif":
		return data.SARIF(o.Out, r)
	case "junit":
		return data.JUnit(o.Out, r)
	}
	return o.paged(func(w io.Writer) error {
		report.TerminalFindings(w, r, report.TerminalOptions{Color: o.color(), Width: o.width(), Full: k.full})
		return nil
	})
}

func newPolicy(o IO) *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "List and test the rules that objects are judged by", Args: cobra.NoArgs}
	c.AddCommand(newPolicyList(o), newPolicyTest(o))
	return c
}

func newPolicyList(o IO) *cobra.Command {
	var k common
	c := &cobra.Command{
		Use: "list", Short: "List all rules with their severities",
		Example: "  sluice policy list\n  sluice policy list -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.check("text", "json"); err != nil {
				return err
			}
			ctx := c.Context()
			s, err := app.Open(ctx, o.Env, k.Options, k.progress(o))
			if err != nil {
				return err
			}
			defer s.Close()
			head, err := headOf(ctx, s, "", k.Repo)
			if err != nil {
				return err
			}
			engine, err := s.Policy(ctx, head.Tree, true)
			if err != nil {
				return err
			}
			if k.output == "json" {
				return printJSON(o.Out, engine.Rules())
			}
			for _, r := range engine.Rules() {
				fmt.Fprintf(o.Out, "%-24s %-8s %s\n", r.ID, r.Severity, r.Title)
			}
			return nil
		},
	}
	k.flags(c, "text", "json")
	return c
}

func newPolicyTest(o IO) *cobra.Command {
	var k common
	var run string
	c := &cobra.Command{
		Use: "test", Short: "Run the tests of the fleet's own rules (policy/*_test.rego)",
		Long: `Runs the rules named test_… in policy/*.rego, as conftest verify and opa test do: with the fleet's own rules and with
data.sluice.parameters. Other facts are given by the tests: with data.sluice.cluster as {…}.

Exit status: 0; 1 if a test fails.`,
		Example: "  sluice policy test\n  sluice policy test --run deny_latest",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.check("text", "json"); err != nil {
				return err
			}
			return k.policyTest(c.Context(), o, run)
		},
	}
	k.flags(c, "text", "json")
	c.Flags().StringVar(&run, "run", "", "only tests whose name matches this regular `expression`")
	return c
}

func (c *common) policyTest(ctx context.Context, o IO, run string) error {
	s, err := app.Open(ctx, o.Env, c.Options, c.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := headOf(ctx, s, "", c.Repo)
	if err != nil {
		return err
	}
	results, err := s.TestPolicy(ctx, head.Tree, run)
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if !r.Pass && !r.Skip {
			failed++
		}
	}
	if c.output == "json" {
		err = printJSON(o.Out, results)
	} else {
		for _, r := range results {
			fmt.Fprintf(o.Out, "%s  %s:%d  %s %s\n", map[bool]string{true: "pass", false: "FAIL"}[r.Pass || r.Skip], r.File, r.Line, r.Name, r.Error)
			if r.Output != "" && !r.Pass {
				fmt.Fprintln(o.Out, r.Output)
			}
		}
		fmt.Fprintf(o.Out, "%d tests, %d failed\n", len(results), failed)
	}
	if err != nil || failed == 0 {
		return err
	}
	return &exitError{code: ExitFailed}
}
