package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/promotions"
)

type bundleDiffOptions struct {
	bundleImportOptions
	page string
	full bool
}

func newBundleDiff(o IO) *cobra.Command {
	var x bundleDiffOptions
	c := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show what a bundle changes at its site",
		Long: `Compares what the environment has at this site with what the bundle brings, object by object and grouped over clusters, as a
review of a merge request does. It checks the bundle as "bundle import" does, and writes nothing.

If the site has the source commit, or the bundle brings it, the site's own policy judges the change. Else the report names the
exceptions from home's policy.

Exit status: 0 if the bundle may be imported; 1 if it is refused, also by the policy.`,
		Example: "  sluice bundle diff gov-0042.sluice --signers signers.yaml\n  sluice bundle diff gov-0042.sluice --signers signers.yaml --html-file diff.html",
		Args:    exactArgs("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := x.check(); err != nil {
				return err
			}
			if err := x.digest.valid(); err != nil {
				return err
			}
			return x.run(c.Context(), o, args[0])
		},
	}
	x.flags(c, "terminal", "markdown", "html", "json")
	x.flagsOf(c)
	c.Flags().StringVar(&x.page, "html-file", "", "also write the report as one HTML page to this `file`")
	c.Flags().BoolVar(&x.full, "full", false, "show all groups and objects")
	c.Flags().BoolVar(&x.noPolicy, "no-policy", false, "do not evaluate the trunk's policy, apart from the bounds of workspaces")
	return c
}

func (x *bundleDiffOptions) run(ctx context.Context, o IO, name string) error {
	file, err := openEnvelope(name)
	if err != nil {
		return err
	}
	defer file.close()
	if err := x.digest.check(file); err != nil {
		return err
	}
	if _, err := x.trust.verified(file.Envelope); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s, site, f, err := x.site(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	opened, err := bundle.Open(ctx, site, file.Envelope)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer opened.Close()
	s.AddMirror(opened.Brought)
	rev, err := x.review(ctx, s, f, file.Envelope, opened)
	if err != nil {
		return err
	}
	if err := (&reviewFlags{common: x.common, full: x.full, files: reportFiles{html: x.page}}).show(o, rev); err != nil {
		return err
	}
	if rev.Verdict == report.VerdictFail || rev.Verdict == report.VerdictError {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// review compares what the site has with what the bundle brings. The fleet is the one that the bundle brings, or that of
// the site.
func (x *bundleDiffOptions) review(ctx context.Context, s *app.Session, f *fleet.Fleet, e *envelope.Envelope,
	b *bundle.Opened,
) (*report.Review, error) {
	trunk, err := x.trunk, error(nil)
	if tip := b.TrunkCommit(); !tip.IsZero() {
		if trunk, err = s.Store.Commit(ctx, tip); err == nil {
			f, _, err = s.Fleet(ctx, trunk.Tree)
		}
	}
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("this site has no fleet file, and the bundle brings none: export with --source")
	}
	ref := f.EnvironmentBranch(e.Environment)
	refs, err := s.Branches.List(ctx, ref)
	if err != nil {
		return nil, err
	}
	st, err := branch.ReadState(ctx, s.Store, ref, e.Environment, refs[ref], f.Signers())
	if err != nil {
		return nil, err
	}
	changes, notes, err := compare.States(ctx, s.Hydrator, compare.StatesRequest{
		Fleet: f, Environment: e.Environment, Before: st.Tip.Tree, After: b.Tip.Tree, Key: s.FingerprintKey(),
	})
	if err != nil {
		return nil, err
	}
	out := &report.Review{
		Fleet: f.Name, Base: st.Tip.Hash.String(), Head: b.Tip.Hash.String(), Version: app.Version(), Changes: changes,
		Verdict: report.VerdictPass,
	}
	if report.Critical(changes) {
		out.Verdict = report.VerdictCaution
	}
	out.Findings.Notes = append(notes, fmt.Sprintf("bundle %d, compared with %s of this site", e.Sequence, ref))
	if b.Rollback != "" {
		out.Findings.Notes = append(out.Findings.Notes, "the bundle is a rollback: "+b.Rollback)
	}
	if b.Policy != nil {
		out.Findings.Notes = append(out.Findings.Notes, "home's policy said: "+b.Policy.String())
	}
	return out, x.judge(ctx, s, trunk, st, b, out)
}

// judge applies the policy of the trunk, where all source commits are known: apps can come from several.
func (x *bundleDiffOptions) judge(ctx context.Context, s *app.Session, trunk gitstore.Commit, st *branch.State, b *bundle.Opened,
	out *report.Review,
) error {
	runs, err := branch.ReadSource(ctx, s.Store, b.Tip.Tree)
	if err != nil {
		return err
	}
	var sources []gitstore.Commit
	for _, text := range runs.Commits() {
		hash, err := gitstore.ParseHash(text)
		if err != nil || !s.Store.Has(hash) {
			x.unjudged(b, out)
			return nil //nolint:nilerr // a commit that nobody has
		}
		commit, err := s.Store.Commit(ctx, hash)
		if err != nil {
			return err
		}
		sources = append(sources, commit)
	}
	then, err := branch.ReadTree(ctx, s.Store, b.Tip.Tree)
	if err != nil {
		return err
	}
	policy := promotions.WithoutForge(s, trunk, x.noPolicy).Policy
	for _, commit := range sources {
		state, why := policy.Judge(ctx, promote.Part{
			Environment: b.Import.Environment, Base: st.Tip.Hash, Source: commit, Rendered: then,
		})
		switch state {
		case rollout.Green:
			continue
		case rollout.Red:
			out.Verdict = report.VerdictFail
			out.Findings.Notes = append(out.Findings.Notes, "the policy refuses it: "+why)
		default:
			out.Verdict, out.Errors = report.VerdictError, append(out.Errors, why)
		}
		return nil
	}
	out.Findings.Notes = append(out.Findings.Notes, "the policy has no objection")
	return nil
}

// unjudged says that the policy did not judge, and what home allowed.
func (*bundleDiffOptions) unjudged(b *bundle.Opened, out *report.Review) {
	out.Verdict, out.Unjudged = report.VerdictCaution, true
	out.Findings.Notes = append(out.Findings.Notes,
		"this site does not have all source commits, so its policy did not judge: a site with a trunk of its own relies on home's gates, any other waits for a bundle with --source")
	for _, p := range b.Promotions {
		for _, exception := range p.Exceptions {
			out.Findings.Notes = append(out.Findings.Notes, "exception from home's policy: "+exception)
		}
	}
}
