package promote

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/rollout"
)

// WriteText writes what an environment runs, what is held back, how far its rollout is, and what it waits for. prefix
// begins the commands that the text advises: "sluice" or "/sluice". Control characters are escaped.
func (e *Status) WriteText(w io.Writer, prefix string) {
	t := &textWriter{w: w}
	t.head(e)
	steps, foreign := strings.CutPrefix(e.Decision.WaitsFor, e.Environment+" waits: "+e.Foreign)
	foreign = foreign && e.Foreign != ""
	if foreign {
		t.line("foreign", e.Foreign+steps)
	} else {
		t.line("foreign", e.Foreign)
	}
	e.Site.write(t, e.Environment)
	for _, r := range e.Refused {
		t.line("refused", r)
	}
	for _, d := range e.Done {
		t.line("done", d)
	}
	d := &e.Decision
	if b := d.Record.Rollback; b != nil {
		t.line("rollback", fmt.Sprintf("to %s by %s since %s is not complete%s", b.To, cmp.Or(b.By, "Sluice"),
			rollout.Stamp(b.At), rollout.Because(b.Reason)))
	}
	if h := d.Record.Halt; h != nil {
		t.line("halted", fmt.Sprintf("by %s since %s%s", cmp.Or(h.By, "Sluice"), rollout.Stamp(h.At),
			rollout.Because(h.Reason)))
	}
	for _, h := range d.Record.Holds {
		t.line("held", h.String())
		t.line("", h.Ends(e.Environment, prefix))
	}
	t.line("left out", leftOut(d.LeftOut))
	for _, f := range d.Freezes {
		t.line("freeze", fmt.Sprintf("%s is %s%s", cmp.Or(f.Target, e.Environment), f,
			freezeEnd(f, e.Environment, prefix)))
	}
	for _, g := range slices.Concat(d.Gates, d.WaveGates) {
		if g.Name == rollout.GateBranch && (foreign || d.WaitsFor == e.Environment+" waits: "+g.Reason) {
			continue // another line says it
		}
		if g.Name == rollout.GateReceipt && e.Site != nil && g.Reason == e.Site.Reason {
			continue
		}
		if g.Name != rollout.GateHalt && g.State != rollout.Green || g.Name == rollout.GateHold || e.Plan != nil {
			t.line("gate", g.String())
			for _, term := range g.Terms {
				t.line("", term.String())
			}
		}
	}
	if len(d.Waves) > 1 {
		for _, v := range d.Waves {
			t.line("wave", fmt.Sprintf("%s: %s, %d of %d clusters%s", v.Name, v.State, v.Moved, v.Total,
				parenthesis(v.Reason)))
		}
	}
	for _, s := range d.Silent {
		t.line("silent", s.String())
		t.line("", "to post it again: "+s.Command())
	}
	if len(d.Frozen) > 0 {
		t.line("frozen", strings.Join(d.Frozen, ", "))
	}
	e.Plan.write(t)
	if !foreign {
		t.line("waits", d.WaitsFor)
	}
}

// withoutMoves says that a command to promote or to render again moved no branch, where nothing else of the status shows
// it.
func (e *Status) withoutMoves(commands []Command) []string {
	var out []string
	for _, c := range commands {
		switch d := &e.Decision; {
		case c.Environment != e.Environment || e.Plan != nil:
		case c.Kind == rollout.EventRender && d.Record.Request == nil:
			out = append(out, fmt.Sprintf("nothing to write: %s has what %s renders to", e.Environment, e.Source))
		case c.Kind == rollout.EventPromote && d.WaitsFor == "":
			out = append(out, fmt.Sprintf("nothing to promote: %s runs %s already", e.Environment, e.Source))
		}
	}
	return out
}

// leftOut says why workspaces are behind; "" if none is.
func leftOut(workspaces []string) string {
	if len(workspaces) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: red in an environment before; changes follow after the bake there",
		rollout.Scope{Workspaces: workspaces})
}

// freezeEnd returns the command that ends a freeze.
func freezeEnd(f rollout.Freeze, environment, prefix string) string {
	if f.By == "" {
		return " (sluice.yaml says so)"
	}
	return fmt.Sprintf("; `%s unfreeze %s` ends it", prefix, cmp.Or(f.Target, environment))
}

// write writes the plan of a dry run.
func (p *Plan) write(t *textWriter) {
	if p == nil {
		return
	}
	t.line("plan", fmt.Sprintf("tree %s; %s on %s: %d added, %d changed, %d removed", p.Tree,
		hydrate.Count(p.Added+p.Changed+p.Removed, "object"), hydrate.Count(len(p.Clusters), "cluster"), p.Added,
		p.Changed, p.Removed))
	for _, c := range p.Commits {
		t.line("", c)
	}
	for _, w := range p.Waves {
		var names []string
		for _, c := range w.Clusters() {
			if slices.Contains(p.Clusters, c) {
				names = append(names, c)
			}
		}
		if len(names) == 0 {
			continue
		}
		bake := ""
		if w.Bake > 0 {
			bake = ", then bakes for " + w.Bake.String()
		}
		t.line("", fmt.Sprintf("wave %s: %s%s", w.Name, rollout.Few(names), bake))
	}
}

func parenthesis(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// textWriter writes lines of "  label    text".
type textWriter struct{ w io.Writer }

func (t *textWriter) line(label, text string) {
	if text != "" {
		fmt.Fprintf(t.w, "  %-8s %s\n", label, safetext.Line(text))
	}
}

func (t *textWriter) head(e *Status) {
	behind := ""
	if e.Behind > 0 && !e.Source.Empty() {
		behind = fmt.Sprintf(", %s behind the trunk", hydrate.Count(e.Behind, "commit"))
	}
	fmt.Fprintf(t.w, "%s runs %s%s\n", safetext.Line(e.Environment), safetext.Line(e.Source.String()), behind)
	if names := e.Decision.Behind; len(names) > 0 {
		t.line("not yet", fmt.Sprintf("%s: %s", hydrate.Count(len(names), "cluster"), rollout.Few(names)))
	}
}

// WriteText writes what an environment runs that follows the trunk.
func (r *Running) WriteText(w io.Writer) {
	runs := "nothing"
	if !r.Source.IsZero() {
		runs = r.Source.String()
	}
	fmt.Fprintf(w, "%s runs %.8s; it follows the trunk\n", safetext.Line(r.Environment), runs)
	if r.Foreign != "" {
		(&textWriter{w: w}).line("foreign", fmt.Sprintf("%s, so Sluice moves nothing: %s", r.Foreign, r.Resolve))
	}
}
