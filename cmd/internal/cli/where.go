package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

type whereOptions struct {
	common
	app, cluster string
	commit       string
}

// placed is one row: an app on a cluster.
type placed struct {
	Cluster     string   `json:"cluster"`
	App         string   `json:"app"`
	Environment string   `json:"environment"`
	State       string   `json:"state"`
	Sources     []string `json:"sources"`
	Branch      string   `json:"branch"`
	Error       string   `json:"error,omitempty"`
}

func newWhere(o IO) *cobra.Command {
	var w whereOptions
	c := &cobra.Command{
		Use:   "where [--app APP] [--cluster CLUSTER]",
		Short: "List which app goes to which cluster, in which version",
		Example: `  sluice where --app ingress-nginx
  sluice where --cluster eu-west-1a -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check("text", "json"); err != nil {
				return err
			}
			return w.run(c.Context(), o)
		},
	}
	w.flags(c, "text", "json")
	c.Flags().StringVar(&w.app, "app", "", "only this `app`")
	c.Flags().StringVar(&w.cluster, "cluster", "", "only this `cluster`")
	c.Flags().StringVar(&w.commit, "commit", "", "`revision` to read (default: the working tree)")
	return c
}

func (w *whereOptions) run(ctx context.Context, o IO) error {
	s, tree, err := openTree(ctx, o, &w.common, w.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return err
	}
	if err := known(f, w.app, w.cluster); err != nil {
		return err
	}
	rows := []placed{}
	for _, t := range f.Targets() {
		if w.app != "" && t.App.Name != w.app || w.cluster != "" && t.Cluster.Name != w.cluster {
			continue
		}
		rows = append(rows, place(ctx, s, tree, f, t))
	}
	if w.output == "json" {
		return printJSON(o.Out, rows)
	}
	return printPlaced(o.Out, rows)
}

func known(f *fleet.Fleet, app, cluster string) error {
	if _, ok := f.App(app); app != "" && !ok {
		return fmt.Errorf("there is no app %q in the fleet", app)
	}
	if _, ok := f.Cluster(cluster); cluster != "" && !ok {
		return fmt.Errorf("there is no cluster %q in the fleet", cluster)
	}
	return nil
}

func place(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet, t fleet.Target) placed {
	out := placed{Cluster: t.Cluster.Name, App: t.App.Name, Environment: t.Cluster.Environment, State: t.Cluster.State, Branch: f.ClusterBranch(t.Cluster)}
	versions, err := s.Versions(ctx, tree, t)
	if err != nil {
		out.Error = err.Error()
	}
	out.Sources = versions
	return out
}

func printPlaced(w io.Writer, rows []placed) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tAPP\tENVIRONMENT\tSTATE\tSOURCE\tBRANCH")
	for _, r := range rows {
		source := cmp.Or(r.Error, strings.Join(r.Sources, ", "))
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Cluster, r.App, r.Environment, r.State, source, r.Branch)
	}
	return table.Flush()
}

type explainOptions struct {
	common
	app, cluster, source, value string
	commit                      string
}

func newExplain(o IO) *cobra.Command {
	var e explainOptions
	c := &cobra.Command{
		Use:   "explain --app APP --cluster CLUSTER [--value PATH]",
		Short: "Show where a Helm value comes from",
		Long: `Shows every layer that sets a value, lowest precedence first, with file and line: the winner, and all that it
shadows. Without --value, every value.`,
		Example: `  sluice explain --app shop --cluster prod-eu-1 --value replicas
  sluice explain --app shop --cluster prod-eu-1 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.check("text", "json"); err != nil {
				return err
			}
			return e.run(c.Context(), o)
		},
	}
	e.flags(c, "text", "json")
	f := c.Flags()
	f.StringVar(&e.app, "app", "", "the `app` (needed)")
	f.StringVar(&e.cluster, "cluster", "", "the `cluster` (needed)")
	f.StringVar(&e.source, "source", "", "`name` of the source, for an app with several")
	f.StringVar(&e.value, "value", "", "`path` of the value, such as image.tag")
	f.StringVar(&e.commit, "commit", "", "`revision` to read (default: the working tree)")
	return c
}

func (e *explainOptions) run(ctx context.Context, o IO) error {
	if e.app == "" || e.cluster == "" {
		return &exitError{ExitUsage, errors.New("--app and --cluster are needed")}
	}
	s, tree, err := openTree(ctx, o, &e.common, e.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return err
	}
	if err := known(f, e.app, e.cluster); err != nil {
		return err
	}
	a, _ := f.App(e.app)
	c, _ := f.Cluster(e.cluster)
	if !f.Places(a, c) {
		return fmt.Errorf("the app %s does not go to cluster %s: compare its placement with the cluster's labels", e.app, e.cluster)
	}
	t := fleet.Target{App: a, Cluster: c}
	defaults, err := s.Defaults(ctx, tree, t, e.source)
	if err != nil {
		fmt.Fprintf(o.Err, "the chart's defaults are left out: %v\n", err)
	}
	chains, err := f.Explain(t, e.source, e.value, defaults)
	if err != nil {
		return err
	}
	if e.output == "json" {
		return printJSON(o.Out, chains)
	}
	return printChains(o.Out, chains)
}

func printChains(w io.Writer, chains []fleet.Chain) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, chain := range chains {
		fmt.Fprintf(table, "%s\t\t\t\n", chain.Path)
		for _, origin := range chain.Origins {
			mark, what := " ", ""
			if origin.Winner {
				mark = "*"
			}
			if origin.Deletes {
				what = "(deleted)"
			} else {
				what = inline(origin.Set)
			}
			layer := origin.Layer
			if origin.Value != "" {
				layer += "=" + origin.Value
			}
			fmt.Fprintf(table, "  %s %s\t%s\t%s:%d\n", mark, layer, what, cmp.Or(origin.File, "-"), origin.Line)
		}
	}
	return table.Flush()
}
