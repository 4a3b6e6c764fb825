package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/policy"
)

func newPolicy(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use: "policy", Short: "List and test the rules of the policy",
		Example: "  sluice policy list\n  sluice policy test",
	})
	c.AddCommand(newPolicyList(o), newPolicyTest(o))
	return c
}

func newPolicyList(o IO) *cobra.Command {
	var k common
	c := &cobra.Command{
		Use: "list", Short: "List all rules with their severity",
		Long: `Lists the built-in rules and those of the folder policy/, with the severity that the fleet gives them. The files of the
working tree are read.`,
		Example: "  sluice policy list\n  sluice policy list -o json",
		Args:    noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.check(); err != nil {
				return err
			}
			return k.policyList(c.Context(), o)
		},
	}
	k.readFlags(c, "text", "json")
	return c
}

func (c *common) policyList(ctx context.Context, o IO) error {
	s, tree, err := openTree(ctx, o, c, "")
	if err != nil {
		return err
	}
	defer s.Close()
	engine, err := s.Policy(ctx, tree, true)
	if err != nil {
		return err
	}
	if c.structured() {
		return c.encode(o.Out, engine.Rules())
	}
	for _, r := range engine.Rules() {
		fmt.Fprintf(o.Out, "%-24s %-8s %s\n", r.ID, r.Severity, safetext.Line(r.Title))
	}
	return nil
}

func newPolicyTest(o IO) *cobra.Command {
	var k common
	var run string
	c := &cobra.Command{
		Use: "test", Short: "Run the tests of the fleet's own rules (policy/*_test.rego)",
		Long: `Runs the rules named test_… in policy/*.rego, as conftest verify and opa test do, with the fleet's own rules and with
data.sluice.parameters. Tests supply other facts themselves: with data.sluice.cluster as {…}.

Exit status: 0; 1 if a test fails or the policy does not compile.`,
		Example: "  sluice policy test\n  sluice policy test --run deny_latest",
		Args:    noArgs("select tests with --run"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.check(); err != nil {
				return err
			}
			return k.policyTest(c.Context(), o, run)
		},
	}
	k.readFlags(c, "text", "json")
	c.Flags().StringVar(&run, "run", "", "only tests whose name matches this regular `expression`")
	return c
}

func (c *common) policyTest(ctx context.Context, o IO, run string) error {
	s, tree, err := openTree(ctx, o, c, "")
	if err != nil {
		return err
	}
	defer s.Close()
	results, err := testPolicy(ctx, s, tree, run)
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if !r.Pass && !r.Skip {
			failed++
		}
	}
	if c.structured() {
		err = c.encode(o.Out, results)
	} else {
		for _, r := range results {
			mark := map[bool]string{true: "pass", false: "FAIL"}[r.Pass || r.Skip]
			fmt.Fprintf(o.Out, "%s  %s:%d  %s %s\n", mark, r.File, r.Line, r.Name, safetext.Line(r.Error))
			if r.Output != "" && !r.Pass {
				fmt.Fprintln(o.Out, safetext.Lines(r.Output))
			}
		}
		fmt.Fprintf(o.Out, "%s, %d failed\n", count(len(results), "test"), failed)
	}
	if err != nil || failed == 0 {
		return err
	}
	return &exitError{code: ExitFailed}
}

func testPolicy(ctx context.Context, s *app.Session, tree gitstore.Hash, run string) ([]policy.TestResult, error) {
	results, err := s.TestPolicy(ctx, tree, run)
	if results == nil {
		results = []policy.TestResult{}
	}
	return results, err
}
