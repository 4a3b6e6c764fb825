package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
	"github.com/sluice-gitops/sluice/service/announce"
)

type hydrateOptions struct {
	common
	request hydrate.Request
	commit  string
	push    bool
	dryRun  bool
	remote  string
	to      string // a place in a registry
	signing signingFlag
	listen  string

	again     bool // render what promoted environments run
	local     bool
	by        string
	selection selection // of a dry run
}

func newHydrate(o IO) *cobra.Command {
	var h hydrateOptions
	c := &cobra.Command{
		Use:   "hydrate",
		Short: "Render a commit and write its environment and cluster branches",
		Long: `Renders every target of a commit whose inputs changed and writes the branches of the environments that follow the trunk.
It renders and checks the other environments too.

Hydrate asks no gate. With --push it therefore never writes an environment with ` + "`after`" + `: "sluice promote ENV" brings a commit there,
also the first one, and "sluice repair ENV" brings back branches that somebody moved. --again renders what such an environment
runs once more, for example with another version of Sluice: never another commit, on the branches of the remote, and through the
environment's gates and waves. It records who asked and why.

Without --push, hydrate writes the branches of this repository, also those of environments that --env names. If a target fails,
hydrate does not write its environment; it writes the others.

Exit status: 0; 1 if hydrate failed or refused to write an environment; with --again also 5 if a red gate or a halt stops it.`,
		Example: `  sluice hydrate                              # HEAD, into branches of this repository
  sluice hydrate --push                       # into branches of the remote origin
  sluice hydrate --dry-run -o json            # what would be written
  sluice hydrate --dry-run --app shop         # the changes of one app
  sluice hydrate --env prod --commit v1.2.0   # into branches of this repository
  sluice hydrate --again --env prod --reason "Sluice 0.3 writes lists in another order"
  sluice hydrate --repo https://git.example.com/fleet.git --push --refs-per-push 3
  sluice hydrate --to oci://registry.example.com/gitops   # no Git repository for the branches`,
		Args: noArgs("name the revision with --commit and the environments with --env"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := h.check(); err != nil {
				return err
			}
			return h.run(c.Context(), o)
		},
	}
	h.flags(c, "text", "json")
	f := c.Flags()
	f.StringVar(&h.commit, "commit", "", "`revision` to hydrate (default HEAD)")
	f.StringSliceVar(&h.request.Environments, "env", nil, "`environments` to write (default: those without `after`)")
	f.BoolVar(&h.push, "push", false, "write the branches of the remote")
	h.remoteFlag(f, &h.remote, "`name` of the remote that --push writes to")
	f.StringVar(&h.to, "to", "", "write the branches and the artifacts to a `place` in a registry, oci://REGISTRY/PATH; the same as --push --remote PLACE")
	f.BoolVar(&h.dryRun, "dry-run", false, "print what would be written, and write nothing")
	f.StringSliceVar(&h.selection.clusters, "cluster", nil, "with --dry-run, only these `clusters`")
	f.StringSliceVar(&h.selection.apps, "app", nil, "with --dry-run, only these `apps`")
	f.BoolVar(&h.request.NoCache, "no-cache", false, "render every target, and reuse no output of the branches")
	f.BoolVar(&h.request.Prune, "prune", false, "delete the branches of retired and removed clusters")
	f.StringSliceVar(&h.request.AllowUnmerged, "allow-unmerged", nil,
		"`environments` that --push may write from a commit that the remote's trunk does not contain; recorded in the commits")
	f.StringSliceVar(&h.request.AllowPolicy, "allow-policy", nil,
		"policy `rules` whose violations are written all the same; needs --reason and is recorded in the commits")
	f.StringVar(&h.request.Reason, "reason", "", "`text` that says why --allow-policy or --again is right")
	f.BoolVar(&h.again, "again", false, "render again what the environments of --env run; needs --reason")
	f.BoolVar(&h.local, "local", false, "with --again, work on the branches of this clone")
	f.StringVar(&h.by, "by", "", "with --again, the `name` of the author of the command")
	f.BoolVar(&h.request.Recreate, "recreate", false, "create branches again that were deleted; those of a promoted environment come back with sluice repair")
	f.BoolVar(&h.request.Overwrite, "overwrite-foreign", false, "commit on top of commits that Sluice did not make")
	amountVar(f, &h.request.MaxDeletions, "max-deletions", 0,
		"limit of `objects` deleted from one environment (default: the fleet's setting)")
	amountVar(f, &h.request.PerPush, "refs-per-push", 0,
		"limit of `refs` in one push (default: no limit); GitLab sends webhooks for at most 3")
	h.signing.flag(f)
	receiversFlag(f, &h.listen)
	c.MarkFlagsMutuallyExclusive("push", "dry-run")
	c.MarkFlagsMutuallyExclusive("to", "remote")
	c.MarkFlagsMutuallyExclusive("to", "dry-run")
	c.MarkFlagsMutuallyExclusive("to", "local")
	return c
}

func (h *hydrateOptions) run(ctx context.Context, o IO) error {
	if err := h.checkFlags(); err != nil {
		return err
	}
	if h.again {
		return h.renderAgain(ctx, o)
	}
	if err := h.signing.sign(o, &h.Options); err != nil {
		return err
	}
	h.Renders = true
	s, err := app.Open(ctx, o.Env, h.Options, h.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	if s, err = h.configure(ctx, o, s); err != nil {
		return err
	}
	if !h.selection.empty() {
		return h.preview(ctx, o, s)
	}
	h.request.Write = !h.dryRun
	return h.write(ctx, o, s)
}

// checkFlags refuses flags that contradict each other.
func (h *hydrateOptions) checkFlags() error {
	if h.to != "" {
		if err := fleet.CheckRegistry(h.to); err != nil {
			return usagef("--to: %w, such as oci://registry.example.com/gitops", err)
		}
		h.Output, h.push = h.to, true
	}
	if h.again {
		return h.checkAgain()
	}
	if h.Output != "" && !h.push && !h.dryRun {
		return usagef("without --push, hydrate writes the branches of this clone, and no registry: use --to %s", h.Output)
	}
	if h.local || h.by != "" {
		return usagef("--local and --by need --again")
	}
	if !h.selection.empty() && !h.dryRun {
		return usagef("--app and --cluster need --dry-run: an environment is always written as a whole")
	}
	if (len(h.request.AllowPolicy) > 0) != (strings.TrimSpace(h.request.Reason) != "") {
		return usagef("--allow-policy RULE and --reason TEXT belong together")
	}
	return nil
}

// write hydrates and prints the result.
func (h *hydrateOptions) write(ctx context.Context, o IO, s *app.Session) error {
	result, err := s.Hydrate(ctx, h.request)
	if err != nil {
		return err
	}
	if !h.structured() {
		showWarnings(o.Err, result.Warnings)
		printResult(o.Out, result)
	}
	published, lacking := h.publish(ctx, o, s)
	if h.structured() {
		err = h.encode(o.Out, hydrateResult{result, published})
	}
	if err == nil && !result.OK() {
		err = &exitError{code: ExitFailed}
	}
	return errors.Join(err, lacking)
}

// hydrateResult is the JSON output.
type hydrateResult struct {
	*hydrate.Result
	Artifacts *artifacts.Result `json:"artifacts,omitempty"`
}

// publish pushes the artifacts of the branches of a remote, also those of a later commit whose run could not.
func (h *hydrateOptions) publish(ctx context.Context, o IO, s *app.Session) (*artifacts.Result, error) {
	if !h.push {
		return nil, nil //nolint:nilnil // nothing is published
	}
	w := o.Out
	if h.structured() {
		w = io.Discard
	}
	return publishArtifacts(ctx, w, s, h.request.Commit.Tree, h.remote)
}

// configure completes the request and returns the session with the remote and the receivers in the flags.
func (h *hydrateOptions) configure(ctx context.Context, o IO, s *app.Session) (*app.Session, error) {
	var err error
	if s.IsURL() && !h.push && !h.dryRun {
		return nil, usagef("%s is a URL, and branches cannot be written locally: add --push or --dry-run", h.Repo)
	}
	if h.request.Commit, err = s.Commit(ctx, h.commit); err != nil {
		return nil, err
	}
	// Whether files of the working tree differ and what the fleet is are read at the same time: both grow with the
	// number of files.
	var modified bool
	var unknown error
	var group sync.WaitGroup
	group.Go(func() { modified, unknown = h.modified(ctx, s) })
	err = h.checkNames(ctx, s)
	group.Wait()
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unknown != nil: // only a warning depends on it, and an image of Sluice has no git
		warner(o)(fmt.Errorf("sluice cannot tell whether the working tree has changes that are not committed: %w",
			unknown))
	case modified:
		fmt.Fprintf(o.Err, "warning: the working tree has changes that are not committed: sluice hydrates commit %s without them\n", h.request.Commit.Hash.Short())
	}
	if h.push || h.Output != "" || s.IsURL() {
		if s, err = s.WithRemote(ctx, h.request.Commit, h.remote); err != nil {
			return nil, withoutRemote(err, "without --push, hydrate writes the branches of this clone")
		}
	}
	if h.listen != "" {
		tell, err := o.Env.Announce(h.listen, warner(o))
		if err != nil {
			return nil, &exitError{ExitUsage, err}
		}
		s = announce.Pushes(ctx, s, h.request.Commit.Tree, tell)
	}
	return s, nil
}

// checkNames returns a usage error for environments that the fleet does not have.
func (h *hydrateOptions) checkNames(ctx context.Context, s *app.Session) error {
	f, _, err := s.Fleet(ctx, h.request.Commit.Tree)
	if err != nil {
		return err
	}
	h.selection.environments = slices.Concat(h.request.Environments, h.request.AllowUnmerged)
	return h.selection.check(f)
}

// preview shows what a run would change in the selected targets: it compares them with the branches.
func (h *hydrateOptions) preview(ctx context.Context, o IO, s *app.Session) error {
	f, _, err := s.Fleet(ctx, h.request.Commit.Tree)
	if err != nil {
		return err
	}
	environments := h.request.Environments
	for _, e := range f.Spec.Environments {
		if len(h.request.Environments) == 0 && len(e.After) == 0 {
			environments = append(environments, e.Name)
		}
	}
	result, err := review.Local{Session: s}.Review(ctx, review.Request{Request: compare.Request{
		Against: compare.AgainstBranches, Head: h.request.Commit, Environments: environments, Apps: h.selection.apps,
		Clusters: h.selection.clusters, Key: s.FingerprintKey(),
	}})
	if err != nil {
		return err
	}
	r := result.Review
	r.Against = strings.Join(environments, ", ")
	show := reviewFlags{common: h.common}
	if err := show.show(o, r); err != nil {
		return err
	}
	if r.Verdict == report.VerdictError {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// modified reports whether the working tree differs from HEAD, of which only the commit is hydrated.
func (h *hydrateOptions) modified(ctx context.Context, s *app.Session) (bool, error) {
	if h.commit != "" || s.IsURL() || s.Store.Worktree() == "" {
		return false, nil
	}
	return worktree.Modified(ctx, s.Store, h.request.Commit.Tree)
}

func receiversFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "receivers", "",
		"notify the receivers of Flux and Argo CD listed in this `file` when branches move")
}

// warner returns a function that prints errors that do not stop the command.
func warner(o IO) func(error) {
	return func(err error) { fmt.Fprintf(o.Err, "warning: %s\n", safetext.Line(err.Error())) }
}

// printResult prints each environment and every branch that moved, then the violations, failures and notes of all
// environments, each distinct one once.
func printResult(w io.Writer, r *hydrate.Result) {
	var violations []hydrate.Violation
	var failures []hydrate.Failure
	var notes []hydrate.Note
	for i := range r.Environments {
		e := &r.Environments[i]
		fmt.Fprintln(w, safetext.Line(e.Summary()))
		for _, x := range e.Exceptions {
			fmt.Fprintf(w, "  exception: %s\n", safetext.Line(x))
		}
		violations, failures, notes = append(violations, e.Violations...), append(failures, e.Failures...),
			append(notes, e.Notes...)
		for _, h := range e.Held {
			violations, failures = append(violations, h.Violations...), append(failures, h.Failures...)
		}
		if e.New != "" && e.New != e.Old {
			fmt.Fprintf(w, "  %-7s %s → %.10s\n", moveVerb(e.Old, e.New), e.Branch, e.New)
		}
		for _, c := range e.Clusters {
			fmt.Fprintf(w, "  %-7s %s%s\n", moveVerb(c.Old, c.New), c.Branch, arrow(c.New))
		}
	}
	printViolations(w, violations)
	printFailures(w, failures, "")
	printNotes(w, hydrate.MergeNotes(notes), "")
}

// moveVerb describes what happened to a branch.
func moveVerb(before, after string) string {
	switch {
	case after == "":
		return "deleted"
	case before == "":
		return "new"
	default:
		return "moved"
	}
}

func arrow(after string) string {
	if after == "" {
		return ""
	}
	return fmt.Sprintf(" → %.10s", after)
}
