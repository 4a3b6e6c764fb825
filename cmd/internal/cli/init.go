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
		Long: `Writes a fleet of two environments, two clusters and one app into a folder, by default the current one. No file that
is there already is touched.`,
		Example: `  sluice init
  git add -A && git commit -m "Start a fleet" && sluice hydrate`,
		Args: cobra.MaximumNArgs(1),
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
	var there []string
	err := fs.WalkDir(starter, "starter", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(p, "starter/")))
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			there = append(there, name)
		}
		files[name], err = starter.ReadFile(p)
		return err
	})
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s exists already: nothing was written; name an empty folder", strings.Join(there, ", "))
	}
	for name, data := range files {
		if err := writeFile(name, data); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "wrote %d files: look at %s, then run `sluice validate` and `sluice render --cluster dev-1`\n", len(files), filepath.Join(dir, "sluice.yaml"))
	return nil
}
