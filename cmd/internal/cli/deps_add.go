package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
)

func newDepsAdd(o IO) *cobra.Command {
	var d depsOptions
	var branch, tags string
	c := &cobra.Command{
		Use:   "add NAME URL",
		Short: "Declare another Git repository and pin its commit",
		Long: `Writes repositories/NAME.yaml, which declares another Git repository that the fleet takes charts, Kustomize roots, manifests or
layers from, and pins its commit in sluice.lock. Commit both files.

Without --branch and --tags, the branch main is pinned.

` + gitCredentialsHelp,
		Example: `  sluice deps add components https://github.com/acme/components --tags 'v1.*'
  sluice deps add base ssh://git@git.example.com/platform/base --branch stable`,
		Args: exactArgs("NAME", "URL"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.check(); err != nil {
				return err
			}
			if branch == "" && tags == "" {
				branch = "main"
			}
			return d.add(c.Context(), o, args[0], fleet.RepositorySpec{URL: args[1], Branch: branch, Tags: tags})
		},
	}
	d.readFlags(c)
	c.Flags().StringVar(&branch, "branch", "", "pin the newest commit of this `branch`")
	c.Flags().StringVar(&tags, "tags", "",
		"pin the highest version among the tags that match this `pattern`, such as v1.*")
	c.MarkFlagsMutuallyExclusive("branch", "tags")
	return c
}

// add writes the declaration and locks it. A declaration that cannot be read or locked is removed again.
func (d *depsOptions) add(ctx context.Context, o IO, name string, spec fleet.RepositorySpec) error {
	data, err := yaml.Marshal(fleet.RepositoryFile{
		APIVersion: fleet.APIVersion, Kind: "Repository",
		Metadata: fleet.Metadata{Name: name}, Spec: spec,
	})
	if err != nil {
		return err
	}
	root, err := worktreeOf(ctx, o, &d.common)
	if err != nil {
		return err
	}
	if !fleet.ValidName(name) {
		return usagef("%q cannot be the name of a repository: lower-case letters, digits, - and ., at most 63", name)
	}
	short := filepath.Join("repositories", name+".yaml")
	file := filepath.Join(root, short)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists: change it, and run `sluice deps update %s`", short, name)
	}
	if err := writeFile(file, data); err != nil {
		return err
	}
	if err := d.resolve(ctx, o, func(string) bool { return false }); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	fmt.Fprintf(o.Out, "%s: commit it with sluice.lock, and name it with `repository: %s` beside a path\n",
		filepath.ToSlash(short), name)
	return nil
}

// worktreeOf is the folder of the repository.
func worktreeOf(ctx context.Context, o IO, c *common) (string, error) {
	s, _, err := openTree(ctx, o, c, "")
	if err != nil {
		return "", err
	}
	defer s.Close()
	if root := s.Store.Worktree(); root != "" {
		return root, nil
	}
	return c.Repo, nil
}
