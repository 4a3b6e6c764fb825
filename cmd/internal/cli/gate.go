package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
)

func newGate(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use: "gate", Short: "Try expressions of gates on the past",
		Example: "  sluice gate test prod",
	})
	c.AddCommand(newGateTest(o))
	return c
}

// gateTestFlags are the flags of gate test.
type gateTestFlags struct {
	environmentFlags
	gates       []string
	text, since string
}

func newGateTest(o IO) *cobra.Command {
	var p gateTestFlags
	c := &cobra.Command{
		Use:   "test ENV",
		Short: "Show when gates would have been open for the promotions of the past",
		Long: `Evaluates the gates of an environment, or one expression, for each promotion in the history of the environment's branch: whether
the gate was open when the promotion landed, since when, and otherwise why not and when it would have opened. Everything comes
from Git. What Git does not have is unknown: the values of checks. An environment before counts as healthy for as long as it
ran the commit.

Exit status: 0; 1 if the history cannot be read; 2 usage error.`,
		Example: `  sluice gate test prod
  sluice gate test prod --gate soak --since 90d
  sluice gate test prod --expr 'changes.removed==0'
  sluice gate test prod -o json | jq '.[].promotions[] | select(.open | not)'`,
		Args: exactArgs("ENV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.test(cmd.Context(), o, args[0])
		},
	}
	p.add(c)
	c.Flags().StringSliceVar(&p.gates, "gate", nil, "only gates with these `names`")
	c.Flags().StringVar(&p.text, "expr", "", "an `expression` to try instead of the environment's gates")
	c.Flags().StringVar(&p.since, "since", "90d", "how far to look back: `time` or days, such as 2026-03-01, 90d or 12h")
	completeFlag(c, "gate", completeNothing)
	completeFlag(c, "expr", completeNothing)
	completeFlag(c, "since", completeNothing)
	return c
}

func (p *gateTestFlags) test(ctx context.Context, o IO, environment string) error {
	if p.text != "" && len(p.gates) > 0 {
		return usagef("--gate names gates of the environment, and --expr is instead of them: give one of them")
	}
	since, err := command.ParseSince(p.since, time.Now())
	if err != nil {
		return usagef("--since: %v", err)
	}
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := known(ctx, s, trunk, environment, true); err != nil {
		return err
	}
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	e, _ := f.Environment(environment) // known says that it exists
	gates, err := p.chosen(e)
	if err != nil {
		return err
	}
	out := []gateTest{}
	for _, g := range gates {
		if g.Unavailable != "" {
			return fmt.Errorf("gate %s: %s", g.Name, g.Unavailable)
		}
		compiled, err := expression.Compile(g.Expr)
		if err != nil {
			return fmt.Errorf("gate %s: %w", g.Name, err)
		}
		const most = 2_000
		list, err := promote.ReplayGate(ctx, s.Hydrator, promote.ReplayRequest{
			Trunk: trunk, Environment: environment, Gate: compiled, Since: since,
			Changes: compare.Differ(s.Hydrator, s.FingerprintKey(), most),
		})
		if err != nil {
			return err
		}
		out = append(out, gateTestOf(g, list))
	}
	if p.structured() {
		return p.encode(o.Out, out)
	}
	return printGateTests(o.Out, environment, since, out)
}

// chosen returns the gates to test.
func (p *gateTestFlags) chosen(e *fleet.Environment) ([]fleet.GateExpression, error) {
	if p.text != "" {
		if err := e.CheckGate(p.text); err != nil {
			return nil, usagef("--expr: %v", err)
		}
		return []fleet.GateExpression{{Expr: p.text}}, nil
	}
	all := e.Promotion.Gates
	if len(all) == 0 {
		return nil, usagef("environment %s has no gates of its own in spec.environments[].promotion.gates: try an expression with --expr", e.Name)
	}
	if len(p.gates) == 0 {
		return all, nil
	}
	var names []string
	for _, g := range all {
		names = append(names, g.Name)
	}
	var out []fleet.GateExpression
	for _, name := range p.gates {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, mustKnow("gate", name, names)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// gateTest is the past of one gate.
type gateTest struct {
	// Gate is its name; empty for --expr.
	Gate string `json:"gate,omitempty"`
	// Expr is its expression.
	Expr string `json:"expr"`
	// Promotions, newest first.
	Promotions []gateTestEntry `json:"promotions"`
}

// gateTestEntry is a promotion of the past.
type gateTestEntry struct {
	// At is when it landed.
	At time.Time `json:"at"`
	// Commit of the environment branch.
	Commit string `json:"commit"`
	// Source commit that it brought.
	Source string `json:"source"`
	// Subject of the source commit.
	Subject string `json:"subject,omitempty"`
	// Skipped is the reason why the promotion did not wait for its gates (--now).
	Skipped string `json:"skipped,omitempty"`
	// Open says that the gate was open when it landed.
	Open bool `json:"open"`
	// Opened is when an open gate opened.
	Opened time.Time `json:"opened,omitzero"`
	// Opens is when a closed gate would have opened if nothing but time had passed.
	Opens time.Time `json:"opens,omitzero"`
	// Unknown says what the expression asks for that is not in Git.
	Unknown []string `json:"unknown,omitempty"`
	// Terms are the parts of the expression, if the gate was not open.
	Terms []termEntry `json:"terms,omitempty"`
}

func gateTestOf(g fleet.GateExpression, list []promote.ReplayedPromotion) gateTest {
	out := gateTest{Gate: g.Name, Expr: g.Expr, Promotions: []gateTestEntry{}}
	for _, p := range list {
		out.Promotions = append(out.Promotions, gateTestEntry{
			At: p.At.UTC(), Commit: p.Commit.String(), Source: p.Source, Subject: p.Subject, Skipped: p.Now, Open: p.Open,
			Opened: p.Opened.UTC(), Opens: p.Opens.UTC(), Unknown: p.Unknown, Terms: termEntries(p.Terms),
		})
	}
	return out
}

func printGateTests(w io.Writer, environment string, since time.Time, list []gateTest) error {
	for i, g := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if g.Gate != "" {
			fmt.Fprintf(w, "gate/%s: %s\n", g.Gate, safetext.Line(g.Expr))
		}
		if len(g.Promotions) == 0 {
			fmt.Fprintf(w, "no promotion of %s since %s: --since looks further back\n", environment,
				since.Format(time.DateOnly))
			continue
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "LANDED\tSOURCE\tGATE\tCOMMIT MESSAGE")
		open, later, never, unknown := 0, 0, 0, 0
		for _, p := range g.Promotions {
			fmt.Fprintf(table, "%s\t%.10s\t%s\t%s\n", p.At.Format(time.DateTime), p.Source, safetext.Line(p.verdict()),
				safetext.Line(p.Subject))
			switch {
			case p.Open:
				open++
			case len(p.Unknown) > 0:
				unknown++
			case p.Opens.IsZero():
				never++
			default:
				later++
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(w, "%d of %d promotions would have passed as they did", open, len(g.Promotions))
		for _, one := range []struct {
			n    int
			text string
		}{{later, "later"}, {never, "not within 14 days"}, {unknown, "unknown"}} {
			if one.n > 0 {
				fmt.Fprintf(w, ", %d %s", one.n, one.text)
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

// verdict says in words whether the gate was open.
func (p gateTestEntry) verdict() string {
	switch {
	case p.Open && p.At.Sub(p.Opened) >= time.Minute:
		return fmt.Sprintf("open for %s", p.At.Sub(p.Opened).Round(time.Minute))
	case p.Open:
		return "open"
	case len(p.Unknown) > 0:
		return "unknown: " + strings.Join(p.Unknown, "; ")
	}
	var parts []string
	for _, t := range p.Terms {
		if t.Value != "true" {
			parts = append(parts, expression.Term(t).String())
		}
	}
	out := "closed: " + strings.Join(parts, "; ")
	if !p.Opens.IsZero() {
		out += fmt.Sprintf("; opens %s later", p.Opens.Sub(p.At).Round(time.Minute))
	}
	if p.Skipped != "" {
		out += "; the promotion did not wait for its gates: " + p.Skipped
	}
	return out
}
