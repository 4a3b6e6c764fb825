package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

type depsOptions struct {
	common
	upgrade bool
}

func newDeps(o IO) *cobra.Command {
	c := group(&cobra.Command{Use: "deps", Short: "Lock, update and vendor remote charts"})
	var d depsOptions
	lock := &cobra.Command{
		Use:   "lock",
		Short: "Resolve every remote chart and write sluice.lock",
		Long: `Resolves every chart that an app or a Chart.yaml asks a repository or registry for, and writes version and digest to
sluice.lock. What is locked already stays, unless --upgrade is given. Commit the file.

Credentials come from Helm's and Docker's own files, or from SLUICE_REPO_<HOST>_USERNAME and _PASSWORD or _TOKEN.`,
		Example: `  sluice deps lock
  sluice deps lock --upgrade`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return d.lock(c.Context(), o)
		},
	}
	d.flags(lock)
	lock.Flags().BoolVar(&d.upgrade, "upgrade", false, "resolve ranges anew, also those that are locked")
	var v depsOptions
	vendor := &cobra.Command{
		Use:     "vendor",
		Short:   "Store the archives of sluice.lock in the repository, under vendor/charts/",
		Example: `  sluice deps lock && sluice deps vendor && git add sluice.lock vendor/charts`,
		Args:    noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := v.check(); err != nil {
				return err
			}
			return v.vendor(c.Context(), o)
		},
	}
	v.flags(vendor)
	c.AddCommand(lock, vendor)
	return c
}

// open reads the working tree's requests; root is the repository's folder.
func (d *depsOptions) open(ctx context.Context, o IO) (s *app.Session, root string, refs []fetch.Ref, lock *fetch.Lock, err error) {
	s, tree, err := openTree(ctx, o, &d.common, "")
	if err != nil {
		return nil, "", nil, nil, err
	}
	if root = s.Store.Worktree(); root == "" {
		root = d.Repo
	}
	view, err := s.Open(ctx, tree)
	if err == nil {
		refs, lock, err = view.Remote()
	}
	if err != nil {
		s.Close()
	}
	return s, root, refs, lock, err
}

func (d *depsOptions) lock(ctx context.Context, o IO) error {
	s, root, refs, old, err := d.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	lock := &fetch.Lock{}
	var failed []error
	for _, ref := range refs {
		locked, known := old.Lookup(ref)
		if !known || d.upgrade {
			if locked, err = s.Fetcher.Resolve(ctx, ref); err != nil {
				failed = append(failed, err)
				continue
			}
			fmt.Fprintf(o.Out, "%s → %s\n", ref, locked.Version)
		}
		lock.Set(ref, locked)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	data, err := lock.Bytes()
	if err != nil {
		return err
	}
	file := filepath.Join(root, fetch.LockFile)
	if err := writeFile(file, data); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s: %d charts\n", fetch.LockFile, len(refs))
	return nil
}

func (d *depsOptions) vendor(ctx context.Context, o IO) error {
	s, root, refs, lock, err := d.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, ref := range refs {
		locked, err := lock.Require(ref)
		if err != nil {
			return err
		}
		data, err := s.Fetcher.Archive(ctx, ref, locked)
		if err != nil {
			return err
		}
		name := fetch.VendorPath(ref, locked)
		if err := writeFile(filepath.Join(root, filepath.FromSlash(name)), data); err != nil {
			return err
		}
		fmt.Fprintln(o.Out, name)
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
