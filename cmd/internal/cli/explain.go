package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/gitstore"
)

type explainOptions struct {
	common
	app, cluster, source, value string
	commit                      string
	all                         bool
}

func newExplain(o IO) *cobra.Command {
	var e explainOptions
	c := &cobra.Command{
		Use:   "explain --app APP (--cluster CLUSTER | --all-clusters) [--value PATH]",
		Short: "Show which file sets a Helm value",
		Long: `Shows every layer that sets a value, lowest precedence first, with file and line. An asterisk marks the one that applies;
it overrides those above it. Without --value, explain shows all values.

For an app that is imported from Flux or Argo CD, shows first where its object is written, and which Kustomizations or
Applications apply that object. "sluice import -o json" has the same as JSON. The values that the object gives the chart
are one layer. A value has the line that sets it: in the object, in a patch, in a values file, or in a ConfigMap or Secret of
Git. If Sluice does not find it, as with values that a template computes, the value has the line of the object.

With --all-clusters, shows for each value what applies on which clusters; clusters with the same value from the same
line are one row.`,
		Example: `  sluice explain --app shop --cluster prod-eu-1 --value replicas
  sluice explain --app shop --all-clusters --value image
  sluice explain --app shop --cluster prod-eu-1 -o json`,
		Args: noArgs("name the app with --app and the cluster with --cluster"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.check(); err != nil {
				return err
			}
			return e.run(c.Context(), o)
		},
	}
	e.readFlags(c, "text", "json")
	f := c.Flags()
	f.StringVar(&e.app, "app", "", "`app` to explain (required)")
	f.StringVar(&e.cluster, "cluster", "", "`cluster` to explain it for")
	f.BoolVar(&e.all, "all-clusters", false, "compare all clusters that the app is placed on")
	f.StringVar(&e.source, "source", "", "`name` of the source, if the app has several")
	f.StringVar(&e.value, "value", "", "`path` of the value, such as image.tag")
	f.StringVar(&e.commit, "commit", "", "`revision` to read (default: the working tree)")
	c.MarkFlagsMutuallyExclusive("cluster", "all-clusters")
	return c
}

func (e *explainOptions) run(ctx context.Context, o IO) error {
	switch {
	case e.app == "":
		return usagef("--app is required: `sluice where` lists the apps")
	case e.cluster == "" && !e.all:
		return usagef("--cluster or --all-clusters is required: `sluice where --app %s` lists the clusters", e.app)
	}
	e.Remember = true
	s, tree, f, err := openFleet(ctx, o, &e.common, e.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := describesSome(f, e.app); err != nil {
		return err
	}
	if err := mustKnow("app", e.app, appNames(f)); err != nil {
		return err
	}
	a, _ := f.App(e.app) // known
	explain := &explainer{session: s, fleet: f, tree: tree, source: e.source, warn: o.Err}
	if e.all {
		return e.everywhere(ctx, o, explain, a)
	}
	if err := mustKnow("cluster", e.cluster, clusterNames(f)); err != nil {
		return err
	}
	c, _ := f.Cluster(e.cluster) // known
	if !f.Places(a, c) {
		if t := f.ImportedTarget(e.cluster, e.app); t != nil && t.Suspended {
			return fmt.Errorf("%s:%d: %s on %s is suspended, so it is not rendered (resume it to see its values)",
				t.Located(), t.Line, t.App, t.Cluster)
		}
		return fmt.Errorf("app %s is not placed on cluster %s: compare its placement with the labels of the cluster",
			e.app, e.cluster)
	}
	if t := f.ImportedTarget(e.cluster, e.app); t != nil && !e.structured() {
		printOrigins(o.Out, f, t)
	}
	chains, err := explain.chains(ctx, fleet.Target{App: a, Cluster: c}, e.value)
	if err != nil {
		return err
	}
	if e.structured() {
		return e.encode(o.Out, chains)
	}
	return printChains(o.Out, chains)
}

// explainer finds the origins of values. It reports charts whose defaults cannot be read once.
type explainer struct {
	session *app.Session
	fleet   *fleet.Fleet
	tree    gitstore.Hash
	source  string
	warn    io.Writer
	warned  bool
}

func (x *explainer) chains(ctx context.Context, t fleet.Target, value string) ([]explain.Chain, error) {
	view, err := x.session.Open(ctx, x.tree)
	if err != nil {
		return nil, err
	}
	defaults, err := view.Defaults(ctx, t, x.source)
	if err != nil && !x.warned {
		x.warned = true
		fmt.Fprintf(x.warn, "warning: the defaults of the chart are not shown: %v\n", err)
	}
	return explain.Values(x.fleet, t, x.source, value, defaults)
}

func printChains(w io.Writer, chains []explain.Chain) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, chain := range chains {
		fmt.Fprintf(table, "%s\t\t\t\n", chain.Path)
		for _, origin := range chain.Origins {
			mark := " "
			if origin.Winner {
				mark = "*"
			}
			fmt.Fprintf(table, "  %s %s\t%s\t%s\n", mark, layerOf(origin), valueOf(origin), placeOf(origin))
		}
	}
	return writeTrimmed(w, table, &text)
}

// printOrigins prints where an imported target is written, and its parents up to the one that the tool starts with.
func printOrigins(w io.Writer, f *fleet.Fleet, t *fleet.Imported) {
	fmt.Fprintf(w, "%s on %s: %s %s\n", t.App, t.Cluster, t.Kind, lineOf(t.Located(), t.Line))
	for _, p := range fleet.Parents(f, t) {
		on := ""
		if p.Cluster != t.Cluster {
			on = " on " + p.Cluster
		}
		fmt.Fprintf(w, "  applied by %s%s: %s %s\n", p.App, on, p.Kind, lineOf(p.Located(), p.Line))
	}
}

func layerOf(o explain.Origin) string {
	if o.Value == "" {
		return o.Layer
	}
	return o.Layer + "=" + o.Value
}

func valueOf(o explain.Origin) string {
	if o.Deletes {
		return "(deleted)"
	}
	return inline(o.Set)
}

func placeOf(o explain.Origin) string { return lineOf(cmp.Or(o.File, "-"), o.Line) }

// lineOf is `file:line`, without a line that is not known.
func lineOf(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// inline writes a value on one line.
func inline(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}

// outcome is the value, and its origins, on some clusters.
type outcome struct {
	Value    any            `json:"value"`
	Deleted  bool           `json:"deleted,omitempty"`
	Origin   explain.Origin `json:"origin"`
	Clusters []string       `json:"clusters"`
}

// outcomes are all variants of one value in the fleet.
type outcomes struct {
	Path     string    `json:"path"`
	Outcomes []outcome `json:"outcomes"`
}

// everywhere prints the values on all clusters of an app.
func (e *explainOptions) everywhere(ctx context.Context, o IO, x *explainer, a *fleet.App) error {
	list := []outcomes{}
	at := map[string]int{}
	placed := 0
	var last error
	for _, t := range x.fleet.Targets() {
		if t.App != a {
			continue
		}
		placed++
		chains, err := x.chains(ctx, t, e.value)
		var problems fleet.Problems
		if errors.As(err, &problems) || ctx.Err() != nil {
			return err
		}
		if err != nil { // no file sets the value for this cluster
			last = err
			continue
		}
		for _, chain := range chains {
			i, known := at[chain.Path]
			if !known {
				i = len(list)
				at[chain.Path] = i
				list = append(list, outcomes{Path: chain.Path})
			}
			list[i].add(winner(chain), t.Cluster.Name)
		}
	}
	switch {
	case placed == 0:
		return fmt.Errorf("app %s is placed on no cluster: compare its placement with the labels of the clusters",
			a.Name)
	case len(list) == 0 && last != nil:
		return last
	}
	slices.SortStableFunc(list, func(a, b outcomes) int { return strings.Compare(a.Path, b.Path) })
	if e.structured() {
		return e.encode(o.Out, list)
	}
	return printOutcomes(o.Out, list)
}

func winner(c explain.Chain) explain.Origin {
	for _, origin := range c.Origins {
		if origin.Winner {
			return origin
		}
	}
	return c.Origins[len(c.Origins)-1] // no origin wins for a deleted value
}

func (l *outcomes) add(origin explain.Origin, cluster string) {
	value := inline(origin.Set)
	for i := range l.Outcomes {
		if one := &l.Outcomes[i]; one.Origin.File == origin.File && one.Origin.Line == origin.Line &&
			one.Origin.Column == origin.Column && inline(one.Value) == value {
			one.Clusters = append(one.Clusters, cluster)
			return
		}
	}
	l.Outcomes = append(l.Outcomes, outcome{
		Value: origin.Set, Deleted: origin.Deletes, Origin: origin,
		Clusters: []string{cluster},
	})
}

func printOutcomes(w io.Writer, list []outcomes) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, l := range list {
		fmt.Fprintf(table, "%s\t\t\t\n", l.Path)
		for _, one := range l.Outcomes {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", valueOf(one.Origin), layerOf(one.Origin), placeOf(one.Origin),
				some(one.Clusters))
		}
	}
	return writeTrimmed(w, table, &text)
}

// writeTrimmed writes the text of a table without spaces at the ends of lines. A path is a row of empty cells, so that
// all paths share the widths of the columns.
func writeTrimmed(w io.Writer, table *tabwriter.Writer, text *bytes.Buffer) error {
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// some lists the first names, and counts the others.
func some(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
