package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
	"github.com/sluice-gitops/sluice/service/announce"
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
	signing     signingFlag // of what a push to the trunk writes
	perPush     int
	url         string
	listen      string
	isolation   string
	companion   companion
}

func newCI(o IO) *cobra.Command {
	var c ciOptions
	cmd := &cobra.Command{
		Use:   "ci",
		Short: "Review a merge request, or hydrate the trunk, in GitHub Actions, GitLab CI, Gitea Actions or Woodpecker",
		Long: `Reads from the variables of the CI system what the job runs for.

For a merge request, it renders and compares both sides, evaluates the policy of the trunk, and writes the reports into
a folder and the job's summary, one comment on the merge request, and a commit status or check run. The status of a merge
request into another branch than the trunk has that branch in its name. A shallow clone is enough: sluice fetches what is
missing. For the merge request of a fork it writes the reports and nothing on the forge.

For a push to the trunk, it hydrates and pushes the branches.

With --fleet and --as it runs in a repository that a fleet takes content from (kind: Repository). It shows what a merge request
there does to the trunk of the fleet, and does nothing for a push.

The credential is GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN (SLUICE_FORGE_TOKEN overrides them). GitLab's CI_JOB_TOKEN cannot
write comments. With --no-comment and --no-status no token is needed. Worker processes without credentials and network read and
render the merge request (--isolation). Every flag can be set by a variable: SLUICE_CI_COMMENT_ID
is --comment-id.

Exit status: 0; 1 if a target could not be rendered or the policy forbids the change.`,
		Example: `  sluice ci
  sluice ci --artifacts reports --checks
  sluice ci --no-comment --no-status     # only writes the reports to files
  sluice ci --no-hydrate                 # only reviews
  sluice ci --fleet https://github.com/acme/fleet --as components`,
		Args: noArgs(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnv(cmd, "SLUICE_CI_", o.Env.Getenv); err != nil {
				return err
			}
			if err := c.check(); err != nil {
				return err
			}
			mode, err := worker.ParseMode(c.isolation)
			if err != nil {
				return usagef("--isolation: %v", err)
			}
			c.Isolation = mode
			if err := c.companion.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), o)
		},
	}
	c.add(cmd)
	c.selection.environmentFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&c.artifacts, "artifacts", "sluice-review", "`folder` for the reports; \"\" writes none")
	f.StringVar(&c.context, "context", "sluice", "`name` of the commit status or check run")
	f.StringVar(&c.id, "comment-id", "", "`name` that distinguishes several comments on one merge request")
	receiversFlag(f, &c.listen)
	f.StringVar(&c.companion.fleet, "fleet", "",
		"`URL` of a fleet that takes content from this repository: review what the merge request does there")
	f.StringVar(&c.companion.name, "as", "", "`name` that the fleet gives to this repository")
	f.StringVar(&c.url, "report-url", "", "`URL` of the full report (default: the job's)")
	f.StringVar(&c.isolation, "isolation", string(worker.Degraded),
		"confinement of the worker processes that read the merge request: required, degraded or off")
	f.BoolVar(&c.noComment, "no-comment", false, "write no comment")
	f.BoolVar(&c.noStatus, "no-status", false, "write no commit status")
	f.BoolVar(&c.checks, "checks", false, "write a check run with annotations instead of a status, if the token may")
	f.BoolVar(&c.drafts, "drafts", true, "review drafts")
	f.BoolVar(&c.noHydrate, "no-hydrate", false, "do nothing for a push to the trunk")
	f.StringSliceVar(&c.hydrateEnvs, "hydrate-env", nil,
		"`environments` to write on the trunk (default: those without `after`)")
	amountVar(f, &c.perPush, "refs-per-push", 0,
		"limit of `refs` in one push (default: no limit); GitLab sends webhooks for at most 3")
	c.signing.flag(f)
	return cmd
}

// fromEnv sets flags that the call does not set from variables. Actions and job templates pass their inputs as
// variables, because a shell would interpret arguments.
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
	//nolint:gosec // GITHUB_EVENT_PATH
	at, err := ci.Detect(o.Env.Getenv, func(name string) ([]byte, error) { return os.ReadFile(name) })
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	own := o.Env
	o.Env = o.Env.ForCI(at)
	if c.Repo == "." && at.Workspace != "" {
		c.Repo = at.Workspace
	}
	switch at.Kind {
	case ci.Nothing:
		fmt.Fprintln(o.Out, "nothing to do: "+at.Reason)
		return nil
	case ci.Trunk:
		if c.companion.fleet != "" {
			fmt.Fprintln(o.Out, "nothing to do: --fleet only reviews merge requests")
			return nil
		}
		return c.trunk(ctx, o, at)
	}
	f, err := c.forge(o, at)
	if err != nil {
		return err
	}
	mr, err := c.mergeRequest(ctx, f, at)
	if err != nil {
		return credentialHint(at, err)
	}
	if at.Kind != ci.Queue && mr == nil {
		fmt.Fprintf(o.Out, "nothing to do: no open merge request has the head %.10s\n", at.Head)
		return nil
	}
	if mr != nil && mr.Draft && !c.drafts {
		fmt.Fprintln(o.Out, "nothing to do: the merge request is a draft")
		return nil
	}
	if f == nil && at.System == ci.Woodpecker { // its variables do not say whether the merge request is of a fork
		at.Fork = true
	}
	o.Env = own.ForCI(at) // the forge may have told that it is one
	return c.reviewMergeRequest(ctx, o, own, at, f, mr)
}

// mergeRequest asks the forge for the merge request. Without a forge it returns the data of the event. nil means that
// the commit has no merge request.
func (c *ciOptions) mergeRequest(ctx context.Context, f app.Forge, at *ci.Context) (*forge.MergeRequest, error) {
	if at.Kind == ci.Queue {
		return nil, nil //nolint:nilnil // a candidate of a merge queue is several merge requests
	}
	fromEvent := &forge.MergeRequest{
		Number: at.MergeRequest, Head: at.Head, TargetBranch: at.Target, Draft: at.Draft,
		Fork: at.Fork, State: forge.Open,
	}
	if f == nil {
		return fromEvent, nil
	}
	repo := forge.Repository{Path: at.Repository}
	if at.MergeRequest != 0 {
		mr, err := f.MergeRequest(ctx, repo, at.MergeRequest)
		if err == nil {
			at.Target, at.Fork = mr.TargetBranch, mr.Fork || at.Fork
			return mr, nil
		}
		// The job of a fork may not even have the right to read. The data of the event suffice for a report.
		if at.Fork && (errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrUnauthorized) ||
			errors.Is(err, forge.ErrNotFound)) {
			return fromEvent, nil
		}
		return nil, fmt.Errorf("merge request %d: %w", at.MergeRequest, err)
	}
	open, err := f.OpenMergeRequests(ctx, repo, "")
	if err != nil {
		return nil, fmt.Errorf("open merge requests: %w", err)
	}
	for _, mr := range open {
		if mr.Head == at.Head {
			at.MergeRequest, at.HeadRef, at.Target = mr.Number, f.MergeRequestRef(mr.Number), mr.TargetBranch
			return mr, nil
		}
	}
	return nil, nil //nolint:nilnil // closed, or pushed to again
}

func (c *ciOptions) reviewMergeRequest(ctx context.Context, o IO, own app.Environment, at *ci.Context, f app.Forge,
	mr *forge.MergeRequest,
) error {
	c.Detect = true // a review writes no branches
	s, err := app.Open(ctx, o.Env, c.Options, c.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	s, request, trunk, err := c.reviewSides(ctx, o, own, s, at)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Store.RemoteURL() != "" {
		c.fromRemote = true
	}
	// from the trunk: a merge request must not choose the branches to read
	if s, err = c.useRemote(ctx, s, trunk.commit); err != nil {
		return err
	}
	workers, stop, err := review.StartWorkers(ctx, s.Runtime.Child, c.Isolation)
	if err != nil {
		return err
	}
	defer stop()
	result, err := review.Isolated(review.Local{Session: s}, workers, at.Repository).Review(ctx, review.Request{
		Request: request, Policy: trunk.commit.Tree, BoundsOnly: c.noPolicy, Offline: c.offline,
		Images: !c.offline && (mr == nil || !mr.Fork),
	})
	if err != nil {
		return err
	}
	r := result.Review
	c.context = publish.ContextFor(c.context, trunk.name, at.Target)
	r.Head = at.Head // the commits of a companion exist only in this clone
	r.Repository, r.Links.Artifact = at.Repository, at.RunURL
	if c.url != "" {
		r.Links.HTML = c.url
	}
	if mr != nil {
		r.MergeRequest = report.MergeRequest{Number: mr.Number, URL: mr.URL, Title: mr.Title, Forge: string(at.Forge)}
	}
	asked := c.triage(ctx, o, s, at, f, mr, r, trunk)
	if err := c.writeReports(o, at, r); err != nil {
		return err
	}
	if err := c.publish(ctx, o, at, f, mr, r, asked); err != nil {
		return err
	}
	if r.Verdict == report.VerdictError || r.Verdict == report.VerdictFail {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// ciTrunk is the trunk of the reviewed fleet. Its policy applies, whatever the target branch of the merge request is.
type ciTrunk struct {
	commit gitstore.Commit
	name   string // "" if it is unknown, or if the trunk belongs to another repository
}

// trunkFor determines the trunk as the service does. If the job cannot read the remote's default branch, the target
// branch counts as the trunk if its own fleet says so.
func (c *ciOptions) trunkFor(ctx context.Context, o IO, s *app.Session, at *ci.Context,
	target gitstore.Commit,
) (ciTrunk, error) {
	tip, name, err := s.TrunkTip(ctx)
	switch {
	case err == nil && name != "":
		return ciTrunk{tip, name}, nil
	case err == nil: // the default branch has no fleet
		return ciTrunk{commit: target}, nil
	}
	f, _, second := s.Fleet(ctx, target.Tree)
	if second != nil || f.Spec.Trunk != at.Target {
		return ciTrunk{}, fmt.Errorf("trunk of the remote, whose policy applies: %w", err)
	}
	warner(o)(fmt.Errorf("the default branch cannot be read; %s is taken as the trunk: %w", at.Target, err))
	return ciTrunk{target, at.Target}, nil
}

// sides returns base and head, and the current target branch.
func (c *ciOptions) sides(ctx context.Context, s *app.Session, at *ci.Context) (compare.Request, gitstore.Commit,
	error,
) {
	out := compare.Request{Environments: c.selection.environments, Key: s.FingerprintKey()}
	var err error
	if out.Head, err = s.FetchCommit(ctx, at.Head, at.HeadRef); err != nil {
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

// trunk hydrates the commit of the job and pushes the branches, if the branch of the job is the trunk.
func (c *ciOptions) trunk(ctx context.Context, o IO, at *ci.Context) error {
	c.Detect = true // to tell a repository of another tool, for which nothing is written, from one without a fleet
	if err := c.signing.sign(o, &c.Options); err != nil {
		return err
	}
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
	case f.Detected:
		fmt.Fprintln(o.Out, "nothing to do: the repository has no sluice.yaml, so no branches are written (`sluice import --detect --write` makes one)")
		return nil
	case at.Target != trunk:
		fmt.Fprintf(o.Out, "nothing to do: %s is not the trunk (%s)\n", at.Target, trunk)
		return nil
	case c.noHydrate:
		fmt.Fprintln(o.Out, "nothing to do: --no-hydrate")
		return nil
	}
	if s, err = s.WithRemote(ctx, commit, c.remote); err != nil {
		return err
	}
	if c.listen != "" {
		tell, err := o.Env.Announce(c.listen, warner(o))
		if err != nil {
			return &exitError{ExitUsage, err}
		}
		s = announce.Pushes(ctx, s, commit.Tree, tell)
	}
	result, err := s.Hydrate(ctx, hydrate.Request{
		Commit: commit, Write: true, Environments: c.hydrateEnvs,
		PerPush: c.perPush,
	})
	if err != nil {
		return err
	}
	showWarnings(o.Err, result.Warnings)
	printResult(o.Out, result)
	_, lacking := publishArtifacts(ctx, o.Out, s, commit.Tree, c.remote)
	if !result.OK() {
		return errors.Join(&exitError{code: ExitFailed}, lacking)
	}
	return lacking
}
