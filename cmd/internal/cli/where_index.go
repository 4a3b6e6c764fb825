package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/site/index"
)

// searchFlags add the search in rendered branches to `where`.
type searchFlags struct {
	query  index.Query
	remote string
	local  bool
}

func (s *searchFlags) add(c *cobra.Command, w *common) {
	f := c.Flags()
	f.StringVar(&s.query.Image, "image", "",
		"only targets with an image that contains these `words`, such as \"log4j 2.14\"")
	f.StringVar(&s.query.Chart, "chart", "", "only targets whose chart with version, or path, contains these `words`")
	f.StringVar(&s.query.Type, "kind", "",
		"only targets with objects whose kind or API version contains these `words`, such as policy/v1beta1")
	f.StringVar(&s.query.Object, "object", "",
		"only targets with an object whose kind and namespace/name contain these `words`")
	f.StringVar(&s.query.Namespace, "namespace", "",
		"only targets with objects in a namespace that contains these `words`")
	f.StringVar(&s.query.Value, "value", "", "only targets for which a layer sets the value at this `path`")
	w.remoteFlag(f, &s.remote, "`name` of the remote whose branches are searched")
	f.BoolVar(&s.local, "local", false, "search the branches of this clone")
	for _, name := range []string{"image", "chart", "kind", "object", "namespace", "value"} {
		c.MarkFlagsMutuallyExclusive(name, "commit")
		completeFlag(c, name, completeNothing)
	}
}

// foundTarget is a target that a search found.
type foundTarget struct {
	Cluster     string   `json:"cluster"`
	App         string   `json:"app"`
	Environment string   `json:"environment"`
	Matches     []string `json:"matches"`
	Branch      string   `json:"branch"`
}

// search updates the index of the cluster branches and looks targets up in it.
func (w *whereOptions) search(ctx context.Context, o IO) error {
	s, trunk, err := (&environmentFlags{common: w.common, remote: w.searched.remote, local: w.searched.local}).open(ctx,
		o)
	if err != nil {
		return err
	}
	defer s.Close()
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	if err := w.selection.check(f); err != nil {
		return err
	}
	file := filepath.Join(o.Env.CacheDir(), "index", s.Place())
	x, err := index.Open(file)
	if err != nil {
		return err
	}
	current, stats, err := index.Fleet(ctx, x, s.Hydrator, trunk.Tree, w.searched.query.Value != "")
	if err != nil {
		return err
	}
	if w.verbose {
		fmt.Fprintf(o.Err, "index: %s, %s read\n", count(stats.Clusters, "cluster"), count(stats.Objects, "object"))
	}
	if current != x {
		if err := current.Save(file); err != nil {
			fmt.Fprintf(o.Err, "warning: the next search builds the index again: %v\n", err)
		}
	}
	hits, _ := current.Search(w.searched.query, 0)
	rows := []foundTarget{}
	for _, h := range hits {
		c, ok := f.Cluster(h.Cluster)
		if !ok {
			continue
		}
		if a, known := f.App(h.App); w.selection.covers(fleet.Target{Cluster: c, App: orNamed(a, known, h.App)}) {
			rows = append(rows, foundTarget{h.Cluster, h.App, c.Environment, h.Matches, f.ClusterBranch(c)})
		}
	}
	if w.structured() {
		return w.encode(o.Out, rows)
	}
	if len(rows) == 0 {
		fmt.Fprintf(o.Err, "sluice: no target matches among %s\n", count(current.Targets(), "target"))
		return nil
	}
	return printFound(o.Out, rows)
}

// orNamed prints the name of an app that branches still hold and the fleet no longer has.
func orNamed(a *fleet.App, known bool, name string) *fleet.App {
	if known {
		return a
	}
	return &fleet.App{Name: name}
}

func printFound(w io.Writer, rows []foundTarget) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tAPP\tENVIRONMENT\tMATCHES")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", safetext.Line(r.Cluster), safetext.Line(r.App), r.Environment,
			safetext.Line(strings.Join(r.Matches, ", ")))
	}
	return table.Flush()
}
