package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

type ciOptions struct {
	reviewFlags
	artifacts   string
	context     string
	id          string
	noComment   bool
	noStatus    bool
	checks      bool
	drafts      bool
	noHydrate   bool
	hydrateEnvs []string
	perPush     int
	url         string
	listen      string
}

func newCI(o IO) *cobra.Command {
	var c ciOptions
	cmd := &cobra.Command{
		Use:   "ci",
		Short: "Review a merge request, or hydrate the trunk, in GitHub Actions or GitLab CI",
		Long: `Finds out from the CI system's variables what it runs for.

For a merge request: renders and compares both sides, judges by the target branch's policy, writes the reports into a
folder and the job's summary, one comment on the merge request, and a commit status or check run. A shallow clone will
do: what is missing is fetched. For a fork's merge request nothing is written to the forge, since the job may not.

For a push to the trunk: hydrates and pushes the branches.

The credential is GITHUB_TOKEN, or GITLAB_TOKEN (the job's own token cannot comment). Every flag can be given as a variable too:
SLUICE_CI_COMMENT_ID is --comment-id. Exit status: 0; 1 if something could
not be rendered or policy forbids the change.`,
		Example: `  sluice ci
  sluice ci --artifacts reports --checks
  sluice ci --no-hydrate                 # reviews alone`,
		Args: noArgs(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnv(cmd, "SLUICE_CI_", o.Env.Getenv); err != nil {
				return err
			}
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), o)
		},
	}
	c.add(cmd)
	c.selection.environmentFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&c.artifacts, "artifacts", "sluice-review", "`folder` for the reports; \"\" for none")
	f.StringVar(&c.context, "context", "sluice", "`name` of the commit status or check run")
	f.StringVar(&c.id, "comment-id", "", "`name` that tells several comments on one merge request apart")
	receiversFlag(f, &c.listen)
	f.StringVar(&c.url, "report-url", "", "`URL` of the full report (default: the run's)")
	f.BoolVar(&c.noComment, "no-comment", false, "write no comment")
	f.BoolVar(&c.noStatus, "no-status", false, "write no commit status")
	f.BoolVar(&c.checks, "checks", false, "write a check run with annotations instead of a status, where the token may")
	f.BoolVar(&c.drafts, "drafts", true, "review drafts")
	f.BoolVar(&c.noHydrate, "no-hydrate", false, "do nothing on the trunk")
	f.StringSliceVar(&c.hydrateEnvs, "hydrate-env", nil, "`environments` to write on the trunk (default those without `after`)")
	f.IntVar(&c.perPush, "refs-per-push", 0, "most `refs` in one push (default all); GitLab sends webhooks for at most 3")
	return cmd
}

// fromEnv sets the flags that the call leaves out from variables: an action and a template of a job hand their inputs over so,
// without a shell that could read more into them.
func fromEnv(cmd *cobra.Command, prefix string, getenv func(string) string) error {
	var first error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := getenv(name)
		if f.Changed || value == "" || first != nil {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			first = &exitError{ExitUsage, fmt.Errorf("%s: %w", name, err)}
		}
	})
	return first
}

func (c *ciOptions) run(ctx context.Context, o IO) error {
	at, err := ci.Detect(o.Env.Getenv, func(name string) ([]byte, error) { return os.ReadFile(name) }) //nolint:gosec // GITHUB_EVENT_PATH
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	o.Env = o.Env.ForCI(at)
	if c.Repo == "." && at.Workspace != "" {
		c.Repo = at.Workspace
	}
	switch at.Kind {
	case ci.Nothing:
		fmt.Fprintln(o.Out, "nothing to do: "+at.Reason)
		return nil
	case ci.Trunk:
		return c.trunk(ctx, o, at)
	}
	f, err := o.Env.Forge(at)
	if err != nil {
		return err
	}
	repo := forge.Repository{Path: at.Repository}
	mr, err := c.mergeRequest(ctx, f, repo, at)
	if err != nil {
		return err
	}
	if at.Kind != ci.Queue && mr == nil {
		fmt.Fprintf(o.Out, "nothing to do: no open merge request has the head %.10s\n", at.Head)
		return nil
	}
	if mr != nil && mr.Draft && !c.drafts {
		fmt.Fprintln(o.Out, "nothing to do: the merge request is a draft")
		return nil
	}
	return c.reviewMergeRequest(ctx, o, at, f, mr)
}

// mergeRequest asks the forge for the merge request; nil if there is none for the commit.
func (c *ciOptions) mergeRequest(ctx context.Context, f app.Forge, repo forge.Repository, at *ci.Context) (*forge.MergeRequest, error) {
	if at.Kind == ci.Queue {
		return nil, nil //nolint:nilnil // a candidate of a queue is several merge requests
	}
	if at.MergeRequest != 0 {
		mr, err := f.MergeRequest(ctx, repo, at.MergeRequest)
		if err == nil {
			at.Target, at.Fork = mr.TargetBranch, mr.Fork || at.Fork
			return mr, nil
		}
		// A fork's job may not even read: what the event says is enough for a report.
		if at.Fork && (errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrUnauthorized) || errors.Is(err, forge.ErrNotFound)) {
			return &forge.MergeRequest{Number: at.MergeRequest, Head: at.Head, TargetBranch: at.Target, Draft: at.Draft, Fork: true, State: forge.Open}, nil
		}
		return nil, fmt.Errorf("merge request %d: %w", at.MergeRequest, err)
	}
	open, err := f.OpenMergeRequests(ctx, repo, "")
	if err != nil {
		return nil, fmt.Errorf("open merge requests: %w", err)
	}
	for _, mr := range open {
		if mr.Head == at.Head {
			at.MergeRequest, at.Target = mr.Number, mr.TargetBranch
			return mr, nil
		}
	}
	return nil, nil //nolint:nilnil // closed by now, or pushed to again
}

func (c *ciOptions) reviewMergeRequest(ctx context.Context, o IO, at *ci.Context, f app.Forge, mr *forge.MergeRequest) error {
	s, err := app.Open(ctx, o.Env, c.Options, c.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	request, target, err := c.sides(ctx, s, at, f)
	if err != nil {
		return err
	}
	if s.Store.RemoteURL() != "" {
		c.fromRemote = true
	}
	if err := c.useRemote(ctx, s, target); err != nil { // never where the merge request says that the branches are
		return err
	}
	r, err := c.review(ctx, s, request, target.Tree)
	if err != nil {
		return err
	}
	r.Repository, r.Links.Artifact = at.Repository, at.RunURL
	if c.url != "" {
		r.Links.HTML = c.url
	}
	if mr != nil {
		r.MergeRequest = report.MergeRequest{Number: mr.Number, URL: mr.URL, Title: mr.Title, Forge: string(at.System)}
	}
	if err := c.writeReports(o, at, r); err != nil {
		return err
	}
	if err := c.publish(ctx, o, at, f, mr, r); err != nil {
		return err
	}
	if r.Verdict == report.VerdictError || r.Verdict == report.VerdictFail {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// sides finds base and head, and the target branch as it is now: its policy judges.
func (c *ciOptions) sides(ctx context.Context, s *app.Session, at *ci.Context, f app.Forge) (hydrate.CompareRequest, gitstore.Commit, error) {
	out := hydrate.CompareRequest{Environments: c.selection.environments, Key: s.FingerprintKey()}
	var err error
	ref := ""
	if at.MergeRequest != 0 {
		ref = f.MergeRequestRef(at.MergeRequest)
	}
	if out.Head, err = s.FetchCommit(ctx, at.Head, ref); err != nil {
		return out, gitstore.Commit{}, fmt.Errorf("head %.10s: %w", at.Head, err)
	}
	target, err := s.FetchRef(ctx, "refs/heads/"+at.Target)
	if err != nil && at.Base != "" {
		target, err = s.FetchCommit(ctx, at.Base, "")
	}
	if err != nil {
		return out, target, fmt.Errorf("target branch %s: %w", at.Target, err)
	}
	out.Base, err = s.MergeBase(ctx, target, out.Head)
	return out, target, err
}

// writeReports puts the reports where the CI system keeps them.
func (c *ciOptions) writeReports(o IO, at *ci.Context, r *report.Review) error {
	if c.artifacts != "" {
		if err := os.MkdirAll(c.artifacts, 0o755); err != nil { //nolint:gosec // for the next steps of the job
			return err
		}
		in := func(name string) string { return filepath.Join(c.artifacts, name) }
		files := reportFiles{in("review.md"), in("review.html"), in("review.json"), in("findings.sarif"), in("findings.junit.xml")}
		if err := files.write(r); err != nil {
			return err
		}
	}
	if err := c.files.write(r); err != nil {
		return err
	}
	report.Terminal(o.Out, r, report.TerminalOptions{Color: at.System == ci.GitLabCI, Width: 120, Full: c.full})
	const most = 1 << 20 // bytes that GitHub takes of a summary
	if at.SummaryFile != "" {
		text, _ := report.Markdown(r, most/4)
		if err := appendFile(at.SummaryFile, text+"\n"); err != nil {
			return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
		}
	}
	if at.OutputFile != "" {
		text := fmt.Sprintf("verdict=%s\nchanged=%t\nartifacts=%s\n", r.Verdict, r.Changes != nil && !r.Changes.Empty(), c.artifacts)
		if err := appendFile(at.OutputFile, text); err != nil {
			return fmt.Errorf("GITHUB_OUTPUT: %w", err)
		}
	}
	return nil
}

func appendFile(name, text string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // the CI system names it
	if err != nil {
		return err
	}
	if _, err := io.WriteString(file, text); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// publish writes comment and status, as far as the run may.
func (c *ciOptions) publish(ctx context.Context, o IO, at *ci.Context, f app.Forge, mr *forge.MergeRequest, r *report.Review) error {
	repo := forge.Repository{Path: at.Repository}
	options := publish.Options{ID: c.id, Context: c.context, URL: at.RunURL, Checks: c.checks}
	if at.Fork && at.Kind == ci.Review {
		fmt.Fprintln(o.Out, "a fork's job may not write: the reports are in the job's summary and artifacts")
		return nil
	}
	if mr != nil && !c.noComment {
		outcome, err := publish.Comment(ctx, f, repo, mr, r, options)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "comment: %s\n", outcome)
		if outcome == publish.Superseded {
			return nil
		}
	}
	if c.noStatus {
		return nil
	}
	return publish.Status(ctx, f, repo, r, options)
}

// trunk hydrates and pushes.
func (c *ciOptions) trunk(ctx context.Context, o IO, at *ci.Context) error {
	s, err := app.Open(ctx, o.Env, c.Options, c.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	commit, err := s.FetchCommit(ctx, at.Head, "refs/heads/"+at.Target)
	if err != nil {
		return err
	}
	f, _, err := s.Fleet(ctx, commit.Tree)
	if err != nil {
		return err
	}
	trunk := "main"
	if f.Spec.Trunk != "" {
		trunk = f.Spec.Trunk
	}
	switch {
	case at.Target != trunk:
		fmt.Fprintf(o.Out, "nothing to do: %s is not the trunk, %s\n", at.Target, trunk)
		return nil
	case c.noHydrate:
		fmt.Fprintln(o.Out, "nothing to do: --no-hydrate")
		return nil
	}
	if err := s.UseRemote(ctx, commit, c.remote); err != nil {
		return err
	}
	if c.listen != "" {
		if err := s.Announce(ctx, commit, c.listen, warner(o)); err != nil {
			return &exitError{ExitUsage, err}
		}
	}
	result, err := s.Hydrate(ctx, hydrate.Request{Commit: commit, Write: true, Environments: c.hydrateEnvs, PerPush: c.perPush})
	if err != nil {
		return err
	}
	showWarnings(o.Err, result.Warnings)
	printResult(o.Out, result)
	if !result.OK() {
		return &exitError{code: ExitFailed}
	}
	return nil
}
