package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

const (
	credentialsHelp    = `Credentials for charts come from the files of Helm and Docker, or from SLUICE_REPO_<HOST>_USERNAME and _PASSWORD or _TOKEN.`
	gitCredentialsHelp = `Credentials for Git repositories come from SLUICE_GIT_<HOST>_USERNAME and _PASSWORD or _TOKEN. Without them, a repository of
the owner of the fleet, on the same host, gets the fleet's own.`
)

func newDeps(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use: "deps", Short: "Lock, update and vendor remote charts, and pin other repositories",
		Example: "  sluice deps lock\n  sluice deps outdated\n  sluice deps update ingress-nginx",
	})
	c.AddCommand(newDepsAdd(o), newDepsLock(o), newDepsOutdated(o), newDepsUpdate(o), newDepsVendor(o))
	return c
}

// depsOptions are the options of every verb of deps.
type depsOptions struct {
	common
	upgrade bool
}

// dependencies are the charts that a working tree requests, with its lock file.
type dependencies struct {
	session      *app.Session
	root         string // folder of the repository
	repositories []*fleet.Repository
	moved        []string // repositories whose pin is new
	refs         []fetch.Ref
	lock         *fetch.Lock // with the pins of all repositories, if they were resolved
	partial      bool        // refs lack the charts of a workspace that has errors
}

// open reads the dependencies of the working tree. again selects the repositories to resolve even if they are locked;
// nil resolves none.
func (d *depsOptions) open(ctx context.Context, o IO, again func(name string) bool) (*dependencies, error) {
	s, tree, err := openTree(ctx, o, &d.common, "")
	if err != nil {
		return nil, err
	}
	out := &dependencies{session: s, root: s.Store.Worktree()}
	if out.root == "" {
		out.root = d.Repo
	}
	v, err := s.Open(ctx, tree)
	if err == nil && again != nil {
		v, err = out.pin(ctx, v, tree, again)
	}
	if err == nil {
		out.repositories = v.Fleet.Repositories
		err = out.remote(o, v)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return out, nil
}

// write replaces the lock file.
func (d *dependencies) write(o IO, lock *fetch.Lock) error {
	data, err := lock.Bytes()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(d.root, fetch.LockFile), data); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s: %s", fetch.LockFile, count(len(d.refs), "chart"))
	if n := len(d.repositories); n > 0 {
		fmt.Fprintf(o.Out, ", %s", count(n, "other repository"))
	}
	fmt.Fprintln(o.Out)
	return nil
}

func newDepsLock(o IO) *cobra.Command {
	var d depsOptions
	c := &cobra.Command{
		Use:   "lock",
		Short: "Resolve remote charts and other repositories, and write sluice.lock",
		Long: `Resolves every chart that an app, a Chart.yaml or the helmCharts of a Kustomize root take from a repository or registry,
and writes its version and digest to sluice.lock; and every other Git repository of the fleet (kind: Repository), and writes
its commit. Locked versions and commits stay, unless --upgrade is given. Commit the file.

` + credentialsHelp + "\n" + gitCredentialsHelp,
		Example: `  sluice deps lock
  sluice deps lock --upgrade`,
		Args: noArgs("to update some charts only, use sluice deps update CHART"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return d.resolve(c.Context(), o, func(string) bool { return d.upgrade })
		},
	}
	d.readFlags(c)
	c.Flags().BoolVar(&d.upgrade, "upgrade", false, "resolve all charts and repositories again, locked or not")
	return c
}

func newDepsUpdate(o IO) *cobra.Command {
	var d depsOptions
	c := &cobra.Command{
		Use:   "update [CHART|REPOSITORY]...",
		Short: "Lock the newest versions of charts and the newest commits of other repositories",
		Long: `Resolves charts and other repositories again, and writes to sluice.lock the newest versions that the ranges of charts allow and
the newest commits that branches and tags of repositories have. Without arguments, all are updated. A chart with an exact
version stays: change the version in app.yaml or Chart.yaml.

` + credentialsHelp + "\n" + gitCredentialsHelp,
		Example: `  sluice deps update
  sluice deps update ingress-nginx cert-manager`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return d.update(c.Context(), o, args)
		},
	}
	d.readFlags(c)
	return c
}

func (d *depsOptions) update(ctx context.Context, o IO, charts []string) error {
	again := func(name string) bool { return len(charts) == 0 || slices.Contains(charts, name) }
	deps, err := d.open(ctx, o, again)
	if err != nil {
		return err
	}
	defer deps.session.Close()
	var names []string
	for _, ref := range deps.refs {
		names = append(names, chartName(ref))
	}
	for _, r := range deps.repositories {
		names = append(names, r.Name)
	}
	for _, name := range charts {
		if err := mustKnow("remote chart or repository", name, names); err != nil {
			return err
		}
	}
	return deps.resolve(ctx, o, again)
}

func chartName(ref fetch.Ref) string { return path.Base(ref.Chart) }

func (d *depsOptions) resolve(ctx context.Context, o IO, again func(name string) bool) error {
	deps, err := d.open(ctx, o, again)
	if err != nil {
		return err
	}
	defer deps.session.Close()
	return deps.resolve(ctx, o, again)
}

// resolve resolves charts that are not locked, and those for which again is true. It writes the lock file only if all
// succeed.
func (d *dependencies) resolve(ctx context.Context, o IO, again func(name string) bool) error {
	lock := &fetch.Lock{}
	for _, name := range d.lock.Pinned() {
		if pin, ok := d.lock.Pin(name); ok {
			lock.SetPin(name, pin)
		}
	}
	if d.partial { // a locked chart may belong to the workspace that cannot be read
		for _, ref := range d.lock.Refs() {
			if locked, ok := d.lock.Lookup(ref); ok {
				lock.Set(ref, locked)
			}
		}
	}
	for _, line := range d.moved {
		fmt.Fprintln(o.Out, safetext.Line(line))
	}
	var failed []error
	for _, ref := range d.refs {
		locked, known := d.lock.Lookup(ref)
		if !known || again(chartName(ref)) {
			before := locked
			var err error
			if locked, err = d.session.Fetcher.Resolve(ctx, ref); err != nil {
				failed = append(failed, err)
				continue
			}
			switch {
			case before.Version != locked.Version:
				fmt.Fprintf(o.Out, "%s → %s\n", safetext.Line(ref.String()), safetext.Line(locked.Version))
			case known && before.Digest != locked.Digest:
				fmt.Fprintf(o.Out, "%s: %s was published again: its archive was %s and is %s now\n",
					safetext.Line(ref.String()), safetext.Line(locked.Version), before.Digest, locked.Digest)
			}
		}
		lock.Set(ref, locked)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return d.write(o, lock)
}

// dependency is one row of deps outdated.
type dependency struct {
	Chart     string `json:"chart"`
	Repo      string `json:"repo"`
	Requested string `json:"requested"`
	Locked    string `json:"locked,omitempty"`
	InRange   string `json:"inRange,omitempty"`
	Newest    string `json:"newest,omitempty"`
	Error     string `json:"error,omitempty"`
}

func (d dependency) outdated() bool {
	return d.Error == "" && (d.Locked != d.InRange || d.Locked != d.Newest)
}

func newDepsOutdated(o IO) *cobra.Command {
	var d depsOptions
	var all, exitCode bool
	c := &cobra.Command{
		Use:   "outdated",
		Short: "List remote charts and other repositories of which a newer version exists",
		Long: `Asks for the versions of every remote chart, and for the branches and tags of every other Git repository of the fleet (kind:
Repository). It lists those that are not at the newest version or commit: what the fleet requests, what is locked, the newest
in the requested range (which sluice deps update locks) and the newest version of all.

Exit status: 0; 1 if a server could not be asked; 3 with --exit-code if a chart or a repository is outdated.

` + credentialsHelp + "\n" + gitCredentialsHelp,
		Example: `  sluice deps outdated
  sluice deps outdated --exit-code -o json`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return d.outdated(c.Context(), o, all, exitCode)
		},
	}
	d.readFlags(c, "text", "json")
	c.Flags().BoolVar(&all, "all", false, "list all remote charts and other repositories")
	c.Flags().BoolVar(&exitCode, "exit-code", false, "exit with status 3 if a chart or a repository is outdated")
	return c
}

func (d *depsOptions) outdated(ctx context.Context, o IO, all, exitCode bool) error {
	deps, err := d.open(ctx, o, nil)
	if err != nil {
		return err
	}
	defer deps.session.Close()
	rows, outdated, failed := []dependency{}, 0, 0
	for _, ref := range deps.refs {
		locked, _ := deps.lock.Lookup(ref) // an unlocked chart has no version
		one := dependency{Chart: ref.Chart, Repo: ref.Repo, Requested: ref.Version, Locked: locked.Version}
		if offers, err := deps.session.Fetcher.Offers(ctx, ref); err != nil {
			one.Error = err.Error()
			failed++
		} else {
			one.InRange, one.Newest = offers.InRange, offers.Newest
		}
		if one.outdated() {
			outdated++
		}
		if all || one.outdated() || one.Error != "" {
			rows = append(rows, one)
		}
	}
	for _, r := range deps.repositories {
		one := deps.repository(ctx, r)
		if one.Error != "" {
			failed++
		}
		if one.outdated() {
			outdated++
		}
		if all || one.outdated() || one.Error != "" {
			rows = append(rows, one)
		}
	}
	if d.structured() {
		err = d.encode(o.Out, rows)
	} else {
		err = printDependencies(o, rows, outdated, len(deps.refs)+len(deps.repositories))
	}
	switch {
	case err != nil:
		return err
	case failed > 0:
		return &exitError{ExitFailed, fmt.Errorf("%s could not be looked up", count(failed, "dependency"))}
	case exitCode && outdated > 0:
		return &exitError{code: ExitDiffers}
	}
	return nil
}

func printDependencies(o IO, rows []dependency, outdated, total int) error {
	if len(rows) > 0 {
		table := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NAME\tREQUESTED\tLOCKED\tIN RANGE\tNEWEST")
		for _, r := range rows {
			locked := r.Locked
			if locked == "" {
				locked = "-"
			}
			if r.Error != "" {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", safetext.Line(r.Chart), safetext.Line(r.Requested),
					safetext.Line(locked), safetext.Line(r.Error))
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", safetext.Line(r.Chart), safetext.Line(r.Requested),
				safetext.Line(locked), safetext.Line(r.InRange), safetext.Line(r.Newest))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "%d of %s outdated\n", outdated, count(total, "dependency"))
	return nil
}

func newDepsVendor(o IO) *cobra.Command {
	var d depsOptions
	c := &cobra.Command{
		Use:   "vendor",
		Short: "Store the archives of locked charts in the repository, below vendor/charts/",
		Long: `Downloads the archive of every chart in sluice.lock, verifies its digest, and writes it below vendor/charts/. Sluice then
renders without contacting a chart repository or registry. Commit the folder.

` + credentialsHelp,
		Example: `  sluice deps lock && sluice deps vendor && git add sluice.lock vendor/charts`,
		Args:    noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return d.vendor(c.Context(), o)
		},
	}
	d.readFlags(c)
	return c
}

func (d *depsOptions) vendor(ctx context.Context, o IO) error {
	deps, err := d.open(ctx, o, nil)
	if err != nil {
		return err
	}
	defer deps.session.Close()
	for _, ref := range deps.refs {
		locked, err := deps.lock.Require(ref)
		if err != nil {
			return err
		}
		data, err := deps.session.Fetcher.Archive(ctx, ref, locked)
		if err != nil {
			return err
		}
		name := fetch.VendorPath(ref, locked)
		if err := writeFile(filepath.Join(deps.root, filepath.FromSlash(name)), data); err != nil {
			return err
		}
		fmt.Fprintln(o.Out, name)
	}
	if len(deps.refs) == 0 && !deps.partial {
		fmt.Fprintln(o.Out, "nothing to store: no app takes a chart from a repository or a registry")
	}
	return nil
}

// writeFile replaces a file in one step.
func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // files of a repository
		return err
	}
	temp := name + ".tmp"
	if err := os.WriteFile(temp, data, 0o644); err != nil { //nolint:gosec // files of a repository
		return err
	}
	return os.Rename(temp, name)
}
