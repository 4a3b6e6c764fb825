package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

type affectedOptions struct{ common }

type affectedTarget struct {
	Cluster string `json:"cluster"`
	App     string `json:"app"`
	Effect  string `json:"effect"`
}

func newAffected(o IO) *cobra.Command {
	var a affectedOptions
	c := &cobra.Command{
		Use:   "affected BASE..HEAD",
		Short: "List the targets that a change can affect, without rendering",
		Long: `Compares the inputs of every target in two commits and lists the targets whose inputs differ, with what happens to them.
It renders nothing, so the output of a listed target may still be equal. Use it to choose what other jobs test.`,
		Example: `  sluice affected main..HEAD
  sluice affected main~5..main -o json`,
		Args: exactArgs("BASE..HEAD"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.check(); err != nil {
				return err
			}
			return a.run(c.Context(), o, args[0])
		},
	}
	a.readFlags(c, "text", "json")
	return c
}

func (a *affectedOptions) run(ctx context.Context, o IO, span string) error {
	base, head, ok := strings.Cut(span, "..")
	if !ok || base == "" || strings.HasPrefix(head, ".") {
		return usagef("%q is not BASE..HEAD, such as main..HEAD", span)
	}
	a.Detect, a.Remember = true, true // nothing is written
	s, err := app.Open(ctx, o.Env, a.Options, a.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	from, err := s.Commit(ctx, base)
	if err != nil {
		return err
	}
	to, err := s.Commit(ctx, head)
	if err != nil {
		return err
	}
	found, err := s.Affected(ctx, from.Tree, to.Tree)
	if err != nil {
		return err
	}
	rows := make([]affectedTarget, len(found))
	for i, t := range found {
		rows[i] = affectedTarget{t.Cluster, t.App, string(t.Effect)}
	}
	if a.structured() {
		return a.encode(o.Out, rows)
	}
	table := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Cluster, r.App, r.Effect)
	}
	return table.Flush()
}
