package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/eject"
)

type ejectOptions struct {
	common
	app, dir string
	dryRun   bool
}

func newEject(o IO) *cobra.Command {
	var e ejectOptions
	c := &cobra.Command{
		Use:   "eject --app APP",
		Short: "Write an imported app as files of the fleet",
		Long: `Writes an app that is imported from Flux or Argo CD as app.yaml with layers, and stops importing it: spec.import[].exclude of
sluice.yaml names it from then on. Charts stay where they are. Values that are equal on all clusters are written to the layer
global, the others to the layer cluster. A Kustomization without patches, variables and the like is taken from its own
directory; the objects of any other one are written as manifests. sluice.yaml keeps its other documents, its comments and its
layout; eject reformats it only if it cannot insert a line.

Before it writes, eject renders every cluster with and without the files, and compares every object of every app. If one
differs, it writes nothing. A field that changes with every rendering, such as a random password, has the first rendering's
value in the second one. eject refuses what app.yaml cannot say, with file and line: an app that is suspended or cannot be
rendered, one without objects on one of its clusters, one whose namespace differs between clusters, one that sets kubeVersion
or apiVersions itself, one whose charts differ between clusters of one environment, and a parent of other imported apps. It
refuses to run while a parent of other targets cannot be rendered, because that parent can hide a cluster of the app. It
writes no file through a symbolic link, and none that Git ignores.

The Kustomization, HelmRelease or Application stays in Git. It has no effect on the branches; delete it when the cluster
syncs its branch, and remove the name from spec.import[].exclude then.

Exit status: 0; 1 if the app cannot be carried over, or if an object would differ.`,
		Example: `  sluice eject --app web.web --dry-run      # which files?
  sluice eject --app web.web
  sluice eject --app web.web --dir deploy/web`,
		Args: noArgs("name the app with --app"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.check(); err != nil {
				return err
			}
			if e.app == "" {
				return usagef("--app is required: `sluice import` lists the imported apps")
			}
			if e.dir == "" {
				e.dir = path.Join("apps", e.app)
			}
			if e.dir = path.Clean(filepath.ToSlash(e.dir)); !fs.ValidPath(e.dir) || e.dir == "." {
				return usagef("--dir %s: name a folder of the repository, relative to its root", e.dir)
			}
			return e.run(c.Context(), o)
		},
	}
	e.readFlags(c, "text")
	f := c.Flags()
	f.StringVar(&e.app, "app", "", "imported `app` to write (required)")
	f.StringVar(&e.dir, "dir", "", "`folder` of app.yaml (default: apps/APP)")
	f.BoolVar(&e.dryRun, "dry-run", false, "print the files, and write nothing")
	return c
}

func (e *ejectOptions) run(ctx context.Context, o IO) error {
	s, tree, err := openTree(ctx, o, &e.common, "")
	if err != nil {
		return err
	}
	defer s.Close()
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return err
	}
	if f.Detected {
		return errors.New("the repository has no sluice.yaml to change: run `sluice import --detect --write` first")
	}
	snapshot := s.Store.Snapshot(ctx, tree)
	ejected, err := eject.New(f, e.app, e.dir, snapshot.ReadFile)
	if err != nil {
		return err
	}
	plans, err := ejected.Plans()
	if err != nil {
		return err
	}
	root := s.Store.Worktree()
	if root == "" {
		root = e.Repo
	}
	folder, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // a descriptor
	p := proof{session: s, tree: tree, fleet: f, app: e.app, clusters: ejected.Clusters()}
	defer p.close()
	for i := range plans {
		w := ejectWriter{fleet: plans[i].Files[fleet.File], newFiles: newFiles{
			session: s, tree: tree, root: folder, files: maps.Clone(plans[i].Files), out: o.Out, verb: "eject",
			remedy: "choose another folder with --dir",
		}}
		delete(w.files, fleet.File)
		if err := w.free(); err != nil {
			return err
		}
		if err = p.of(ctx, &plans[i]); err == nil {
			for _, note := range plans[i].Notes {
				fmt.Fprintf(o.Err, "warning: %s\n", note)
			}
			if e.dryRun {
				return w.print(p.summary())
			}
			return w.write(ctx, p.summary())
		}
	}
	return fmt.Errorf("%s cannot be ejected, and nothing is written: %w", e.app, err)
}
