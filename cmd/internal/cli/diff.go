package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/bot/report/data"
	"github.com/sluice-gitops/sluice/bot/report/page"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// reviewFlags are those of the verbs that make a review.
type reviewFlags struct {
	common
	environments []string
	fromRemote   bool
	remote       string
	noPolicy     bool
	offline      bool
	full         bool
	files        reportFiles
}

// reportFiles are reports that are written beside what is shown.
type reportFiles struct{ markdown, html, json, sarif, junit string }

func (r *reviewFlags) add(cmd *cobra.Command, formats ...string) {
	r.flags(cmd, formats...)
	f := cmd.Flags()
	f.StringSliceVar(&r.environments, "env", nil, "only these `environments`")
	f.BoolVar(&r.fromRemote, "from-remote", false, "take what is rendered already from the branches of the remote")
	f.StringVar(&r.remote, "remote", "origin", "`name` of the remote")
	f.BoolVar(&r.noPolicy, "no-policy", false, "judge nothing")
	f.BoolVar(&r.offline, "offline", false, "fetch no schemas: those that are not in the cache are missing, and said to be")
	f.BoolVar(&r.full, "full", false, "show everything, however long")
	f.StringVar(&r.files.markdown, "markdown-file", "", "write the report as Markdown to this `file` too")
	f.StringVar(&r.files.html, "html-file", "", "… as one HTML page")
	f.StringVar(&r.files.json, "json-file", "", "… as JSON")
	f.StringVar(&r.files.sarif, "sarif-file", "", "… the findings as SARIF 2.1.0")
	f.StringVar(&r.files.junit, "junit-file", "", "… the findings as JUnit XML")
}

type diffOptions struct {
	reviewFlags
	against  string
	exitCode bool
}

// The forms of a review. Without a forge, Markdown has no limit but GitLab's.
const noLimit = 1_000_000

func newDiff(o IO) *cobra.Command {
	var d diffOptions
	c := &cobra.Command{
		Use:   "diff [BASE[..HEAD]]",
		Short: "Show exactly what a change does, on which clusters",
		Long: `Renders both sides of a change, only where their inputs differ, and compares the objects: fields with their paths,
grouped over the clusters on which the change is the same. Secrets are masked.

BASE is where the change begins: HEAD's merge base with it is compared. Without BASE it is the fleet's trunk; without HEAD,
the files as they are. --against compares with what an environment's branch holds instead.

Exit status: 0; 1 if a target could not be rendered or policy forbids the change; with --exit-code, 3 if anything changes.`,
		Example: `  sluice diff                               # the files as they are against the trunk
  sluice diff main..feature
  sluice diff HEAD~1..HEAD -o markdown
  sluice diff --against env/prod            # what a promotion of HEAD to prod would change
  sluice diff --html-file diff.html --full`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.check("text", "markdown", "html", "json"); err != nil {
				return err
			}
			return d.run(c.Context(), o, strings.Join(args, ""))
		},
	}
	d.add(c, "text", "markdown", "html", "json")
	c.Flags().StringVar(&d.against, "against", "", "compare with what this environment's `branch` holds")
	c.Flags().BoolVar(&d.exitCode, "exit-code", false, "end with status 3 if anything changes")
	return c
}

func (d *diffOptions) run(ctx context.Context, o IO, span string) error {
	s, err := app.Open(ctx, o.Env, d.Options, d.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	request, err := d.request(ctx, s, span)
	if err != nil {
		return err
	}
	if err := d.useRemote(ctx, s, request.Head); err != nil {
		return err
	}
	judged := request.Base.Tree
	if request.Against != hydrate.AgainstCommit {
		judged = request.Head.Tree
	}
	r, err := d.review(ctx, s, request, judged)
	if err != nil {
		return err
	}
	if d.against != "" {
		r.Against = d.against
	}
	if err := d.show(o, r); err != nil {
		return err
	}
	return d.status(r)
}

func (d *diffOptions) status(r *report.Review) error {
	switch {
	case r.Verdict == report.VerdictError || r.Verdict == report.VerdictFail:
		return &exitError{code: ExitFailed}
	case d.exitCode && !r.Changes.Empty():
		return &exitError{code: ExitDiffers}
	}
	return nil
}

// request finds both sides of the comparison.
func (d *diffOptions) request(ctx context.Context, s *app.Session, span string) (hydrate.CompareRequest, error) {
	out := hydrate.CompareRequest{Environments: d.environments, Key: s.FingerprintKey()}
	base, head, both := strings.Cut(span, "..")
	if strings.HasPrefix(head, ".") || both && base == "" {
		return out, &exitError{ExitUsage, fmt.Errorf("%q is no BASE..HEAD", span)}
	}
	if d.against != "" && base != "" && both {
		return out, &exitError{ExitUsage, errors.New("--against takes no BASE")}
	}
	if d.against != "" && head == "" {
		head = base // `sluice diff --against env/prod REV`
	}
	var err error
	if out.Head, err = headOf(ctx, s, head, d.Repo); err != nil {
		return out, err
	}
	f, _, err := s.Fleet(ctx, out.Head.Tree)
	if d.against != "" {
		if err != nil {
			return out, err
		}
		out.Against = hydrate.AgainstBranches
		for _, e := range f.Spec.Environments {
			if d.against == e.Name || d.against == f.EnvironmentBranch(e.Name) {
				out.Environments = []string{e.Name}
				return out, nil
			}
		}
		return out, fmt.Errorf("there is no environment with the branch %s: they are in spec.environments of sluice.yaml", d.against)
	}
	if base == "" {
		base = "main"
		if err == nil && f.Spec.Trunk != "" {
			base = f.Spec.Trunk
		}
	}
	out.Base, err = baseOf(ctx, s, base, out.Head)
	return out, err
}

// headOf is a revision, or the files as they are.
func headOf(ctx context.Context, s *app.Session, rev, dir string) (gitstore.Commit, error) {
	if rev != "" || s.Store.Worktree() == "" {
		return s.Commit(ctx, rev)
	}
	head, err := s.Commit(ctx, "HEAD")
	if err != nil {
		return head, err
	}
	if root := s.Store.Worktree(); root != "" {
		dir = root
	}
	tree, err := s.Store.WorkingTree(ctx, dir)
	if err != nil {
		return head, err
	}
	if tree != head.Tree {
		head = gitstore.Commit{Tree: tree, Parents: []gitstore.Hash{head.Hash}}
	}
	return head, nil
}

// baseOf is where a change began: the merge base with a revision.
func baseOf(ctx context.Context, s *app.Session, rev string, head gitstore.Commit) (gitstore.Commit, error) {
	base, err := s.Commit(ctx, rev)
	if err != nil {
		if base, err = s.Commit(ctx, "origin/"+rev); err != nil {
			return base, fmt.Errorf("base %s: %w", rev, err)
		}
	}
	if head.Hash.IsZero() {
		if head, err = s.Store.Commit(ctx, head.Parents[0]); err != nil {
			return base, err
		}
	}
	return s.MergeBase(ctx, base, head)
}

func (r *reviewFlags) useRemote(ctx context.Context, s *app.Session, head gitstore.Commit) error {
	if !r.fromRemote && !s.IsURL() {
		return nil
	}
	return s.UseRemote(ctx, head, r.remote)
}

// review makes the review of a comparison, judged by the policy of a tree.
func (r *reviewFlags) review(ctx context.Context, s *app.Session, request hydrate.CompareRequest, judged gitstore.Hash) (*report.Review, error) {
	o := app.ReviewOptions{Compare: request, Offline: r.offline}
	if !r.noPolicy {
		o.Policy = judged
	}
	out, _, err := s.Review(ctx, o)
	return out, err
}

// show writes a review in the form that was asked for, and the files.
func (r *reviewFlags) show(o IO, rev *report.Review) error {
	if err := r.files.write(rev); err != nil {
		return err
	}
	switch r.output {
	case "markdown":
		text, _ := report.Markdown(rev, noLimit)
		_, err := io.WriteString(o.Out, text+"\n")
		return err
	case "html":
		return page.Write(o.Out, rev)
	case "json":
		return data.JSON(o.Out, rev)
	}
	return o.paged(func(w io.Writer) error {
		report.Terminal(w, rev, report.TerminalOptions{Color: o.color(), Width: o.width(), Full: r.full})
		return nil
	})
}

func (f reportFiles) write(rev *report.Review) error {
	for _, one := range []struct {
		name  string
		write func(io.Writer, *report.Review) error
	}{
		{f.markdown, func(w io.Writer, r *report.Review) error {
			text, _ := report.Markdown(r, noLimit)
			_, err := io.WriteString(w, text+"\n")
			return err
		}},
		{f.html, page.Write},
		{f.json, data.JSON},
		{f.sarif, data.SARIF},
		{f.junit, data.JUnit},
	} {
		if one.name == "" {
			continue
		}
		if err := writeReport(one.name, rev, one.write); err != nil {
			return fmt.Errorf("write %s: %w", one.name, err)
		}
	}
	return nil
}

func writeReport(name string, rev *report.Review, write func(io.Writer, *report.Review) error) error {
	file, err := os.Create(name) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	if err := write(file, rev); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
