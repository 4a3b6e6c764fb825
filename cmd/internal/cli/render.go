package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

type renderOptions struct {
	common
	cluster, app string
	commit, dir  string
}

func newRender(o IO) *cobra.Command {
	var r renderOptions
	c := &cobra.Command{
		Use:   "render --cluster CLUSTER [--app APP]",
		Short: "Print or write what a cluster gets",
		Long: `Renders one cluster, or one app on it, exactly as its branch would have it. Without --commit the files of the working
tree are rendered, committed or not; the folder need not be a Git repository.`,
		Example: `  sluice render --cluster eu-west-1a
  sluice render --cluster eu-west-1a --app shop
  sluice render --cluster eu-west-1a --commit main~1 -o /tmp/before`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := r.check(); err != nil {
				return err
			}
			return r.run(c.Context(), o)
		},
	}
	r.flags(c)
	f := c.Flags()
	f.StringVar(&r.cluster, "cluster", "", "the `cluster` (needed)")
	f.StringVar(&r.app, "app", "", "only this `app`")
	f.StringVar(&r.commit, "commit", "", "`revision` to render (default: the working tree)")
	f.StringVarP(&r.dir, "output", "o", "", "write files into this `folder` instead of printing")
	return c
}

func (r *renderOptions) run(ctx context.Context, o IO) error {
	if r.cluster == "" {
		return &exitError{ExitUsage, errors.New("--cluster is needed: `sluice where` lists the clusters")}
	}
	s, tree, err := openTree(ctx, o, &r.common, r.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	manifests, failures, err := s.Show(ctx, tree, r.cluster, r.app)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if r.dir == "" {
			fmt.Fprintf(o.Out, "---\n# %s\n%s", m.Path, m.Data)
			continue
		}
		file := filepath.Join(r.dir, filepath.FromSlash(m.Path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // manifests are no secret of the user's machine
			return err
		}
		if err := os.WriteFile(file, m.Data, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	for _, f := range failures {
		fmt.Fprintln(o.Err, "failed: "+f.Error())
	}
	if len(failures) > 0 {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// openTree opens what a verb reads: a commit, or the files of a folder.
func openTree(ctx context.Context, o IO, c *common, commit string) (*app.Session, gitstore.Hash, error) {
	open := app.OpenFolder
	if commit != "" {
		open = app.Open
	}
	s, err := open(ctx, o.Env, c.Options, c.progress(o))
	if err != nil {
		return nil, gitstore.Hash{}, err
	}
	if commit != "" {
		found, err := s.Commit(ctx, commit)
		if err != nil {
			s.Close()
		}
		return s, found.Tree, err
	}
	dir := c.Repo
	if root := s.Store.Worktree(); root != "" {
		dir = root
	}
	tree, err := s.Store.WorkingTree(ctx, dir)
	if err != nil {
		s.Close()
	}
	return s, tree, err
}
