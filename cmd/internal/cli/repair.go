package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// repairState is the argument that names the records instead of an environment.
const repairState = "state"

func newRepair(o IO) *cobra.Command {
	r := &repairOptions{}
	c := &cobra.Command{
		Use:   "repair ENV|state",
		Short: "Repair branches that somebody set back, or records that were lost",
		Long: `Sluice records the commit of every branch that it moves. If somebody sets the branch of an environment or of a cluster back, for
example by a forced push, nothing moves there any more until a person decides: --restore brings the recorded state back, --adopt
keeps the present state as a rollback, which holds what ran. Without either, the command lists what it found and exits with 3.

"sluice repair state" writes records again that the branch sluice/state lost, from the trailers on the environment branches. Holds
come back; freezes, halts, approvals and requests cannot be known. Therefore it halts the environment until "sluice resume".`,
		Example: `  sluice repair prod                                        # what was set back
  sluice repair prod --restore                              # bring it back
  sluice repair prod --adopt --reason "checkout is down"    # keep it, as a rollback
  sluice repair state --reason "somebody deleted the branch"`,
		Args: exactArgs("ENV|state"),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), o, args[0]) },
	}
	r.add(c)
	f := c.Flags()
	f.BoolVar(&r.want.Restore, "restore", false, "bring back what the branches had")
	f.BoolVar(&r.want.Adopt, "adopt", false, "keep what the branches have, as a rollback")
	f.StringVar(&r.want.Reason, "reason", "", "why, for the record")
	c.MarkFlagsMutuallyExclusive("restore", "adopt")
	return c
}

type repairOptions struct {
	promotionFlags
	want promote.Repair
}

func (r *repairOptions) run(ctx context.Context, o IO, target string) error {
	if err := r.check("text", "json"); err != nil {
		return err
	}
	changes := r.want.Restore || r.want.Adopt
	switch {
	case target == repairState && changes:
		return usagef("--restore and --adopt are for the branches of an environment: sluice repair state --reason WHY")
	case (target == repairState || r.want.Adopt) && r.want.Reason == "":
		return usagef("--reason is required: it becomes part of the record")
	}
	var err error
	if r.want.By, err = r.who(ctx, o); err != nil {
		return err
	}
	s, trunk, err := r.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	request := r.request(s, trunk)
	request.PerPush = r.perPush
	if target == repairState {
		return r.state(ctx, o, s, request)
	}
	if err := known(ctx, s, trunk, target, true); err != nil {
		return err
	}
	r.want.Environment = target
	return r.branches(ctx, o, s, request, trunk)
}

// branches repairs the branches of an environment, and continues its promotion.
func (r *repairOptions) branches(ctx context.Context, o IO, s *app.Session, request promote.Request,
	trunk gitstore.Commit,
) error {
	found, done, err := promote.RepairBranches(ctx, s.Hydrator, request, r.want)
	if err != nil {
		return err
	}
	for _, b := range found {
		fmt.Fprintln(o.Err, safetext.Line(b.String()))
	}
	for _, line := range done {
		fmt.Fprintln(o.Err, safetext.Line(line))
	}
	if len(found) == 0 {
		fmt.Fprintf(o.Err, "no branch of %s was set back\n", r.want.Environment)
	}
	repaired := r.want.Restore || r.want.Adopt
	list, err := r.look(ctx, o, s, trunk, len(found) == 0 || !repaired)
	if err := r.showAll(o, list, r.want.Environment, err); err != nil || len(found) == 0 || repaired {
		return err
	}
	return &exitError{code: ExitDiffers}
}

// state rebuilds records.
func (r *repairOptions) state(ctx context.Context, o IO, s *app.Session, request promote.Request) error {
	list, err := promote.RebuildRecords(ctx, s.Hydrator, request, r.want.By, r.want.Reason)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintf(o.Err, "no record on branch %s is missing or older than the branches\n", rollout.StateBranch)
		return nil
	}
	for _, record := range list {
		fmt.Fprintf(o.Err, "%s: the record has %s of its branch again; freezes, halts, approvals and requests from before are not known, so %[1]s is halted: freeze again what must stay, then `sluice resume %[1]s`\n",
			record.Environment, hydrate.Count(len(record.Ran)+1, "state"))
	}
	shown, err := r.look(ctx, o, s, request.Trunk, true) // the holds that came back, without those that newer commits ended
	if err != nil {
		return err
	}
	shown = slices.DeleteFunc(shown, func(e promote.Status) bool {
		return !slices.ContainsFunc(list, func(r rollout.Record) bool { return r.Environment == e.Environment })
	})
	return r.show(o, shown, "")
}
