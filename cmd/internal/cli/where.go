package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

type whereOptions struct {
	common
	selection selection
	searched  searchFlags
	commit    string
}

// placed is one target with its sources and its branch.
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
		Use:   "where",
		Short: "List which app runs on which cluster, in which version",
		Long: `Lists every target of the fleet: cluster, app, environment, the version of its chart or the path of its source, and the
branch that holds its manifests. It renders nothing. Without --commit, where reads the files of the working tree.

--image, --chart, --kind, --object, --namespace and --value list only targets whose manifests on the cluster branches match:
every word of a flag must occur, and all flags must match. They search an index in the cache folder, which the command
updates first.`,
		Example: `  sluice where
  sluice where --app ingress-nginx
  sluice where --image "log4j 2.14"
  sluice where --kind policy/v1beta1 --env prod
  sluice where --env prod --cluster eu-west-1a -o json`,
		Args: noArgs("select with --env, --cluster and --app"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return err
			}
			if !w.searched.query.Empty() {
				return w.search(c.Context(), o)
			}
			return w.run(c.Context(), o)
		},
	}
	w.readFlags(c, "text", "json")
	w.selection.flags(c)
	c.Flags().StringVar(&w.commit, "commit", "", "`revision` to read (default: the working tree)")
	w.searched.add(c, &w.common)
	return c
}

func (w *whereOptions) run(ctx context.Context, o IO) error {
	w.Remember = true
	s, tree, f, err := openFleet(ctx, o, &w.common, w.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := w.selection.check(f); err != nil {
		return err
	}
	rows := []placed{}
	for _, t := range f.Targets() {
		if w.selection.covers(t) {
			rows = append(rows, place(ctx, s, tree, f, t))
		}
	}
	if w.structured() {
		return w.encode(o.Out, rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(o.Err, "sluice: no target matches: compare the placement of the apps with the labels of the clusters")
	}
	return printPlaced(o.Out, rows)
}

func place(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet, t fleet.Target) placed {
	out := placed{
		Cluster: t.Cluster.Name, App: t.App.Name, Environment: t.Cluster.Environment, State: t.Cluster.State,
		Branch: f.ClusterBranch(t.Cluster),
	}
	view, err := s.Open(ctx, tree)
	if err == nil {
		out.Sources, err = view.Versions(t)
	}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// printPlaced prints a table, and below it why targets cannot be read: such an error can have several lines.
func printPlaced(w io.Writer, rows []placed) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tAPP\tENVIRONMENT\tSTATE\tSOURCE\tBRANCH")
	for _, r := range rows {
		source := strings.Join(r.Sources, ", ")
		if r.Error != "" {
			source = "cannot be read"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Cluster, r.App, r.Environment, r.State, source, r.Branch)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Error != "" {
			fmt.Fprintf(w, "\n%s on %s cannot be read: %s\n", r.App, r.Cluster, r.Error)
		}
	}
	return nil
}
