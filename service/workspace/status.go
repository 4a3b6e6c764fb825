package workspace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// WriteStatus writes what a promoted environment runs, its waves, and what it waits for.
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

// WriteFollower writes what an environment runs that follows the trunk.
func WriteFollower(w io.Writer, r *promotion.Running) {
	runs := "nothing"
	if !r.Source.IsZero() {
		runs = r.Source.String()
	}
	fmt.Fprintf(w, "%s runs %.8s; it follows the trunk\n", r.Environment, runs)
}
