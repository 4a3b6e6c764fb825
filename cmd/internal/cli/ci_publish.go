package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/report"
)

// writeReports writes the reports to the folder of artifacts, the log, the job's summary and its outputs.
func (c *ciOptions) writeReports(o IO, at *ci.Context, r *report.Review) error {
	if c.artifacts != "" {
		if err := os.MkdirAll(c.artifacts, 0o755); err != nil { //nolint:gosec // for the next steps of the job
			return err
		}
		in := func(name string) string { return filepath.Join(c.artifacts, name) }
		files := reportFiles{
			in("review.md"), in("review.html"), in("review.json"), in("findings.sarif"),
			in("findings.junit.xml"),
		}
		if err := files.write(r); err != nil {
			return err
		}
	}
	if err := c.files.write(r); err != nil {
		return err
	}
	report.Terminal(o.Out, r, report.TerminalOptions{Color: at.System == ci.GitLabCI, Width: 120, Full: c.full})
	const most = 1 << 20 // GitHub's limit for a summary, in bytes
	if at.SummaryFile != "" {
		text, _ := report.Markdown(r, most/4)
		if err := appendFile(at.SummaryFile, text+"\n"); err != nil {
			return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
		}
	}
	if at.OutputFile != "" {
		text := fmt.Sprintf("verdict=%s\nchanged=%t\nartifacts=%s\n", r.Verdict, r.Changes != nil && !r.Changes.Empty(),
			c.artifacts)
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
		_ = file.Close() // the error of the write is returned
		return err
	}
	return file.Close()
}

// forge returns the forge of the job. It returns nil if the job needs none, because it knows its merge request and
// does not write to the forge.
func (c *ciOptions) forge(o IO, at *ci.Context) (app.Forge, error) {
	silent := c.noComment && c.noStatus || at.Fork && at.Kind == ci.Review
	known := at.Kind == ci.Queue || at.MergeRequest != 0 && at.Target != ""
	if known && silent && (c.noComment && c.noStatus || !hasToken(o, at)) {
		return nil, nil //nolint:nilnil // documented
	}
	if !hasToken(o, at) {
		return nil, usagef("no credential for the forge: %s; or add --no-comment --no-status to write the reports to files only", credential(at))
	}
	f, err := o.Env.Forge(at)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, credential(at))
	}
	return f, nil
}

// hasToken reports whether the job has a credential for the forge's API.
func hasToken(o IO, at *ci.Context) bool {
	return o.Env.ForgeToken(at.Forge) != "" || at.Forge == ci.GitLab && o.Env.Getenv("CI_JOB_TOKEN") != ""
}

// credential describes which variable must hold the credential, and the permissions that it needs.
func credential(at *ci.Context) string {
	switch at.Forge {
	case ci.Gitea:
		return "set GITEA_TOKEN to the token of the job (in a workflow: `GITEA_TOKEN: ${{ gitea.token }}`) or to an access token with the scopes write:repository, write:issue and read:user"
	case ci.GitHub:
		return "set GITHUB_TOKEN (in a workflow: `GITHUB_TOKEN: ${{ github.token }}`), with permissions pull-requests: write and statuses: write"
	}
	return "set GITLAB_TOKEN to a project access token with the scope api, as a masked variable of the project; CI_JOB_TOKEN cannot write comments"
}

// credentialHint names the variable of the credential that the forge refused.
func credentialHint(at *ci.Context, err error) error {
	if errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrUnauthorized) {
		return fmt.Errorf("%w: %s", err, credential(at))
	}
	return err
}

// publish writes the comment and the status. It writes nothing for the merge request of a fork.
func (c *ciOptions) publish(ctx context.Context, o IO, at *ci.Context, f app.Forge, mr *forge.MergeRequest,
	r *report.Review, asked []string,
) error {
	if at.Fork && at.Kind == ci.Review {
		fmt.Fprintln(o.Out, "the job of a fork may not write to the forge: the reports are in the job's summary and artifacts")
		return nil
	}
	repo := forge.Repository{Path: at.Repository}
	options := publish.Options{ID: c.id, Context: c.context, URL: at.RunURL, Checks: c.checks, Asked: asked}
	if mr != nil && !c.noComment {
		outcome, err := publish.Comment(ctx, f, repo, mr, r, options)
		if err != nil {
			return credentialHint(at, err)
		}
		fmt.Fprintf(o.Out, "comment: %s\n", outcome)
		if outcome == publish.Superseded {
			return nil
		}
	}
	if c.noStatus {
		return nil
	}
	return credentialHint(at, publish.Status(ctx, f, repo, r, options))
}
