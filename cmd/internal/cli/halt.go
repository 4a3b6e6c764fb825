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

func newApprove(o IO) *cobra.Command {
	c := simple(o, command.VerbApprove, "Approve the tree of the promotion that waits for an environment",
		rollout.EventApprove, "approve prod")
	c.Long = `Records an approval of what the environment would get next, and continues the promotion if its other gates pass too. The
approval counts only for that tree: if a newer commit becomes next, it needs approvals of its own. "sluice promote ENV --dry-run"
shows the tree and its commits.`
	return c
}

func newHalt(o IO) *cobra.Command {
	c := simple(o, command.VerbHalt, "Stop the running promotion of an environment", rollout.EventHalt,
		`halt prod --reason "error rate"`)
	c.Long = `Stops the waves of the environment, and promotes nothing to it until "sluice resume". Clusters that have moved keep the new
commit; "sluice rollback" takes them back. A rollback works while the environment is halted.`
	return c
}

// simple returns a verb with an environment and a reason.
func simple(o IO, verb command.Verb, short string, kind rollout.EventKind, example string) *cobra.Command {
	var p promotionFlags
	var why string
	c := &cobra.Command{
		Use: string(verb) + " ENV", Short: short, Example: "  sluice " + example, Args: exactArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.ordered(cmd.Context(), o, func(*app.Session, gitstore.Commit) (*promote.Command, error) {
				c := &promote.Command{Environment: args[0], Verb: string(verb)}
				c.Kind, c.Reason = kind, why
				if kind == rollout.EventHalt {
					c.Reason = cmp.Or(why, "no reason given")
				}
				return c, nil
			})
		},
	}
	p.add(c)
	textFlag(c, verb, "reason", &why)
	return c
}

func newResume(o IO) *cobra.Command {
	var p promotionFlags
	var why string
	var part scope
	var holds []string
	c := &cobra.Command{
		Use:   "resume ENV",
		Short: "Continue a halted environment, or end holds that are named",
		Long: `Lifts the halt of an environment, and keeps what is held back after a rollback. A hold ends only when it is named, with --hold or
with --wave, --cluster, --app or --workspace: commits that were rolled back can then be promoted again, and with mode auto they
are. "sluice status" lists the holds, each with the command that ends it.`,
		Example: `  sluice resume prod                         # lift the halt
  sluice resume prod --hold shop             # end the hold on shop
  sluice resume prod --hold 1a2b3c4d         # end what is held of that commit`,
		Args: exactArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.ordered(cmd.Context(), o, func(*app.Session, gitstore.Commit) (*promote.Command, error) {
				c := &promote.Command{Environment: args[0], Verb: "resume"}
				c.Kind, c.Reason, c.Named = rollout.EventResume, why, holds
				part.limit(c)
				return c, nil
			})
		},
	}
	p.add(c)
	listFlag(c, command.VerbResume, "hold", &holds)
	part.add(c, command.VerbResume)
	textFlag(c, command.VerbResume, "reason", &why)
	for _, name := range []string{"wave", "cluster", "app", "workspace"} {
		c.MarkFlagsMutuallyExclusive("hold", name)
	}
	return c
}
