package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

func newRollback(o IO) *cobra.Command {
	var p promotionFlags
	var to, why string
	var part scope
	c := &cobra.Command{
		Use:   "rollback ENV",
		Short: "Restore an earlier state of an environment, of a wave, of clusters, of apps or of workspaces, at once",
		Long: `Commits an earlier tree of the environment again, byte for byte, and moves the cluster branches in its scope to it at once. The
command renders nothing and waits for no gate. Nothing outside the scope moves: if a rollout is under way, the clusters that it
has not reached keep what they run. Frozen clusters stay as they are.

Sluice holds what was rolled back: automatic promotions leave it out until a newer commit changes these apps, or until
` + "`sluice resume`" + ` or ` + "`sluice promote`" + ` ends the hold.`,
		Example: `  sluice rollback prod                       # to the previous state
  sluice rollback prod --to 1a2b3c4          # to that source commit, or that commit of the branch
  sluice rollback prod --wave canary         # the clusters of a wave
  sluice rollback prod --workspace team-a    # the apps of a workspace
  sluice rollback prod --cluster eu-1a --app shop --reason "checkout is down"`,
		Args: exactArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.ordered(cmd.Context(), o, func(*app.Session, gitstore.Commit) (*promote.Command, error) {
				c := &promote.Command{Environment: args[0], Verb: "rollback", Revision: to}
				c.Kind, c.Reason = rollout.EventRollback, cmp.Or(why, "no reason given")
				part.limit(c)
				return c, nil
			})
		},
	}
	p.add(c)
	part.add(c, command.VerbRollback)
	textFlag(c, command.VerbRollback, "to", &to)
	textFlag(c, command.VerbRollback, "reason", &why)
	return c
}

// scope is the part of an environment that a command is limited to.
type scope struct {
	wave                       string
	clusters, apps, workspaces []string
}

// add adds --wave, --cluster, --app and --workspace, with the descriptions in the chat's grammar.
func (s *scope) add(c *cobra.Command, verb command.Verb) {
	textFlag(c, verb, "wave", &s.wave)
	listFlag(c, verb, "cluster", &s.clusters)
	listFlag(c, verb, "app", &s.apps)
	listFlag(c, verb, "workspace", &s.workspaces)
	c.MarkFlagsMutuallyExclusive("wave", "cluster")
}

// limit limits a command to the scope.
func (s *scope) limit(c *promote.Command) {
	c.Wave, c.Clusters, c.Apps, c.Workspaces = s.wave, s.clusters, s.apps, s.workspaces
}
