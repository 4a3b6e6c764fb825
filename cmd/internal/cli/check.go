package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/data"
	"github.com/sluice-gitops/sluice/review"
)

type checkOptions struct {
	reviewFlags
	strict bool
}

func newCheck(o IO) *cobra.Command {
	var k checkOptions
	c := &cobra.Command{
		Use:   "check [REV]",
		Short: "Evaluate the policy on whole environments",
		Long: `Renders every target that no branch holds yet, and evaluates the policy of the same commit on all objects: the built-in
rules, Rego, ValidatingAdmissionPolicies and exemptions. Without REV, check reads the files of the working tree.

check judges all objects, diff only those that a change adds or changes, and hydrate those that differ from the branch.

Exit status: 0; 1 if a finding has severity error (with --strict, also warning), the policy cannot be loaded, or a target
cannot be rendered.`,
		Example: `  sluice check
  sluice check --env prod --app shop
  sluice check main --sarif-file findings.sarif --junit-file findings.xml
  sluice check -o json | jq -r '.findings.introduced[].rule' | sort | uniq -c`,
		Args: maxArgs("REV"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := k.check(); err != nil {
				return err
			}
			return k.run(c.Context(), o, strings.Join(args, ""))
		},
	}
	k.add(c, "text", "json", "sarif", "junit")
	k.selection.flags(c)
	c.Flags().BoolVar(&k.strict, "strict", false, "fail for warnings too")
	return c
}

func (k *checkOptions) run(ctx context.Context, o IO, rev string) error {
	k.Detect = true // nothing is written
	s, err := app.Open(ctx, o.Env, k.Options, k.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := headOf(ctx, s, rev, k.Repo)
	if err != nil {
		return err
	}
	request := compare.Request{Head: head, Against: compare.AgainstNothing, Key: s.FingerprintKey()}
	if err := k.narrow(ctx, s, head.Tree, &request); err != nil {
		return err
	}
	request.TargetsOnly = true
	environments := review.Request{
		Request: request, Policy: head.Tree, BoundsOnly: k.noPolicy, Offline: k.offline, Entire: true,
	}
	if !k.noPolicy {
		if _, err := s.Policy(ctx, head.Tree, true); err != nil { // before anything is rendered
			return err
		}
	}
	if s, err = k.useRemote(ctx, s, head); err != nil {
		return err
	}
	result, err := review.Local{Session: s}.Review(ctx, environments)
	if err != nil {
		return err
	}
	r := result.Review
	if err := k.files.write(r); err != nil {
		return err
	}
	if err := k.print(o, r); err != nil {
		return err
	}
	if r.Verdict == report.VerdictError || r.Verdict == report.VerdictFail ||
		k.strict && (r.Verdict == report.VerdictWarn || r.Verdict == report.VerdictCaution) {
		return &exitError{code: ExitFailed}
	}
	return nil
}

func (k *checkOptions) print(o IO, r *report.Review) error {
	switch k.output {
	case "json", "yaml":
		return k.document(o.Out, func(w io.Writer) error { return data.JSON(w, r) })
	case "sarif":
		return data.SARIF(o.Out, r)
	case "junit":
		return data.JUnit(o.Out, r)
	}
	for _, e := range r.Errors {
		fmt.Fprintln(o.Err, "sluice: "+safetext.Message(e, failureLines, failureWidth))
	}
	return o.paged(func(w io.Writer) error {
		report.TerminalFindings(w, r, report.TerminalOptions{Color: o.color(), Width: o.width(), Full: k.full})
		return nil
	})
}
