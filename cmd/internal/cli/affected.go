package cli

import (
	"context"
	"encoding/json"
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
		Short: "List the targets that a change can touch, without rendering",
		Example: `  sluice affected main..HEAD
  sluice affected main~5..main -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.check("text", "json"); err != nil {
				return err
			}
			return a.run(c.Context(), o, args[0])
		},
	}
	a.flags(c, "text", "json")
	return c
}

func (a *affectedOptions) run(ctx context.Context, o IO, span string) error {
	base, head, ok := strings.Cut(span, "..")
	if !ok || base == "" || strings.HasPrefix(head, ".") {
		return &exitError{ExitUsage, fmt.Errorf("%q is no BASE..HEAD", span)}
	}
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
	if a.output == "json" {
		return printJSON(o.Out, rows)
	}
	table := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Cluster, r.App, r.Effect)
	}
	return table.Flush()
}

// inline is a value on one line.
func inline(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}
