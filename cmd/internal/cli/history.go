package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
)

func newHistory(o IO) *cobra.Command {
	var p environmentFlags
	var most int
	c := &cobra.Command{
		Use:   "history ENV",
		Short: "Show what an environment ran, and who changed it, when and why",
		Long: `Reads the environment's branch, and from sluice/state the commands that no commit of the branch shows: approvals, halts, freezes, and
their ends. It works for an environment that was removed from the fleet, for as long as its branch exists. ` + "`sluice schema history`" + `
prints the JSON schema of the output.`,
		Example: "  sluice history prod\n  sluice history prod -n 5 -o json",
		Args:    exactArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.history(cmd.Context(), o, args[0], most)
		},
	}
	p.add(c)
	c.Flags().IntVarP(&most, "number", "n", 20, "most `entries`")
	return c
}

func (p *environmentFlags) history(ctx context.Context, o IO, environment string, most int) error {
	if most < 1 {
		return usagef("--number must be at least 1, not %d", most)
	}
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	list, err := promote.ReadHistory(ctx, s.Hydrator, trunk.Tree, environment, most)
	if errors.Is(err, promote.ErrNoEnvironment) {
		return &exitError{ExitUsage, err}
	}
	if err != nil && len(list) == 0 {
		return err
	}
	if p.structured() {
		return errors.Join(p.encode(o.Out, historyEntries(list)), err)
	}
	site, unread := promote.ReadSite(ctx, s.Hydrator, p.request(s, trunk), environment)
	err = errors.Join(err, unread)
	if site != nil {
		fmt.Fprintln(o.Out, safetext.Line(site.String()))
	}
	return errors.Join(printHistory(o.Out, list), err)
}

// historyEntry is a state that an environment had, or a command that changed its record alone.
type historyEntry struct {
	// Kind reports whether the entry is a state of the environment branch, or a command that no commit of it shows.
	Kind string `json:"kind" jsonschema:"enum=state,enum=command"`
	// At is when it happened.
	At time.Time `json:"at"`
	// By is the person who asked for it, or Sluice.
	By string `json:"by"`
	// Commit of the environment branch, of a state.
	Commit string `json:"commit,omitempty"`
	// Tree of that commit.
	Tree string `json:"tree,omitempty"`
	// Source is the source commit that the environment ran.
	Source string `json:"source,omitempty"`
	// Apps maps apps that ran another source commit to it.
	Apps map[string]string `json:"apps,omitempty"`
	// Clusters maps clusters that ran something else to what they ran.
	Clusters map[string]clusterEntry `json:"clusters,omitempty"`
	// Subject of the commit.
	Subject string `json:"subject,omitempty"`
	// Author of the commit.
	Author string `json:"author,omitempty"`
	// Trailers of the commit.
	Trailers map[string][]string `json:"trailers,omitempty"`
	// Verb of a command.
	Verb string `json:"verb,omitempty" jsonschema:"enum=approve,enum=cancel,enum=freeze,enum=unfreeze,enum=halt,enum=resume,enum=expedited,enum=repair"`
	// Scope of a command: clusters, a wave, apps, or the tree that was approved.
	Scope string `json:"scope,omitempty"`
	// Reason of a command.
	Reason string `json:"reason,omitempty"`
	// Until is when a freeze ends.
	Until time.Time `json:"until,omitzero"`
}

func historyEntries(list []promote.HistoryEntry) []historyEntry {
	out := []historyEntry{}
	for _, e := range list {
		if c := e.Command; c != nil {
			out = append(out, historyEntry{
				Kind: "command", At: e.At, By: e.By(), Verb: string(c.Verb), Scope: c.Scope,
				Reason: c.Reason, Until: c.Until,
			})
			continue
		}
		one := historyEntry{
			Kind: "state", Commit: e.Commit.String(), Tree: e.Tree.String(), Source: e.Source.Commit,
			Apps: e.Source.Apps, At: e.At, By: e.By(), Subject: e.Subject,
			Author: e.Author, Trailers: map[string][]string{},
		}
		for name, c := range e.Source.Clusters {
			if one.Clusters == nil {
				one.Clusters = map[string]clusterEntry{}
			}
			one.Clusters[name] = clusterEntry(c)
		}
		for _, t := range e.Trailers {
			one.Trailers[t.Key] = append(one.Trailers[t.Key], t.Value)
		}
		out = append(out, one)
	}
	return out
}

func printHistory(w io.Writer, list []promote.HistoryEntry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMMIT\tSOURCE\tWHEN\tBY\tWHAT")
	for _, e := range list {
		if e.Command != nil {
			fmt.Fprintf(table, "-\t-\t%s\t%s\t%s\n", e.At.UTC().Format(time.DateTime), safetext.Line(e.By()),
				safetext.Line(e.What()))
			continue
		}
		fmt.Fprintf(table, "%s\t%.10s\t%s\t%s\t%s\n", e.Commit.Short(), e.Source.Commit,
			e.At.UTC().Format(time.DateTime), safetext.Line(e.By()), safetext.Line(e.What()))
	}
	return table.Flush()
}
