package cli

import "github.com/spf13/cobra"

func newBundle(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use:   "bundle",
		Short: "Carry an environment to a site that no network reaches, and receipts back",
		Long: `An isolated environment has a site: a Git server and a Sluice of its own, which no network reaches. Signed files carry what the
site lacks there, and receipts of what it runs back.`,
		Example: "  sluice bundle receipt --environment gov --sign site.key --out gov.receipt",
	})
	c.AddCommand(newBundleReceipt(o))
	return c
}
