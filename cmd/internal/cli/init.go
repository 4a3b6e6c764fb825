package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed all:starter
var starter embed.FS

func newInit(o IO) *cobra.Command {
	return &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write a small, commented, working fleet",
		Long: `Writes a fleet of two environments, two clusters and one app into a folder, by default the current one. If one of the
files exists, the command writes nothing.`,
		Example: `  sluice init
  sluice init fleet && cd fleet && sluice validate
  git init -b main && git add -A && git commit -m "Start a fleet" && sluice hydrate`,
		Args: maxArgs("FOLDER"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return runInit(o, dir)
		},
	}
}

func runInit(o IO, dir string) error {
	files := map[string][]byte{}
	var existing []string
	err := fs.WalkDir(starter, "starter", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(p, "starter/")))
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			existing = append(existing, name)
		}
		files[name], err = starter.ReadFile(p)
		return err
	})
	if err != nil {
		return err
	}
	if len(existing) > 0 {
		return fmt.Errorf("%s already in %s: nothing was written; name an empty folder", some(existing), dir)
	}
	for name, data := range files {
		if err := writeFile(name, data); err != nil {
			return err
		}
	}
	in := ""
	if dir != "." {
		in = "cd " + dir + ", "
	}
	fmt.Fprintf(o.Out, "wrote %s; next: %sread sluice.yaml, run `sluice validate` and `sluice render --cluster dev-1`\n", count(len(files), "file"), in)
	return nil
}
