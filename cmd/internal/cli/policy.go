package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
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
		Long: `Lists the built-in rules, those of the folder policy/ with the severity that the fleet gives them, and those of the
policies that workspaces have of their own. The files of the working tree are read.

Exit status: 0; 1 if a policy cannot be read.`,
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
	rules := engine.Rules()
	own, mistakes, err := ownRules(ctx, s, tree)
	if err != nil {
		return err
	}
	rules = append(rules, own...)
	if c.structured() {
		err = c.encode(o.Out, rules)
	} else {
		for _, r := range rules {
			fmt.Fprintf(o.Out, "%-24s %-8s %s\n", r.ID, r.Severity, safetext.Line(r.Title))
		}
	}
	for _, m := range mistakes {
		fmt.Fprintln(o.Err, safetext.Lines(m))
	}
	if err != nil || len(mistakes) == 0 {
		return err
	}
	return &exitError{code: ExitFailed}
}

// ownRules lists the rules of the workspaces. A folder without a fleet has none, as far as its policy can be read.
func ownRules(ctx context.Context, s *app.Session, tree gitstore.Hash) ([]policy.Rule, []string, error) {
	rules, mistakes, err := s.OwnPolicies().Rules(ctx, tree)
	if problems, ok := errors.AsType[fleet.Problems](err); ok && problems.Absent() {
		return nil, nil, nil
	}
	return rules, mistakes, err
}

func newPolicyTest(o IO) *cobra.Command {
	var k common
	var run, name string
	c := &cobra.Command{
		Use: "test", Short: "Run the tests of the fleet's own rules (policy/*_test.rego)",
		Long: `Runs the rules named test_… in policy/*.rego, as conftest verify and opa test do, with the fleet's own rules and with
data.sluice.parameters. Tests supply other facts themselves: with data.sluice.cluster as {…}. --workspace runs those of the
policy that a workspace has of its own.

Exit status: 0; 1 if a test fails or the policy does not compile.`,
		Example: "  sluice policy test\n  sluice policy test --run deny_latest\n  sluice policy test --workspace team-a",
		Args:    noArgs("select tests with --run"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.check(); err != nil {
				return err
			}
			return k.policyTest(c.Context(), o, name, run)
		},
	}
	k.readFlags(c, "text", "json")
	c.Flags().StringVar(&name, "workspace", "", "run the tests of the own policy of this `workspace`")
	c.Flags().StringVar(&run, "run", "", "only tests whose name matches this regular `expression`")
	return c
}

func (c *common) policyTest(ctx context.Context, o IO, name, run string) error {
	s, tree, err := openTree(ctx, o, c, "")
	if err != nil {
		return err
	}
	defer s.Close()
	results, err := testPolicy(ctx, s, tree, name, run)
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

func testPolicy(ctx context.Context, s *app.Session, tree gitstore.Hash, name, run string) (results []policy.TestResult,
	err error,
) {
	if name != "" {
		results, err = s.OwnPolicies().Test(ctx, tree, name, run)
	} else {
		results, err = s.TestPolicy(ctx, tree, run)
	}
	if results == nil {
		results = []policy.TestResult{}
	}
	return results, err
}
