package cli

import (
	"maps"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/ownpolicy"
	imports "github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/review"
)

// newChild returns the hidden command that a worker process runs; see package renderer/worker.
func newChild(IO) *cobra.Command {
	return &cobra.Command{
		Use:    app.ChildCommand,
		Short:  "Run jobs that the parent process sends on standard input",
		Hidden: true,
		Args:   noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			jobs := renderer.Jobs()
			maps.Copy(jobs, review.Jobs())
			maps.Copy(jobs, ownpolicy.Jobs())
			maps.Copy(jobs, imports.Jobs())
			in, out := os.Stdin, os.Stdout
			os.Stdout = os.Stderr // output of a library must not mix with the messages
			return worker.Serve(c.Context(), in, out, jobs)
		},
	}
}
