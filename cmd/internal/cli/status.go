package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

func newStatus(o IO) *cobra.Command {
	var p environmentFlags
	var again bool
	var interval time.Duration
	c := &cobra.Command{
		Use:     "status [ENV]",
		Short:   "Show what environments run, what is held back, and what promotions wait for",
		Long:    "Reads branches and records, decides, and changes nothing.",
		Example: "  sluice status\n  sluice status prod -o json | jq '.[0].gates'\n  sluice status prod --watch",
		Args:    maxArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			environment := strings.Join(args, "")
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
	c.Flags().BoolVar(&again, "watch", false, "show the status again and again until interrupted")
	c.Flags().DurationVar(&interval, "interval", 10*time.Second, "`interval` of --watch")
	return c
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
	list, failed := s.Promotions(ctx, r)
	running, err := promotion.ReadRunning(ctx, s.Hydrator, trunk.Tree)
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
	return failed
}

// statusEntry is an environment in the output of `status` and of the verbs that change environments.
type statusEntry struct {
	Environment string                  `json:"environment"`
	Branch      string                  `json:"branch"`
	Tip         string                  `json:"tip,omitempty"`
	Commit      string                  `json:"commit,omitempty"`
	Apps        map[string]string       `json:"apps,omitempty"`     // whose commit is another one
	Clusters    map[string]clusterEntry `json:"clusters,omitempty"` // that run something else
	Behind      int                     `json:"behind"`
	Done        []string                `json:"done,omitempty"`
	Refused     []string                `json:"refused,omitempty"`
	Halt        *haltEntry              `json:"halt,omitempty"`
	Holds       []holdEntry             `json:"holds,omitempty"`
	Freezes     []freezeEntry           `json:"freezes,omitempty"`
	Gates       []gateEntry             `json:"gates,omitempty"`
	WaveGates   []gateEntry             `json:"waveGates,omitempty"`
	Waves       []waveEntry             `json:"waves,omitempty"`
	Frozen      []string                `json:"frozen,omitempty"`
	WaitsFor    string                  `json:"waitsFor,omitempty"`
	Next        time.Time               `json:"next,omitzero"`
	Candidate   string                  `json:"candidate,omitempty"`
	Plan        *promotion.Plan         `json:"plan,omitempty"`
}

type clusterEntry struct {
	Commit string            `json:"commit"`
	Apps   map[string]string `json:"apps,omitempty"`
}

type haltEntry struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

type holdEntry struct {
	Cause    string    `json:"cause"` // failed, rolledBack or stopped
	Commit   string    `json:"commit"`
	Wave     string    `json:"wave,omitempty"`
	Clusters []string  `json:"clusters,omitempty"` // none: all
	Apps     []string  `json:"apps,omitempty"`     // none: all
	By       string    `json:"by"`
	Reason   string    `json:"reason,omitempty"`
	Since    time.Time `json:"since"`
	Ends     string    `json:"ends"`
}

type freezeEntry struct {
	Cluster string    `json:"cluster,omitempty"` // none: the environment
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until,omitzero"`
}

type waveEntry struct {
	Name   string    `json:"name"`
	State  string    `json:"state"`
	Moved  int       `json:"moved"`
	Total  int       `json:"total"`
	Frozen []string  `json:"frozen,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

type gateEntry struct {
	Name   string    `json:"name"`
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

func followerEntries(running []promotion.Running, promoted map[string]bool, only string) []statusEntry {
	out := []statusEntry{}
	for _, r := range running {
		if promoted[r.Environment] || only != "" && only != r.Environment {
			continue
		}
		one := statusEntry{Environment: r.Environment, Branch: r.Branch}
		if !r.Tip.IsZero() {
			one.Tip = r.Tip.String()
		}
		if !r.Source.IsZero() {
			one.Commit = r.Source.String()
		}
		out = append(out, one)
	}
	return out
}

func gateEntries(in []promote.Gate) []gateEntry {
	var out []gateEntry
	for _, g := range in {
		out = append(out, gateEntry{g.Name, string(g.State), g.Reason, g.Since, g.Until})
	}
	return out
}

func statusEntries(list []promotion.Status, environment string) []statusEntry {
	out := []statusEntry{}
	for i := range list {
		if e := &list[i]; environment == "" || e.Environment == environment {
			out = append(out, entryOf(e))
		}
	}
	return out
}

func entryOf(e *promotion.Status) statusEntry {
	d := &e.Decision
	one := statusEntry{
		Environment: e.Environment, Branch: e.Branch, Tip: e.Tip, Commit: e.Source.Commit, Apps: e.Source.Apps, Behind: e.Behind, Done: e.Done, Refused: e.Refused,
		Gates: gateEntries(d.Gates), WaveGates: gateEntries(d.WaveGates), Frozen: d.Frozen, WaitsFor: d.WaitsFor, Next: d.Next, Candidate: e.Candidate, Plan: e.Plan,
	}
	for _, name := range slices.Sorted(maps.Keys(e.Source.Clusters)) {
		if one.Clusters == nil {
			one.Clusters = map[string]clusterEntry{}
		}
		one.Clusters[name] = clusterEntry(e.Source.Clusters[name])
	}
	if h := d.Record.Halt; h != nil {
		one.Halt = &haltEntry{By: h.By, Reason: h.Reason, Since: h.At}
		if h.By == "" {
			one.Halt.By = "Sluice"
		}
	}
	for _, h := range d.Record.Holds {
		one.Holds = append(one.Holds, holdEntry{
			Cause: string(h.Cause), Commit: h.Source.Commit, Wave: h.Wave, Clusters: h.Clusters, Apps: h.Apps, By: h.Actor(), Reason: h.Reason, Since: h.Since,
			Ends: h.Ends(e.Environment, "sluice"),
		})
	}
	for _, f := range d.Freezes {
		one.Freezes = append(one.Freezes, freezeEntry{Cluster: f.Target, By: f.By, Reason: f.Reason, From: f.From, Until: f.Until})
	}
	for _, w := range d.Waves {
		one.Waves = append(one.Waves, waveEntry{w.Name, string(w.State), w.Moved, w.Total, w.Frozen, w.Since, w.Until, w.Reason})
	}
	return one
}

func newHistory(o IO) *cobra.Command {
	var p environmentFlags
	var most int
	c := &cobra.Command{
		Use:     "history ENV",
		Short:   "Show what an environment ran: who brought it there, when, and why; from Git alone",
		Long:    "Reads the environment's branch. It works for an environment that was removed from the fleet, for as long as its branch exists.",
		Example: "  sluice history prod\n  sluice history prod -n 5 -o json",
		Args:    exactArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			if most < 1 {
				return usagef("--number must be at least 1, not %d", most)
			}
			ctx := cmd.Context()
			s, trunk, err := p.open(ctx, o)
			if err != nil {
				return err
			}
			defer s.Close()
			list, err := promotion.ReadHistory(ctx, s.Hydrator, trunk.Tree, args[0], most)
			if errors.Is(err, promotion.ErrNoEnvironment) {
				return &exitError{ExitUsage, err}
			}
			if err != nil {
				return err
			}
			if p.structured() {
				return p.encode(o.Out, historyEntries(list))
			}
			return printHistory(o.Out, list)
		},
	}
	p.add(c)
	c.Flags().IntVarP(&most, "number", "n", 20, "most `entries`")
	return c
}

type historyEntry struct {
	Commit   string                  `json:"commit"`
	Tree     string                  `json:"tree"`
	Source   string                  `json:"source"`
	Apps     map[string]string       `json:"apps,omitempty"`
	Clusters map[string]clusterEntry `json:"clusters,omitempty"`
	At       time.Time               `json:"at"`
	By       string                  `json:"by"`
	Subject  string                  `json:"subject"`
	Author   string                  `json:"author"`
	Trailers map[string][]string     `json:"trailers"`
}

func historyEntries(list []promotion.HistoryEntry) []historyEntry {
	out := []historyEntry{}
	for _, e := range list {
		one := historyEntry{
			Commit: e.Commit.String(), Tree: e.Tree.String(), Source: e.Source.Commit, Apps: e.Source.Apps, At: e.At, By: e.By(), Subject: e.Subject, Author: e.Author,
			Trailers: map[string][]string{},
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

func printHistory(w io.Writer, list []promotion.HistoryEntry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMMIT\tSOURCE\tWHEN\tBY\tWHAT")
	for _, e := range list {
		fmt.Fprintf(table, "%s\t%.10s\t%s\t%s\t%s\n", e.Commit.Short(), e.Source.Commit, e.At.UTC().Format(time.DateTime), safetext.Line(e.By()), safetext.Line(e.What()))
	}
	return table.Flush()
}
