package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate"
)

type hydrateOptions struct {
	common
	request hydrate.Request
	commit  string
	push    bool
	dryRun  bool
	remote  string
	signKey string
	listen  string
}

func newHydrate(o IO) *cobra.Command {
	var h hydrateOptions
	c := &cobra.Command{
		Use:   "hydrate",
		Short: "Render a commit and write its environment and cluster branches",
		Long: `Renders every target of a commit whose inputs changed and writes the branches of the environments that follow the
trunk. Other environments are rendered and checked, and written only if --env names them.

Without --push the branches are written in the repository itself. An environment with a target that fails is not written;
the others are.`,
		Example: `  sluice hydrate                              # HEAD, into branches of this repository
  sluice hydrate --push                       # … of the remote origin
  sluice hydrate --env prod --commit v1.2.0
  sluice hydrate --repo https://git.example.com/fleet.git --push --refs-per-push 3
  sluice hydrate --dry-run -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := h.check("text", "json"); err != nil {
				return err
			}
			return h.run(c.Context(), o)
		},
	}
	h.flags(c, "text", "json")
	f := c.Flags()
	f.StringVar(&h.commit, "commit", "", "`revision` to hydrate (default HEAD)")
	f.StringSliceVar(&h.request.Environments, "env", nil, "`environments` to write (default those without `after`)")
	f.BoolVar(&h.push, "push", false, "write the branches of the remote")
	f.StringVar(&h.remote, "remote", "origin", "`name` of the remote that --push writes")
	f.BoolVar(&h.dryRun, "dry-run", false, "say what would be written")
	f.BoolVar(&h.request.NoCache, "no-cache", false, "render every target, also those that a branch holds")
	f.BoolVar(&h.request.Prune, "prune", false, "delete the branches of clusters that are retired or gone")
	f.BoolVar(&h.request.Recreate, "recreate", false, "make branches again that somebody deleted")
	f.BoolVar(&h.request.Overwrite, "overwrite-foreign", false, "put the rendering on top of commits that Sluice did not make")
	f.IntVar(&h.request.MaxDeletions, "max-deletions", 0, "`objects` that may go from one environment (default: what the fleet says)")
	f.IntVar(&h.request.PerPush, "refs-per-push", 0, "most `refs` in one push (default all); GitLab sends webhooks for at most 3")
	f.StringVar(&h.signKey, "sign-key", "", "`file` with the SSH or OpenPGP private key that signs rendered commits, or a .pub file whose key the SSH agent holds")
	receiversFlag(f, &h.listen)
	c.MarkFlagsMutuallyExclusive("push", "dry-run")
	return c
}

func (h *hydrateOptions) run(ctx context.Context, o IO) error {
	s, err := app.Open(ctx, o.Env, h.Options, h.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	if s.IsURL() && !h.push && !h.dryRun {
		return &exitError{ExitUsage, errors.New("a repository at a URL has no place to keep branches: add --push or --dry-run")}
	}
	if h.request.Commit, err = s.Commit(ctx, h.commit); err != nil {
		return err
	}
	if h.push || s.IsURL() {
		if err := s.UseRemote(ctx, h.request.Commit, h.remote); err != nil {
			return err
		}
	}
	if h.listen != "" {
		if err := s.Announce(ctx, h.request.Commit, h.listen, warner(o)); err != nil {
			return &exitError{ExitUsage, err}
		}
	}
	if h.signKey != "" {
		if err := s.UseSigner(h.signKey); err != nil {
			return err
		}
	}
	h.request.Write = !h.dryRun
	result, err := s.Hydrate(ctx, h.request)
	if err != nil {
		return err
	}
	if h.output == "json" {
		err = printJSON(o.Out, result)
	} else {
		showWarnings(o.Err, result.Warnings)
		printResult(o.Out, result)
	}
	if err == nil && !result.OK() {
		err = &exitError{code: ExitFailed}
	}
	return err
}

func receiversFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "receivers", "", "`file` with the receivers of Flux and Argo CD that are told of branches that moved")
}

// warner shows what went wrong beside the work.
func warner(o IO) func(error) {
	return func(err error) { fmt.Fprintf(o.Err, "warning: %v\n", err) }
}

func printResult(w io.Writer, r *hydrate.Result) {
	for i := range r.Environments {
		e := &r.Environments[i]
		fmt.Fprintln(w, e.Summary())
		for _, f := range e.Failures {
			fmt.Fprintf(w, "  failed  %s\n", f.Error())
		}
		for _, warning := range e.Warnings {
			fmt.Fprintf(w, "  note    %s\n", warning)
		}
		if e.New != "" && e.New != e.Old {
			fmt.Fprintf(w, "  %-7s %s → %.10s\n", verb(e.Old, e.New), e.Branch, e.New)
		}
		for _, c := range e.Clusters {
			fmt.Fprintf(w, "  %-7s %s%s\n", verb(c.Old, c.New), c.Branch, arrow(c.New))
		}
	}
}

func verb(old, now string) string {
	switch {
	case now == "":
		return "deleted"
	case old == "":
		return "new"
	default:
		return "moved"
	}
}

func arrow(now string) string {
	if now == "" {
		return ""
	}
	return fmt.Sprintf(" → %.10s", now)
}
