package cli

import (
	"embed"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// schemas are those of the JSON output, by verb. A test generates them from the types.
//
//go:embed schema/*.json
var schemas embed.FS

// schemaNames returns the verbs whose output has a schema.
func schemaNames() []string { return []string{"history", "status", "upgrade", "versions"} }

func newSchema(o IO) *cobra.Command {
	return &cobra.Command{
		Use:   "schema VERB",
		Short: "Print the JSON schema of the output of status, history or upgrade plan",
		Long: "The schemas describe the output of `sluice status -o json`, `sluice history -o json` and `sluice upgrade plan -o json`.\n" +
			"`versions` describes that of `sluice status --versions -o json`.",
		Example:   "  sluice schema status\n  sluice schema history\n  sluice schema upgrade",
		Args:      exactArgs("VERB"),
		ValidArgs: schemaNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := schemas.ReadFile("schema/" + args[0] + ".json")
			if err != nil {
				return usagef("no schema %q: the output of %s has one%s", args[0], either(schemaNames()),
					nearest.DidYouMean(args[0], schemaNames()))
			}
			_, err = fmt.Fprint(o.Out, string(text))
			return err
		},
	}
}
