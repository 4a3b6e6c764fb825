package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/promote"
)

func newStatus(o IO) *cobra.Command {
	var p environmentFlags
	var again, versions bool
	var interval time.Duration
	c := &cobra.Command{
		Use:   "status [ENV]",
		Short: "Show what environments run, what is held back, and what promotions wait for",
		Long: `Reads branches and records, evaluates the gates, and changes nothing. ` + "`sluice schema status`" +
			` prints the JSON schema
of the output, ` + "`sluice schema versions`" + ` that of the output with --versions.`,
		Example: "  sluice status\n  sluice status prod -o json | jq '.[0].gates'\n  sluice status prod --watch\n  sluice status --versions",
		Args:    maxArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			environment := strings.Join(args, "")
			if versions {
				return p.versions(cmd.Context(), o, environment)
			}
			if !again {
				return p.status(cmd.Context(), o, environment)
			}
			if interval < time.Second {
				return usagef("--interval must be at least 1s, not %s", interval)
			}
			p.quiet = true // progress would mix with what is shown
			return watch(cmd.Context(), o, interval, func(ctx context.Context, w io.Writer) error {
				shown := o
				shown.Out = w
				return p.status(ctx, shown, environment)
			})
		},
	}
	p.add(c)
	c.Flags().BoolVar(&versions, "versions", false, "show which version of Kubernetes clusters have, how upgrades go, and what keeps clusters behind the trunk")
	c.Flags().BoolVar(&again, "watch", false, "show the status again and again until interrupted")
	c.Flags().DurationVar(&interval, "interval", 10*time.Second, "`interval` of --watch")
	c.MarkFlagsMutuallyExclusive("versions", "watch")
	return c
}

// versions shows the versions of Kubernetes of one environment, or of all.
func (p *environmentFlags) versions(ctx context.Context, o IO, only string) error {
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	if only != "" {
		if err := known(ctx, s, trunk, only, false); err != nil {
			return err
		}
	}
	r := p.request(s, trunk)
	r.DryRun = true
	statuses, failed := promote.Run(ctx, s.Hydrator, r)
	found, err := promote.Versions(ctx, s.Hydrator, trunk, statuses, s.Runtime.Clock(), nil)
	if err != nil {
		return errors.Join(failed, err)
	}
	if only != "" {
		found = found.Of(only)
	}
	if p.structured() {
		return errors.Join(failed, p.encode(o.Out, found))
	}
	return errors.Join(failed, promote.WriteVersions(o.Out, found, s.Runtime.Clock()))
}

func (p *environmentFlags) status(ctx context.Context, o IO, only string) error {
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	if only != "" {
		if err := known(ctx, s, trunk, only, false); err != nil {
			return err
		}
	}
	r := p.request(s, trunk)
	r.DryRun = true
	list, failed := promote.Run(ctx, s.Hydrator, r)
	running, err := promote.ReadRunning(ctx, s.Hydrator, trunk.Tree)
	if err != nil {
		return errors.Join(failed, err)
	}
	promoted := map[string]bool{}
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	for _, e := range f.Spec.Environments {
		promoted[e.Name] = len(e.After) > 0
	}
	if p.structured() {
		entries := followerEntries(running, promoted, only)
		return errors.Join(failed, p.encode(o.Out, append(entries, statusEntries(list, only)...)))
	}
	for _, r := range running {
		if !promoted[r.Environment] && (only == "" || only == r.Environment) {
			r.WriteText(o.Out)
		}
	}
	for i := range list {
		if only == "" || list[i].Environment == only {
			list[i].WriteText(o.Out, "sluice")
		}
	}
	if warning := promote.Unsigned(f); warning != "" {
		fmt.Fprintln(o.Out, warning)
	}
	return failed
}
