package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/importer/helmfile"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

type helmfileOptions struct {
	common
	states       []string
	name         string
	dryRun       bool
	inlineValues bool
}

func newImportHelmfile(o IO) *cobra.Command {
	var h helmfileOptions
	c := &cobra.Command{
		Use:   "helmfile --state FILE…",
		Short: "Convert what helmfile build prints into files of a fleet",
		Long: `Converts the output of "helmfile build --embed-values" into sluice.yaml, clusters and apps with layers. Give one state for each
environment, as --state ENVIRONMENT=FILE, or as a file with the name of the environment, such as prod.yaml. A kubeContext becomes
a cluster, a release an app. Values that are equal everywhere go to the layer global, the others to the layer of their
environment or cluster.

A state that is built without --embed-values names values files. These stay where they are, and a layer reads them. For files
that are templates of helmfile, give both states of the environment. Both are required if a file has "ref+" references, because
--embed-values replaces them by the secrets.

helmfile does not run. The command lists each release that it leaves out, and each field that it does not carry over, by name
and with the reason. It leaves out a release rather than render it differently. It does not write values that refer to a secret
store ("ref+"). It writes no file that exists, none through a symbolic link, and none that Git ignores.

The values of templates, and those in the helmfile itself, can hold decrypted secrets. The command lists each of them by its
keys: read the new files before you commit them. If the environment has secrets, or a file has references to a secret store, it
leaves these releases out, unless you pass --with-inline-values.

Exit status: 0 if all releases are converted; 1 if one is left out: the others are written all the same.`,
		Example: `  helmfile -e prod build --embed-values > /tmp/prod.yaml
  sluice import helmfile --state /tmp/prod.yaml --dry-run
  sluice import helmfile --state staging=/tmp/s.yaml --state prod=/tmp/p.yaml
  sluice import helmfile --state /tmp/prod.yaml -o json`,
		Args: noArgs("name the states with --state"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := h.check(); err != nil {
				return err
			}
			if len(h.states) == 0 {
				return usagef("--state is required: a file with the output of `helmfile build --embed-values`")
			}
			return h.run(c.Context(), o)
		},
	}
	h.readFlags(c, "text", "json")
	f := c.Flags()
	f.StringArrayVar(&h.states, "state", nil,
		"`file` with the output of helmfile build, or ENVIRONMENT=FILE (required, repeatable)")
	f.StringVar(&h.name, "name", "fleet", "`name` of the fleet")
	f.BoolVar(&h.inlineValues, "with-inline-values", false,
		"write values of templates and of the helmfile although they can hold decrypted secrets")
	f.BoolVar(&h.dryRun, "dry-run", false, "print the files, and write nothing")
	return c
}

// conversion is the output of `sluice import helmfile -o json`.
type conversion struct {
	Apps     []string           `json:"apps"`
	Clusters []string           `json:"clusters"`
	Files    []string           `json:"files"`
	Kept     []string           `json:"kept"` // values files that stay where they are
	Findings []helmfile.Finding `json:"findings"`
	Written  bool               `json:"written"`

	leftOut int // releases
}

func (h *helmfileOptions) run(ctx context.Context, o IO) error {
	states, err := h.read()
	if err != nil {
		return err
	}
	s, tree, err := openTree(ctx, o, &h.common, "")
	if err != nil {
		return err
	}
	defer s.Close()
	root := s.Store.Worktree()
	if root == "" {
		if root = h.Repo; !plainFolder(root) {
			return errors.New("a conversion needs a working tree (give --repo a clone)")
		}
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	folder, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // a descriptor
	result, err := helmfile.Convert(helmfile.Options{
		Name: h.name, States: states, Files: s.Store.Snapshot(ctx, tree), Root: root, Worktree: folder.FS(),
		InlineValues: h.inlineValues,
	})
	if result == nil {
		return err
	}
	out := conversion{
		Apps: orEmpty(result.Apps), Clusters: orEmpty(result.Clusters), Kept: orEmpty(result.Kept),
		Findings: orEmpty(result.Findings), Files: []string{}, leftOut: result.LeftOutReleases(),
	}
	if err != nil { // no release is left
		return errors.Join(h.show(&out, o), err)
	}
	w := newFiles{
		session: s, tree: tree, root: folder, files: result.Files, verb: "the conversion",
		remedy: "convert in a branch without it",
		out:    io.Discard,
	}
	out.Files = w.names()
	if err := w.free(); err != nil {
		return err
	}
	trees, err := s.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = trees.Close() }() // nothing in it is kept
	after, err := overlaid(ctx, s.Store, trees, tree, result.Files)
	if err != nil {
		return err
	}
	if _, _, err := s.Fleet(ctx, after); err != nil {
		return errors.Join(h.show(&out, o), fmt.Errorf("the converted fleet is not valid, and nothing is written: %w",
			err))
	}
	if !h.dryRun {
		if err := w.write(ctx, func() error { return nil }); err != nil {
			return err
		}
		out.Written = true
	} else if !h.structured() {
		w.out = o.Out
		w.print()
	}
	if err := h.show(&out, o); err != nil {
		return err
	}
	if n := out.leftOut; n > 0 {
		return fmt.Errorf("%s left out", count(n, "release"))
	}
	return nil
}

// plainFolder reports whether a folder that is no working tree is not a bare repository either. It is false for a URL.
func plainFolder(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return false
	}
	_, err = os.Stat(filepath.Join(name, "objects"))
	_, missing := os.Stat(filepath.Join(name, "HEAD"))
	return err != nil || missing != nil
}

// read reads the states. The environment of a file is its name without extension, unless it is given.
func (h *helmfileOptions) read() ([]helmfile.State, error) {
	var out []helmfile.State
	for _, arg := range h.states {
		environment, name, given := strings.Cut(arg, "=")
		if !given {
			name = arg
			environment = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		}
		file, err := os.Open(name) //nolint:gosec // the user names it
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("--state: the file %s does not exist: write it with `helmfile -e %s build --embed-values > %s`", name, environment, name)
		}
		if err != nil {
			return nil, fmt.Errorf("--state: %w", err)
		}
		limit := int64(manifest.DefaultBudget().Bytes) + 1
		data, err := io.ReadAll(io.LimitReader(file, limit))
		_ = file.Close() // it was only read
		if err != nil {
			return nil, err
		}
		out = append(out, helmfile.State{Environment: environment, File: name, Data: data})
	}
	return out, nil
}

func (h *helmfileOptions) show(c *conversion, o IO) error {
	if h.structured() {
		return h.encode(o.Out, c)
	}
	for i := range c.Findings {
		f := &c.Findings[i]
		fmt.Fprintf(o.Err, "%s:%d: %s: %s: %s: %s\n", f.File, f.Line, safetext.Lines(whom(f)), f.Effect,
			safetext.Lines(f.Field), safetext.Lines(f.Reason))
	}
	for _, name := range c.Kept {
		fmt.Fprintf(o.Out, "kept %s\n", safetext.Lines(name))
	}
	if c.Written {
		for _, name := range c.Files {
			fmt.Fprintf(o.Out, "wrote %s\n", safetext.Lines(name))
		}
	}
	_, err := fmt.Fprintf(o.Out, "%s on %s; %s left out\n", count(len(c.Apps), "app"),
		count(len(c.Clusters), "cluster"), count(c.leftOut, "release"))
	return err
}

// whom returns the release of a finding with its environments, namespaces and kubeContexts; without a release, the
// environments.
func whom(f *helmfile.Finding) string {
	if f.Release == "" {
		return strings.Join(f.Environments, ", ")
	}
	var where []string
	for _, p := range f.Places {
		text := p.Environment
		if p.Namespace != "" {
			text += ", namespace " + p.Namespace
		}
		if p.Context != "" {
			text += ", kubeContext " + p.Context
		}
		where = append(where, text)
	}
	return f.Release + " in " + strings.Join(where, "; ")
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
