package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// WriteStatus writes what an environment runs, how far it is, and what it waits for.
func WriteStatus(w io.Writer, e *promotion.Status) {
	fmt.Fprintf(w, "%s runs %s", e.Environment, e.Source)
	if e.Behind > 0 && !e.Source.Empty() {
		fmt.Fprintf(w, ", %d commit%s behind the trunk", e.Behind, map[bool]string{false: "s"}[e.Behind == 1])
	}
	fmt.Fprintln(w)
	if e.Foreign != "" {
		fmt.Fprintf(w, "  foreign  %s\n", e.Foreign)
	}
	for _, r := range e.Refused {
		fmt.Fprintf(w, "  refused  %s\n", r)
	}
	for _, d := range e.Done {
		fmt.Fprintf(w, "  done     %s\n", d)
	}
	for _, g := range slices.Concat(e.Decision.Gates, e.Decision.WaveGates) {
		if g.State != promote.Green {
			fmt.Fprintf(w, "  gate     %s\n", g)
		}
	}
	if len(e.Decision.Waves) > 1 {
		for _, v := range e.Decision.Waves {
			fmt.Fprintf(w, "  wave     %s: %s, %d of %d clusters%s\n", v.Name, v.State, v.Moved, v.Total, reason(v.Reason))
		}
	}
	if len(e.Decision.Frozen) > 0 {
		fmt.Fprintf(w, "  frozen   %s\n", strings.Join(e.Decision.Frozen, ", "))
	}
	if e.Decision.WaitsFor != "" {
		fmt.Fprintf(w, "  waits    %s\n", e.Decision.WaitsFor)
	}
}

func reason(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// WriteFollower writes what an environment runs that comes after no other.
func WriteFollower(w io.Writer, r *promotion.Running) {
	runs := "nothing"
	if !r.Source.IsZero() {
		runs = r.Source.String()
	}
	fmt.Fprintf(w, "%s runs %.8s; it follows the trunk\n", r.Environment, runs)
}

// status answers `/sluice status` with what `sluice status` shows: it decides, and does nothing.
func (w *workspace) status(ctx context.Context, o bot.Order) (string, error) {
	running, err := w.Running(ctx, o.Trunk.Tree)
	if err != nil {
		return "", err
	}
	output, err := w.outputOf(ctx, o.Trunk.Tree)
	if err != nil {
		return "", err
	}
	list, failed := w.Session.Promotions(ctx, promotion.Request{
		Trunk: o.Trunk, Now: w.clock(), DryRun: true,
		Adapters: (&outside{session: w.Session, trunk: o.Trunk, forge: w.forge.adapter, repo: w.place.Repo(), output: output, client: checkClient(), verdicts: w.verdicts}).adapters(),
	})
	if failed != nil && len(list) == 0 {
		return "", failed
	}
	rows := make([]report.JourneyRow, len(running))
	var text strings.Builder
	for i, r := range running {
		rows[i] = report.JourneyRow{Environment: r.Environment, State: "not rendered yet", Since: r.Since, Waits: r.Foreign}
		if !r.Source.IsZero() {
			rows[i].Commit, rows[i].State = r.Source.String(), "runs it"
		}
		at := slices.IndexFunc(list, func(e promotion.Status) bool { return e.Environment == r.Environment })
		if at < 0 {
			WriteFollower(&text, &r)
			continue
		}
		rows[i].Waits = cmp.Or(r.Foreign, list[at].Decision.WaitsFor)
		WriteStatus(&text, &list[at])
	}
	if failed != nil {
		text.WriteString("not all could be looked at: the service's log says why\n")
	}
	return report.JourneyBlock(rows) + "\n" + report.Block(strings.Split(strings.TrimSpace(text.String()), "\n")), nil
}
