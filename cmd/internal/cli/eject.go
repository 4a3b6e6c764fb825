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
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/import/eject"
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
directory; the objects of any other one are written as manifests. sluice.yaml is written anew; its comments stay.

Before it writes, eject renders every cluster with and without the files, and compares every object of every app. If one
differs, it writes nothing. It refuses what app.yaml cannot say, with file and line: an app that is suspended or cannot be
rendered, one whose namespace differs between clusters, one that sets kubeVersion or apiVersions itself, one whose charts
differ between clusters of one environment, and a parent of other imported apps.

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
	for name := range plans[0].Files {
		if _, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name))); err == nil && name != "sluice.yaml" {
			return fmt.Errorf("%s exists (remove it, or choose another folder with --dir)", name)
		}
	}
	p := proof{session: s, tree: tree, fleet: f, app: e.app}
	for i := range plans {
		if err = p.of(ctx, &plans[i]); err == nil {
			return e.write(&plans[i], root, p.summary(), o)
		}
	}
	return fmt.Errorf("%s cannot be ejected, and nothing is written: %w", e.app, err)
}

// proof compares the renderings of all clusters before and after a plan.
type proof struct {
	session *app.Session
	tree    gitstore.Hash
	fleet   *fleet.Fleet
	app     string

	before        map[string]map[string]string // cluster → path → object; failures have the path of the app
	objects, ours int
}

// of returns an error unless every object is equal, and at least one of them is of the app.
func (p *proof) of(ctx context.Context, plan *eject.Plan) error {
	if p.before == nil {
		before, err := p.render(ctx, p.tree)
		if err != nil {
			return err
		}
		p.before = before
	}
	w, err := p.session.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // nothing in it is kept
	tree, err := overlaid(ctx, p.session.Store, w, p.tree, plan.Files)
	if err != nil {
		return err
	}
	after, err := p.render(ctx, tree)
	if err != nil {
		return err
	}
	return p.compare(after)
}

func (p *proof) compare(after map[string]map[string]string) error {
	p.objects, p.ours = 0, 0
	for _, cluster := range slices.Sorted(maps.Keys(p.before)) {
		before, now := p.before[cluster], after[cluster]
		names := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now)))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			was, had := before[name]
			is, has := now[name]
			failure := !strings.Contains(name, "/")
			switch {
			case failure && was != is && has:
				return fmt.Errorf("%s/%s would fail: %s", cluster, name, is)
			case !has:
				return fmt.Errorf("%s/%s would be missing", cluster, name)
			case !had:
				return fmt.Errorf("%s/%s would be new", cluster, name)
			case was != is:
				return fmt.Errorf("%s/%s would differ", cluster, name)
			}
			if failure { // as before
				continue
			}
			p.objects++
			if strings.HasPrefix(name, p.app+"/") {
				p.ours++
			}
		}
	}
	if p.ours == 0 {
		return errors.New("it renders no object, so nothing can prove that the files are equal")
	}
	return nil
}

func (p *proof) summary() string {
	return fmt.Sprintf("%s of %s equal, %d of them of %s", count(p.objects, "object"), count(len(p.before), "cluster"), p.ours, p.app)
}

func (p *proof) render(ctx context.Context, tree gitstore.Hash) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	for _, c := range p.fleet.Clusters {
		shown, err := p.session.Show(ctx, tree, c.Name, "")
		if err != nil {
			return nil, err
		}
		objects := map[string]string{}
		for _, m := range shown.Manifests {
			objects[m.Path] = string(m.Data)
		}
		for _, f := range shown.Failures {
			objects[f.App] = f.Message
		}
		out[c.Name] = objects
	}
	return out, nil
}

// overlaid returns a tree with files replaced or added.
func overlaid(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, tree gitstore.Hash, files map[string][]byte) (gitstore.Hash, error) {
	var entries []gitstore.Entry
	if tree != (gitstore.Hash{}) {
		known, err := store.Tree(ctx, tree)
		if err != nil {
			return gitstore.Hash{}, err
		}
		entries = slices.Clone(known)
	}
	below := map[string]map[string][]byte{}
	for name, data := range files {
		first, rest, nested := strings.Cut(name, "/")
		if below[first] == nil {
			below[first] = map[string][]byte{}
		}
		if nested {
			below[first][rest] = data
		} else {
			below[first][""] = data
		}
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		one := gitstore.Entry{Name: name, Mode: gitstore.ModeFile}
		at := slices.IndexFunc(entries, func(e gitstore.Entry) bool { return e.Name == name })
		var err error
		if data, isFile := below[name][""]; isFile {
			one.Hash, err = w.Blob(data)
		} else {
			one.Mode = gitstore.ModeTree
			var old gitstore.Hash
			if at >= 0 && entries[at].Mode == gitstore.ModeTree {
				old = entries[at].Hash
			}
			one.Hash, err = overlaid(ctx, store, w, old, below[name])
		}
		if err != nil {
			return gitstore.Hash{}, err
		}
		if at >= 0 {
			entries = slices.Delete(entries, at, at+1)
		}
		entries = append(entries, one)
	}
	return w.Tree(entries)
}

// write writes the files, sluice.yaml last: until then the app is imported. If a file cannot be written, those before it are removed.
func (e *ejectOptions) write(plan *eject.Plan, root, proved string, o IO) (err error) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(plan.Files)), func(name string) bool { return name == "sluice.yaml" })
	names = append(names, "sluice.yaml")
	for _, note := range plan.Notes {
		fmt.Fprintf(o.Err, "warning: %s\n", note)
	}
	if e.dryRun {
		for _, name := range names {
			fmt.Fprintf(o.Out, "--- %s\n%s", name, plan.Files[name])
		}
		_, err = fmt.Fprintf(o.Out, "%s; nothing is written\n", proved)
		return err
	}
	var written []string
	defer func() {
		if err != nil {
			for _, file := range written {
				err = errors.Join(err, os.Remove(file))
			}
		}
	}()
	for _, name := range names[:len(names)-1] {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // a folder of the repository, for everybody to read
			return err
		}
		if err := writeNew(file, plan.Files[name], o); err != nil {
			return err
		}
		written = append(written, file)
	}
	file := filepath.Join(root, "sluice.yaml")
	temp := file + ".new"
	if err := os.WriteFile(temp, plan.Files["sluice.yaml"], 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	if err := os.Rename(temp, file); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	_, err = fmt.Fprintf(o.Out, "changed %s\n%s\n", file, proved)
	return err
}
