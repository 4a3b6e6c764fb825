package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

type catalogOptions struct {
	common
	commit string
}

// catalogRow is a version of an app of the catalog, for JSON.
type catalogRow struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description,omitempty"`
	Deprecated  string            `json:"deprecated,omitempty"` // why
	File        string            `json:"file"`
	Repository  string            `json:"repository,omitempty"` // that has the file, if it is another one
	Parameters  []fleet.Parameter `json:"parameters"`
	Apps        []string          `json:"apps"`     // of the commit, that are taken from the version
	Clusters    []string          `json:"clusters"` // on which they are placed
}

func newCatalog(o IO) *cobra.Command {
	var a catalogOptions
	c := &cobra.Command{
		Use:   "catalog [NAME]",
		Short: "List the apps to choose from, or show the parameters of one and who uses it",
		Long: `Lists the apps of the catalog with their versions: those below catalog/, and those of the repositories that spec.catalog
names. With a name, it shows the parameters of each version and the apps that are taken from it.`,
		Example: `  sluice catalog
  sluice catalog postgres
  sluice catalog -o json | jq -r '.[] | select(.deprecated) | .apps[]'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.check("text", "json"); err != nil {
				return err
			}
			return a.run(cmd.Context(), o, strings.Join(args, ""))
		},
	}
	a.readFlags(c, "text", "json")
	c.Flags().StringVar(&a.commit, "commit", "", "`revision` to read (default: the working tree)")
	return c
}

func (a *catalogOptions) run(ctx context.Context, o IO, name string) error {
	a.Remember = true
	s, _, f, err := openFleet(ctx, o, &a.common, a.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := catalogRows(f, name)
	if err != nil {
		return err
	}
	switch {
	case a.structured():
		return a.encode(o.Out, rows)
	case len(rows) == 0:
		fmt.Fprintln(o.Err, "sluice: the catalog is empty: docs/catalog.md says how to add an app to choose from")
		return nil
	case name == "":
		return printCatalog(o.Out, rows)
	}
	return printCatalogApp(o.Out, rows)
}

func catalogRows(f *fleet.Fleet, name string) ([]catalogRow, error) {
	out, names := []catalogRow{}, []string{}
	for _, c := range f.Catalog {
		names = append(names, c.Name)
		if name != "" && c.Name != name {
			continue
		}
		row := catalogRow{
			Name: c.Name, Version: c.Version(), Description: c.Spec.Description, Deprecated: c.Spec.Deprecated, File: c.Place(),
			Repository: c.Repository, Parameters: c.Parameters(), Apps: []string{}, Clusters: []string{},
		}
		for _, app := range f.Apps {
			if app.From() != c {
				continue
			}
			row.Apps = append(row.Apps, app.Name)
			for _, cluster := range f.Clusters {
				if f.Places(app, cluster) && !slices.Contains(row.Clusters, cluster.Name) {
					row.Clusters = append(row.Clusters, cluster.Name)
				}
			}
		}
		slices.Sort(row.Clusters)
		out = append(out, row)
	}
	if len(out) == 0 && name != "" {
		return nil, usagef("the catalog has no %s%s", safetext.Line(name), nearest.DidYouMean(name, slices.Compact(names)))
	}
	return out, nil
}

func printCatalog(w io.Writer, rows []catalogRow) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVERSION\tAPPS\tCLUSTERS\tDESCRIPTION")
	for _, r := range rows {
		text := r.Description
		if r.Deprecated != "" {
			text = "deprecated: " + r.Deprecated
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", r.Name, r.Version, len(r.Apps), len(r.Clusters), safetext.Line(text))
	}
	return table.Flush()
}

func printCatalogApp(w io.Writer, rows []catalogRow) error {
	for i, r := range rows {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s %s (%s)\n", r.Name, r.Version, safetext.Line(r.File))
		for _, text := range []string{r.Description, r.Deprecated} {
			if text != "" && text == r.Deprecated {
				text = "deprecated: " + text
			}
			if text != "" {
				fmt.Fprintln(w, safetext.Line(text))
			}
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, p := range r.Parameters {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", safetext.Line(p.Name), safetext.Line(p.Kind()), safetext.Line(p.Preset()), safetext.Line(p.Description))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		if len(r.Apps) == 0 {
			fmt.Fprintln(w, "no app is taken from it")
		} else {
			fmt.Fprintf(w, "used by %s on %s\n", strings.Join(r.Apps, ", "), count(len(r.Clusters), "cluster"))
		}
	}
	return nil
}

func catalogNames(f *fleet.Fleet) []string {
	var out []string
	for _, c := range f.Catalog {
		out = append(out, c.Name)
	}
	return slices.Compact(out)
}
