package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/site/conform"
)

type conformOptions struct {
	environmentFlags
	class  string
	by     []string
	budget int
}

func newConform(o IO) *cobra.Command {
	var f conformOptions
	c := &cobra.Command{
		Use:   "conform",
		Short: "Show which clusters differ from their siblings, and why",
		Long: `Compares what the branches of sibling clusters hold: clusters of one class in one environment, or those that --by makes
siblings. For each app, the rendering that most siblings have is the norm; if as many have another one, there is none, and all
of these clusters differ. Shows the clusters that differ, the objects and fields, and the layer files that cause it. Values of
registry variables, such as ${cluster.vars.domain}, do not count. A cluster that a rollout has not reached, or that a freeze or
a halt holds back, is compared as its environment branch has it.

Exit status: 0; 3 if more clusters than --budget differ.`,
		Example: `  sluice conform
  sluice conform --class edge --budget 3
  sluice conform --by class,region -o json | jq '.[].deviate'`,
		Args: noArgs("select with --class"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.run(c.Context(), o, c.Flags().Changed("budget"))
		},
	}
	f.add(c)
	c.Flags().StringVar(&f.class, "class", "", "only clusters of this `class`")
	c.Flags().StringSliceVar(&f.by, "by", nil,
		"`labels` whose equal values make clusters siblings (default class,environment)")
	amountVar(c.Flags(), &f.budget, "budget", 0, "`number` of clusters that may differ (default: any number)")
	return c
}

func (f *conformOptions) run(ctx context.Context, o IO, limited bool) error {
	if f.budget < 0 {
		return usagef("--budget must not be negative, but is %d", f.budget)
	}
	s, trunk, err := f.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	fl, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	labels := map[string]bool{}
	for _, c := range fl.Clusters {
		for key := range c.Labels {
			labels[key] = true
		}
	}
	if f.class != "" {
		if err := mustKnow("class", f.class, classNames(fl)); err != nil {
			return err
		}
	}
	for _, key := range f.by {
		if err := mustKnow("label", key, sortedKeys(labels)); err != nil {
			return err
		}
	}
	members, unfilled, err := conform.Read(ctx, s.Hydrator, fl, time.Now())
	if err != nil {
		return err
	}
	groups, err := conform.Compare(ctx, s.Store, fl, members, conform.Options{
		By: f.by, Class: f.class, Unfilled: unfilled,
		Masker: diff.NewMasker(s.FingerprintKey()),
	})
	if err != nil {
		return err
	}
	deviate := 0
	for i := range groups {
		deviate += len(groups[i].Deviate)
	}
	if f.structured() {
		err = f.encode(o.Out, groups)
	} else {
		err = o.paged(func(w io.Writer) error {
			printConformance(w, groups, deviate)
			return nil
		})
	}
	if err == nil && limited && deviate > f.budget {
		return &exitError{ExitDiffers, fmt.Errorf("%s %s from siblings, more than the budget of %d",
			count(deviate, "cluster"), differ(deviate), f.budget)}
	}
	return err
}

func printConformance(w io.Writer, groups []conform.Group, deviate int) {
	alone := 0
	for i := range groups {
		g := &groups[i]
		if len(g.Clusters) == 1 {
			alone++
			continue
		}
		fmt.Fprintf(w, "%s: %d of %s %s\n", safetext.Line(g.Name()), len(g.Deviate), count(len(g.Clusters), "cluster"),
			differ(len(g.Deviate)))
		if len(g.Waiting) > 0 {
			fmt.Fprintf(w, "  compared as the environment branch has them, because their own branch has not moved yet: %s\n",
				safetext.Line(some(g.Waiting)))
		}
		for j := range g.Apps {
			printDeviations(w, &g.Apps[j])
		}
	}
	fmt.Fprintf(w, "%s: %d %s from siblings, %d without siblings\n", count(clustersIn(groups), "cluster"), deviate,
		differ(deviate), alone)
}

func differ(n int) string {
	if n == 1 {
		return "differs"
	}
	return "differ"
}

func clustersIn(groups []conform.Group) int {
	n := 0
	for i := range groups {
		n += len(groups[i].Clusters)
	}
	return n
}

func printDeviations(w io.Writer, a *conform.App) {
	line := func(indent int, format string, args ...any) {
		fmt.Fprintln(w, strings.Repeat(" ", indent)+safetext.Line(fmt.Sprintf(format, args...)))
	}
	switch {
	case len(a.Missing) > 0 && len(a.Against) > 0 && len(a.Variants) == 0:
		line(2, "%s: missing on %s, present on %s; neither is the norm", a.App, some(a.Missing), some(a.Against))
	case len(a.Missing) > 0:
		line(2, "%s: missing on %s", a.App, some(a.Missing))
	}
	for i := range a.Variants {
		v := &a.Variants[i]
		norm := ""
		switch {
		case len(a.Norm) > 0:
			norm = ", unlike " + some(a.Norm)
		case len(a.Against) > 0:
			norm = ", unlike " + some(a.Against) + "; neither is the norm"
		}
		line(2, "%s: %s%s", a.App, some(v.Clusters), norm)
		for _, c := range v.Causes {
			line(4, "cause: %s", c)
		}
		for _, object := range v.Objects {
			switch object.Only {
			case "norm":
				there := "in the norm"
				if len(a.Against) > 0 {
					there = "on " + some(a.Against)
				}
				line(4, "%s: only %s", object.Object, there)
			case "variant":
				line(4, "%s: only here", object.Object)
			}
			for _, field := range object.Fields {
				line(4, "%s %s: %s → %s", object.Object, field.Path, shownField(field.Norm), shownField(field.Variant))
			}
		}
	}
}

func shownField(s string) string {
	if s == "" {
		return "not set"
	}
	return safetext.Shorten(s, fieldWidth)
}
