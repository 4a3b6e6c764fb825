package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

type importOptions struct {
	common
	detect, write bool
	compare       bool
	commit        string
}

func newImport(o IO) *cobra.Command {
	var i importOptions
	c := &cobra.Command{
		Use:   "import",
		Short: "Show what is imported from a repository of Flux or Argo CD objects",
		Long: `Lists the targets that spec.import of sluice.yaml reads, with the place of each Kustomization, HelmRelease and Application,
and what cannot be rendered. The last line counts the Flux objects of the repository and those among the targets; it lists the
others, which no cluster reaches. Without sluice.yaml, it lists what --detect finds.

--detect looks for clusters in a repository that has no sluice.yaml and prints the file that imports them; --write stores it.
The file names the newest Kubernetes version that Sluice knows for every cluster, or that of --kube-version.

--check builds the import a second time with the tool's own libraries, and compares object by object. The libraries of Flux
are in the program sluice-reference-flux, those of Argo CD in sluice-reference-argocd, which calls helm and kustomize. The
programs must be in PATH; docs/from-flux.md and docs/from-argocd.md have the commands that build them in a clone of Sluice. They
read this repository only: what needs a chart or a source from elsewhere, or the answer of a server, is listed as not
compared. A target that cannot be read, such as one with a plugin, fails the check. The programs are
not confined: run --check on repositories that you trust.

Exit status: 0 if every target can be read, and --check finds no difference; 1 otherwise, and if --check compares no object of
a cluster.`,
		Example: `  sluice import --detect              # which clusters does this repository have?
  sluice import --detect --write      # store sluice.yaml
  sluice import                       # what is imported?
  sluice import -o json
  sluice import --check               # does Flux or Argo CD build the same objects?`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := i.check(); err != nil {
				return err
			}
			if i.write && !i.detect {
				return usagef("--write needs --detect")
			}
			return i.run(c.Context(), o)
		},
	}
	i.readFlags(c, "text", "json")
	i.capabilityFlags(c)
	c.Flags().StringVar(&i.commit, "commit", "", "`revision` to read (default: the working tree)")
	c.Flags().BoolVar(&i.detect, "detect", false, "print the sluice.yaml for a repository that has none")
	c.Flags().BoolVar(&i.write, "write", false, "with --detect, write the file instead of printing it")
	c.Flags().BoolVar(&i.compare, "check", false, "compare the import with what the libraries of Flux or Argo CD build")
	c.MarkFlagsMutuallyExclusive("detect", "check")
	c.MarkFlagsMutuallyExclusive("detect", "api-versions")
	c.AddCommand(newImportHelmfile(o))
	return c
}

func (i *importOptions) run(ctx context.Context, o IO) error {
	s, tree, err := openTree(ctx, o, &i.common, i.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	if i.detect {
		text, err := s.DetectImport(ctx, tree)
		if err == nil && text == nil {
			err = errors.New("no cluster of Flux or Argo CD was found: no FluxInstance, no Kustomization of a cluster and no Application with a destination (write spec.import by hand, see docs/from-flux.md and docs/from-argocd.md; from Helmfile, run `sluice import helmfile`; for charts, Kustomize roots and manifests, `sluice init`)")
		}
		if err != nil {
			return err
		}
		text = importer.WithTrunk(text, s.Store.DefaultBranch(ctx))
		if v := i.Assumed.KubeVersion; v != "" {
			text = importer.WithKubeVersion(text, v)
		}
		if i.write {
			root := s.Store.Worktree()
			if root == "" {
				root = i.Repo
			}
			return writeNew(filepath.Join(root, "sluice.yaml"), text, o)
		}
		_, err = o.Out.Write(text)
		return err
	}
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return err
	}
	if len(f.Spec.Import) == 0 {
		return i.importsNothing(o)
	}
	if i.compare {
		return i.checkImport(ctx, s, tree, f, o)
	}
	reached, err := fluxCoverage(s.Store.Snapshot(ctx, tree), f)
	if err != nil {
		return err
	}
	return i.list(f, reached, o)
}

// importsNothing says how a fleet begins to import. Only --check fails, because it compares nothing.
func (i *importOptions) importsNothing(o IO) error {
	const next = "sluice.yaml has no spec.import, so nothing is imported (to import from Flux or Argo CD, write spec.import, see " +
		"docs/from-flux.md and docs/from-argocd.md; from helmfile, use `sluice import helmfile`)"
	switch {
	case i.compare:
		return errors.New(next)
	case i.structured():
		return i.encode(o.Out, []importedTarget{})
	}
	_, err := fmt.Fprintln(o.Out, next)
	return err
}

// writeNew writes a file that does not exist yet.
func writeNew(name string, data []byte, o IO) error {
	//nolint:gosec // a file of the repository, for everybody to read
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("%w (remove the file first, or edit it)", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		fmt.Fprintf(o.Out, "wrote %s\n", name)
	}
	return err
}

// importedTarget is a line of the listing.
type importedTarget struct {
	Cluster   string   `json:"cluster"`
	App       string   `json:"app"`
	Kind      string   `json:"kind"`
	File      string   `json:"file"`
	Line      int      `json:"line"`
	State     string   `json:"state"` // ready, suspended or failed
	Message   string   `json:"message,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	DependsOn []string `json:"dependsOn,omitempty"`
	Parent    string   `json:"parent,omitempty"` // CLUSTER/APP whose objects include this target's object
}

// target is the app with its cluster, if that is known.
func (t *importedTarget) target() string {
	if t.Cluster == "" {
		return t.App
	}
	return t.App + " on " + t.Cluster
}

func (i *importOptions) list(f *fleet.Fleet, reached *coverage, o IO) error {
	out := []importedTarget{}
	failed := 0
	for _, t := range f.Imports() {
		one := importedTarget{
			Cluster: t.Cluster, App: t.App, Kind: t.Kind, File: t.Located(), Line: t.Line,
			State: "ready", Notes: t.Notes, DependsOn: slices.Sorted(slices.Values(t.DependsOn)),
		}
		if t.Parent != "" {
			one.Parent = cmp.Or(t.ParentCluster, t.Cluster) + "/" + t.Parent
		}
		switch {
		case t.Err != nil:
			one.State, one.Message = "failed", t.Err.Error()
			failed++
		case t.Suspended:
			one.State = "suspended"
		}
		out = append(out, one)
	}
	if i.structured() {
		if err := i.encode(o.Out, out); err != nil {
			return err
		}
	} else {
		table := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "CLUSTER\tAPP\tSTATE\tKIND\tFROM")
		for _, t := range out {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(t.Cluster, "-"), t.App, t.State, t.Kind,
				lineOf(t.File, t.Line))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		for _, t := range out {
			if t.Message != "" {
				fmt.Fprintf(o.Err, "%s: %s: %s\n", lineOf(t.File, t.Line), t.target(), safetext.Lines(t.Message))
			}
		}
		if reached != nil {
			if err := reached.print(o); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d targets cannot be rendered", failed, len(out))
	}
	return nil
}
