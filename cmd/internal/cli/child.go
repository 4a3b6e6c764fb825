package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/renderer"
)

// newChild makes the hidden command that a render process runs; see renderer.Pool.
func newChild(IO) *cobra.Command {
	var memory int64
	c := &cobra.Command{
		Use:    app.ChildCommand,
		Short:  "Render bundles from standard input",
		Hidden: true,
		Args:   noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			return renderer.ServeChild(c.Context(), os.Stdin, os.Stdout, memory)
		},
	}
	c.Flags().Int64Var(&memory, "memory", 0, "memory limit in `bytes`")
	return c
}
