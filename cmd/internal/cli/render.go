package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/renderer/manifest"
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
		Short: "Print or write the manifests of a cluster",
		Long: `Renders one cluster, or one app on it, exactly as its branch would hold it. Without --commit, it renders
the files of the working tree, committed or not; the folder need not be a Git repository.

Exit status: 0; 1 if a target could not be rendered (render prints the others).`,
		Example: `  sluice render --cluster eu-west-1a
  sluice render --cluster eu-west-1a --app shop | kubectl diff -f -
  sluice render --cluster eu-west-1a -o json | jq '.items[].metadata.name'
  sluice render --cluster eu-west-1a --commit main~1 --out /tmp/before`,
		Args: noArgs("name the cluster with --cluster and the app with --app"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := r.check(); err != nil {
				if !slices.Contains(r.formats, r.output) {
					return usagef("%w; --out writes files into a folder", err)
				}
				return err
			}
			return r.run(c.Context(), o)
		},
	}
	r.flags(c, "yaml", "json")
	r.capabilityFlags(c)
	f := c.Flags()
	f.StringVar(&r.cluster, "cluster", "", "`cluster` to render (required)")
	f.StringVar(&r.app, "app", "", "only this `app`")
	f.StringVar(&r.commit, "commit", "", "`revision` to render (default: the working tree)")
	f.StringVar(&r.dir, "out", "", "write a file for each object into this `folder` instead of printing")
	c.MarkFlagsMutuallyExclusive("out", "output")
	completeFlag(c, "out", completeFolders)
	return c
}

func (r *renderOptions) run(ctx context.Context, o IO) error {
	s, tree, f, err := openFleet(ctx, o, &r.common, r.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	if r.cluster == "" { // after the fleet was read: without one, no cluster helps
		return usagef("--cluster is required: `sluice where` lists the clusters")
	}
	if err := mustKnow("cluster", r.cluster, clusterNames(f)); err != nil {
		return err
	}
	if r.app != "" {
		if err := describesSome(f, r.app); err != nil {
			return err
		}
		if err := mustKnow("app", r.app, appNames(f)); err != nil {
			return err
		}
	}
	shown, err := s.Show(ctx, tree, r.cluster, r.app)
	if err != nil {
		return err
	}
	if err := r.write(o, shown.Manifests); err != nil {
		return err
	}
	printFailures(o.Err, shown.Failures, "")
	if !r.quiet {
		printNotes(o.Err, shown.Notes, "")
		fmt.Fprintln(o.Err, r.total(shown))
	}
	if len(shown.Failures) > 0 {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// total returns the last line of the output: the numbers of rendered and failed apps, and the folder of the files.
func (r *renderOptions) total(shown *hydrate.Shown) string {
	apps := map[string]bool{}
	for _, m := range shown.Manifests {
		apps[appOf(m)] = true
	}
	text := fmt.Sprintf("%s: %s of %s rendered", r.cluster, count(len(shown.Manifests), "object"),
		count(len(apps), "app"))
	if len(shown.Failures) > 0 {
		text += fmt.Sprintf(", %s failed", count(len(shown.Failures), "app"))
	}
	if r.dir != "" {
		text += ", written to " + r.dir
	}
	return text
}

func appOf(m hydrate.Manifest) string {
	app, _, _ := bytes.Cut([]byte(m.Path), []byte("/"))
	return string(app)
}

// write prints manifests as a YAML stream or a JSON List, or writes them to files.
func (r *renderOptions) write(o IO, manifests []hydrate.Manifest) error {
	if r.dir == "" && r.output == "json" {
		return printList(o.Out, manifests)
	}
	for _, m := range manifests {
		if r.dir == "" {
			fmt.Fprintf(o.Out, "---\n# %s\n%s", m.Path, m.Data)
			continue
		}
		file := filepath.Join(r.dir, filepath.FromSlash(m.Path))
		//nolint:gosec // manifests hold no secret of this machine
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, m.Data, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// printList writes a List, as `kubectl get -o json` does.
func printList(w io.Writer, manifests []hydrate.Manifest) error {
	items := make([]any, 0, len(manifests))
	for _, m := range manifests {
		objects, err := manifest.Decode(m.Data, manifest.DefaultBudget())
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		for _, o := range objects {
			items = append(items, o)
		}
	}
	return printJSON(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// openFleet opens a repository and reads the fleet of a commit, or of the working tree. The caller closes the session.
func openFleet(ctx context.Context, o IO, c *common, commit string) (*app.Session, gitstore.Hash, *fleet.Fleet, error) {
	s, tree, err := openTree(ctx, o, c, commit)
	if err != nil {
		return nil, tree, nil, err
	}
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		s.Close()
		return nil, tree, nil, err
	}
	return s, tree, f, nil
}

// openTree opens the tree that a verb reads: a commit, or the files of a folder.
func openTree(ctx context.Context, o IO, c *common, commit string) (*app.Session, gitstore.Hash, error) {
	open := app.OpenFolder
	if commit != "" {
		open = app.Open
	}
	c.Detect = true // nothing is written
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
	tree, err := worktree.Tree(ctx, s.Store, dir)
	if err != nil {
		s.Close()
	}
	return s, tree, err
}
