package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

type publishOptions struct {
	environmentFlags
	clusters []string
}

func newPublish(o IO) *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "publish",
		Short: "Push the artifacts of cluster branches that the registry lacks",
		Long: `Makes the OCI artifact of every cluster branch of the remote (spec.output.oci), compares it with the registry's, pushes what
is missing or different, and moves the tags to where the branches are. It moves no branch.

hydrate --push, promote, rollback, repair, ci and the service push the artifacts of the branches that they move, and what earlier
runs could not push. Publish is for what they do not look for: an artifact that somebody deleted or overwrote.

An artifact is held, and its tag stays, if the branch has a commit that Sluice did not make, if somebody set the branch back, or
if the branch has something else than its environment records.

Exit status: 0; 1 if the registry lacks an artifact after the run.`,
		Example: `  sluice publish
  sluice publish --cluster eu-west-1a
  sluice publish -o json`,
		Args: noArgs("select with --cluster"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return p.run(c.Context(), o)
		},
	}
	p.readFlags(c, "text", "json")
	f := c.Flags()
	p.remoteFlag(f, &p.remote, "`name` of the remote that has the branches")
	f.StringSliceVar(&p.clusters, "cluster", nil, "`clusters` to publish (default: all)")
	return c
}

func (p *publishOptions) run(ctx context.Context, o IO) error {
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	config, ok, err := published(ctx, s, trunk.Tree, p.remote)
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("the fleet of the trunk has no spec.output.oci, which says where artifacts go")
	}
	if err := (&selection{clusters: p.clusters}).check(config.Fleet); err != nil {
		return err
	}
	result, err := artifacts.Publish(ctx, config, artifacts.Options{Clusters: p.clusters, Rebuild: true})
	if err != nil {
		return err
	}
	if p.structured() {
		err = p.encode(o.Out, result)
	} else {
		printArtifacts(o.Out, result)
	}
	if err == nil && !result.OK() {
		err = &exitError{code: ExitFailed, err: errUnpublished()}
	}
	return err
}

// published says what publishes artifacts: the fleet of the remote's trunk. A commit that the trunk does not contain must choose
// no registry, whatever command it was given to, and no repository whose branches are published. It is false if the fleet of
// the tree or that of the trunk has no artifacts.
func published(ctx context.Context, s *app.Session, tree gitstore.Hash, remote string) (artifacts.Config, bool, error) {
	f, _, err := s.Fleet(ctx, tree)
	if err != nil || !f.Publishes() {
		return artifacts.Config{}, false, err
	}
	trunk, err := s.Hydrator.Trunks(s.Source).Current(ctx, f.Spec.Trunk)
	if err != nil || trunk.Tip.IsZero() {
		return artifacts.Config{}, false, err
	}
	if err := s.Source.Fetch(ctx, trunk.Tip); err != nil {
		return artifacts.Config{}, false, err
	}
	tip, err := s.Store.Commit(ctx, trunk.Tip)
	if err != nil {
		return artifacts.Config{}, false, err
	}
	if tip, _, err = s.Readable(ctx, tip); err != nil {
		return artifacts.Config{}, false, err
	}
	if s, err = s.WithRemote(ctx, tip, remote); err != nil {
		return artifacts.Config{}, false, err
	}
	return artifacts.Of(ctx, s, tip.Tree)
}

// publishArtifacts pushes the artifacts of the branches that a command moved, and prints what it did to w. The error says that
// the registry lacks some: the branches have moved all the same. The result is nil if the fleet has no artifacts.
func publishArtifacts(ctx context.Context, w io.Writer, s *app.Session, tree gitstore.Hash, remote string) (*artifacts.Result,
	error,
) {
	config, ok, err := published(ctx, s, tree, remote)
	if err != nil || !ok {
		return nil, err
	}
	result, err := artifacts.Publish(ctx, config, artifacts.Options{})
	if err != nil {
		return nil, fmt.Errorf("the branches have moved, their artifacts are not pushed: %w", err)
	}
	printArtifacts(w, result)
	if !result.OK() {
		return result, &exitError{code: ExitFailed, err: errUnpublished()}
	}
	return result, nil
}

func errUnpublished() error {
	return errors.New("the registry lacks artifacts; branches are not affected, and the next run pushes what is missing")
}

// printArtifacts prints what a run did, and why artifacts failed or are held.
func printArtifacts(w io.Writer, r *artifacts.Result) {
	if r == nil || r.Summary() == "" {
		return
	}
	fmt.Fprintln(w, safetext.Line(r.Summary()))
	for _, a := range r.Artifacts {
		switch a.Status {
		case artifacts.Failed, artifacts.Held:
			fmt.Fprintf(w, "  %-7s %s: %s\n", a.Status, a.Repository, safetext.Line(a.Reason))
		case artifacts.Pushed:
			fmt.Fprintf(w, "  %-7s %s@%s\n", a.Status, a.Repository, safetext.Line(a.Digest))
		case artifacts.Present:
		}
	}
}
