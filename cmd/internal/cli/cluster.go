package cli

import "github.com/spf13/cobra"

func newCluster(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use: "cluster", Short: "Replace a cluster by a new one, or leave one with what it runs",
		Example: "  sluice cluster replace eu-1 --with eu-2\n  sluice cluster detach eu-1",
	})
	c.AddCommand(newClusterReplace(o), newClusterDetach(o))
	return c
}
