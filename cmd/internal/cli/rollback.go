package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

func newRollback(o IO) *cobra.Command {
	var p promotionFlags
	var to, why, wave string
	var clusters, apps []string
	c := &cobra.Command{
		Use:   "rollback ENV",
		Short: "Restore an earlier state of an environment, of a wave, of clusters or of apps, at once",
		Long: `Commits an earlier tree of the environment again, byte for byte, and moves the cluster branches in its scope to it at once. The
command renders nothing and waits for no gate. Nothing outside the scope moves: if a rollout is under way, the clusters that it
has not reached keep what they run. Frozen clusters stay as they are.

Sluice holds what was rolled back: automatic promotions leave it out until a newer commit changes these apps, or until
` + "`sluice resume`" + ` or ` + "`sluice promote`" + ` ends the hold.`,
		Example: `  sluice rollback prod                       # to the previous state
  sluice rollback prod --to 1a2b3c4          # to that source commit, or that commit of the branch
  sluice rollback prod --wave canary         # the clusters of a wave
  sluice rollback prod --cluster eu-1a --app shop --reason "checkout is down"`,
		Args: exactArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.ordered(cmd.Context(), o, func(*app.Session, gitstore.Commit) (*promotion.Command, error) {
				c := &promotion.Command{Environment: args[0], Verb: "rollback", Revision: to}
				c.Kind, c.Wave, c.Clusters, c.Apps, c.Reason = promote.EventRollback, wave, clusters, apps, cmp.Or(why, "no reason given")
				return c, nil
			})
		},
	}
	p.add(c)
	scopeFlags(c, command.VerbRollback, &wave, &clusters, &apps)
	textFlag(c, command.VerbRollback, "to", &to)
	textFlag(c, command.VerbRollback, "reason", &why)
	return c
}

// scopeFlags adds --wave, --cluster and --app, with the descriptions in the chat's grammar.
func scopeFlags(c *cobra.Command, verb command.Verb, wave *string, clusters, apps *[]string) {
	textFlag(c, verb, "wave", wave)
	listFlag(c, verb, "cluster", clusters)
	listFlag(c, verb, "app", apps)
	c.MarkFlagsMutuallyExclusive("wave", "cluster")
}
