package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

type promoteOptions struct {
	promotionFlags
	from, commit, reason string
	again                string
	apps, workspaces     []string
	dry, wait, now       bool
	cancel               bool
	timeout              time.Duration
}

func newPromote(o IO) *cobra.Command {
	var p promoteOptions
	c := &cobra.Command{
		Use:   "promote [ENV]",
		Short: "Bring an environment to a commit that the environments before it run",
		Long: `Requests a promotion, records the request on the branch sluice/state, and executes the steps whose gates pass: sluice writes the
whole state to the environment branch at once, and moves the cluster branches wave by wave. To continue a promotion, run the
command again, run it with --wait, or let the service or a scheduled job continue it. Without ENV, the command requests nothing
and continues the promotions that are due in all environments.

What was rolled back does not come again by accident: a promotion that would bring it back is refused, with who rolled it back and
why. --again REASON brings it, and ends the hold when it has landed. A newer commit that changes it needs no --again.

--cancel withdraws a promotion that somebody asked for and that still waits for its gates.

Exit status: 0 if the promotion is complete or continues; 1 if it was refused or failed; 2 usage error; 5 if a red gate or a halt
stops it; with --wait also 4 if the timeout passed.`,
		Example: `  sluice promote prod                          # what staging runs
  sluice promote prod --commit 1a2b3c4 --dry-run
  sluice promote prod --app shop --app cart    # only these apps
  sluice promote prod --workspace team-a       # only the apps of this workspace
  sluice promote prod --now --reason "CVE-2026-1234" --wait
  sluice promote prod --again "the database was the cause"
  sluice promote prod --cancel --reason "wrong commit"
  sluice promote                               # continue all that are due`,
		Args: maxArgs("ENV"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			if err := p.valid(c, args); err != nil {
				return err
			}
			return p.run(c.Context(), o, strings.Join(args, ""))
		},
	}
	p.add(c)
	f := c.Flags()
	f.StringVar(&p.from, "from", "", "`environment` to take from (default: what all environments before run)")
	textFlag(c, command.VerbPromote, "commit", &p.commit)
	listFlag(c, command.VerbPromote, "app", &p.apps)
	listFlag(c, command.VerbPromote, "workspace", &p.workspaces)
	f.BoolVar(&p.dry, "dry-run", false, "print the plan, and change nothing")
	f.BoolVar(&p.wait, "wait", false, "continue until the promotion is complete, refused or failed")
	f.DurationVar(&p.timeout, "timeout", time.Hour, "`time` limit of --wait")
	switchFlag(c, command.VerbPromote, "now", &p.now)
	switchFlag(c, command.VerbPromote, "cancel", &p.cancel)
	textFlag(c, command.VerbPromote, "again", &p.again)
	textFlag(c, command.VerbPromote, "reason", &p.reason)
	c.MarkFlagsMutuallyExclusive("from", "commit")
	c.MarkFlagsMutuallyExclusive("dry-run", "wait")
	for _, other := range []string{"from", "commit", "app", "workspace", "now", "again", "dry-run", "wait"} {
		c.MarkFlagsMutuallyExclusive("cancel", other)
	}
	return c
}

// valid refuses flags without an effect.
func (p *promoteOptions) valid(c *cobra.Command, args []string) error {
	set := func(name string) bool { return c.Flags().Changed(name) }
	if p.now && p.reason+p.again == "" {
		return usagef("--now needs --reason, which is recorded")
	}
	if set("timeout") && !p.wait {
		return usagef("--timeout has no effect without --wait")
	}
	if len(args) > 0 {
		return nil
	}
	for _, name := range []string{"from", "commit", "app", "workspace", "now", "cancel", "again", "reason"} {
		if set(name) {
			return usagef("--%s has no effect without ENV: it is about a request for one environment", name)
		}
	}
	return nil
}

func (p *promoteOptions) run(ctx context.Context, o IO, environment string) error {
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	var commands []promote.Command
	if environment != "" {
		if err := known(ctx, s, trunk, environment, true); err != nil {
			return err
		}
		c := promote.Command{Environment: environment, Verb: "promote", From: p.from, Revision: p.commit}
		c.Kind, c.Apps, c.Workspaces, c.Now, c.Reason = rollout.EventPromote, p.apps, p.workspaces, p.now, p.reason
		c.Again = p.again
		if p.cancel {
			c.Kind = rollout.EventCancel
		}
		commands = append(commands, c)
	}
	list, err := p.look(ctx, o, s, trunk, p.dry, commands...)
	refused := refusals(list, environment)
	if !p.wait {
		shown := p.showAll(o, list, environment, err)
		if err == nil && environment != "" && !p.dry && !p.cancel && !refused && state(list, environment) == blocked {
			return errBlocked()
		}
		return shown
	}
	deadline := time.Now().Add(p.timeout)
	for err == nil && !refused && state(list, environment) == waiting && time.Now().Before(deadline) {
		const pause = 5 * time.Second
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pause, time.Until(deadline))):
		}
		list, err = p.look(ctx, o, s, trunk, false)
	}
	if err := p.showAll(o, list, environment, err); err != nil && (refused || state(list, environment) == complete) {
		return err
	}
	switch {
	case err != nil || refused:
		return err
	case state(list, environment) == blocked:
		return errBlocked()
	case state(list, environment) == waiting:
		return &exitError{ExitTimeout, fmt.Errorf("the promotion is not complete after %s, and continues", p.timeout)}
	}
	return nil
}

func errBlocked() error {
	return &exitError{ExitBlocked, errors.New("a red gate or a halt stops the promotion")}
}

// progressState is the progress of a promotion, for --wait.
type progressState int

const (
	complete progressState = iota
	waiting
	blocked
)

// state returns the worst state of the environments.
func state(list []promote.Status, environment string) progressState {
	out := complete
	for i := range list {
		e := &list[i]
		if environment != "" && e.Environment != environment {
			continue
		}
		d := &e.Decision
		busy := d.Proposal != nil || d.Record.Progress != nil && d.Record.Progress.Done.IsZero() ||
			d.Record.Rollback != nil || d.Record.Request != nil
		red := d.Record.Halt != nil || e.Foreign != "" && d.WaitsFor != ""
		for _, g := range append(append([]rollout.Gate{}, d.Gates...), d.WaveGates...) {
			red = red || g.State == rollout.Red
		}
		switch {
		case red && (busy || d.Record.Halt != nil):
			out = max(out, blocked)
		case busy && d.WaitsFor != "":
			out = max(out, waiting)
		}
	}
	return out
}

func refusals(list []promote.Status, environment string) bool {
	for _, e := range list {
		if (environment == "" || e.Environment == environment) && len(e.Refused) > 0 {
			return true
		}
	}
	return false
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if stem, ok := strings.CutSuffix(word, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, word)
}
