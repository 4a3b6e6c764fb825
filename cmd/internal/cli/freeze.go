package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

func newFreeze(o IO) *cobra.Command {
	var p promotionFlags
	var until, why string
	c := &cobra.Command{
		Use:   "freeze ENV|CLUSTER",
		Short: "Keep an environment or a cluster as it is, until a time or until unfreeze",
		Long: `Records a freeze of an environment or of one cluster. Until it ends, the cluster branches do not move, not even by a rollback,
and promotions to a frozen environment wait. The freeze ends at --until, or with "sluice unfreeze", which moves the branches to
the desired state. The command freezes environments with "after" and their clusters; for other clusters, set spec.state: frozen.`,
		Example: "  sluice freeze prod --until 2026-12-27 --reason \"the holidays\"\n  sluice freeze eu-1a --until 4h --reason \"an incident\"",
		Args:    exactArgs("ENV|CLUSTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			if why == "" {
				return usagef("--reason is required: `sluice status` shows it to everybody who waits")
			}
			return p.aimed(cmd.Context(), o, rollout.EventFreeze, args[0], until, why)
		},
	}
	p.add(c)
	textFlag(c, command.VerbFreeze, "until", &until)
	textFlag(c, command.VerbFreeze, "reason", &why)
	return c
}

func newUnfreeze(o IO) *cobra.Command {
	var p promotionFlags
	c := &cobra.Command{
		Use: "unfreeze ENV|CLUSTER", Short: "End a freeze and move the branches to the desired state",
		Example: "  sluice unfreeze eu-1a", Args: exactArgs("ENV|CLUSTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.aimed(cmd.Context(), o, rollout.EventUnfreeze, args[0], "", "")
		},
	}
	p.add(c)
	return c
}

func (p *promotionFlags) aimed(ctx context.Context, o IO, kind rollout.EventKind, target, until, why string) error {
	return p.ordered(ctx, o, func(s *app.Session, trunk gitstore.Commit) (*promote.Command, error) {
		f, _, err := s.Fleet(ctx, trunk.Tree)
		if err != nil {
			return nil, err
		}
		c := &promote.Command{Verb: string(kind)}
		c.Kind, c.Reason = kind, why
		if until != "" {
			if c.Until, err = command.ParseUntil(until, time.Now()); err != nil {
				return nil, usagef("--until: %w", err)
			}
		}
		if err := c.Aim(f, target); err != nil {
			return nil, usagef("%w", err)
		}
		if e, ok := f.Environment(c.Environment); ok && len(e.After) == 0 {
			return nil, usagef("%s follows the trunk: set spec.state to frozen, or to active, in the files of its clusters", e.Name)
		}
		return c, nil
	})
}
