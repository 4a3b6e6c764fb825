package report

import (
	"io"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// pins writes the repositories that are pinned to other commits.
func (t *terminal) pins() {
	for i := range t.r.Pins {
		p := &t.r.Pins[i]
		changes := p.Changes()
		if changes != "" {
			changes = ": changes the inputs of " + changes
		}
		t.line("repository ", safetext.Line(p.Name), " ", safetext.Line(abbreviated(p.From)), " → ",
			safetext.Line(abbreviated(p.To)), changes)
	}
}

// errors writes why the review failed, equal messages once.
func (t *terminal) errors() {
	for _, g := range Alike(GroupMessages(t.r.Errors)) {
		t.message("error", red, g.Line(maxNamed))
	}
}

// withheld writes the failures of targets, equal failures once.
func (t *terminal) withheld() {
	c := t.r.Changes
	if c == nil || len(c.Withheld) == 0 {
		return
	}
	t.line()
	if n := withheldCount(c); n > 0 {
		t.line(t.color(red, Count(n, "target")+" cannot be rendered"), "; the report leaves out these objects:")
	} else {
		t.line(t.color(yellow, Count(len(c.Withheld), "target")+" cannot be rendered at the base"),
			"; the report shows all their objects as added:")
	}
	for _, g := range GroupWithheld(c.Withheld) {
		t.message("withheld", red, g.Label(safetext.Line)+": "+g.Message)
	}
}

// files lists changed files that the changes do not show.
func (t *terminal) files() {
	if t.r.Changes == nil {
		return
	}
	for _, read := range []bool{false, true} {
		list, words := FilesOf(t.r.Changes, read), UnclaimedWords
		if read {
			words = InertWords
		}
		if len(list) == 0 {
			continue
		}
		t.line()
		t.line(t.color(yellow, words(len(list))), ":")
		shown := list
		if len(shown) > terminalFiles && !t.o.Full {
			shown = shown[:terminalFiles]
		}
		for _, f := range shown {
			t.line("  ", safetext.Line(f.Path), ": ", safetext.Line(f.Reason))
		}
		if rest := len(list) - len(shown); rest > 0 {
			t.line("  … ", Count(rest, "more file"), "; see them with --full")
		}
	}
}

// warnings writes the warnings about the fleet's files, equal ones once.
func (t *terminal) warnings() {
	list := GroupMessages(t.r.Warnings)
	if len(list) > 0 {
		t.line()
	}
	for _, g := range list {
		t.message("warning", yellow, g.Line(maxNamed))
	}
}

// message writes a labelled message; its further lines are indented.
func (t *terminal) message(label string, p paint, text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	rest := 0
	if len(lines) > messageLines && !t.o.Full {
		lines, rest = lines[:messageLines], len(lines)-messageLines
	}
	for i, l := range lines {
		l = safetext.Line(strings.TrimRight(l, "\r "))
		if i == 0 {
			t.line(t.color(p, label), ": ", l)
		} else {
			t.line("    ", l)
		}
	}
	if rest > 0 {
		t.line("    … ", Count(rest, "more line"))
	}
}

// findings writes the new findings by rule. It writes a rule's hint and page once.
func (t *terminal) findings() {
	list := GroupFindings(t.r.Findings.Introduced, t.r.Changes)
	if len(list) > 0 {
		t.line()
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Rule == list[0].Rule && list[n].Severity == list[0].Severity {
			n++
		}
		t.rule(list[:n])
		list = list[n:]
	}
}

// notes writes what was not checked.
func (t *terminal) notes() {
	list := GroupMessages(t.r.Findings.Notes)
	if len(list) > 0 {
		t.line()
	}
	for _, g := range list {
		t.message("note", cyan, g.Line(maxNamed))
	}
}

// rule writes the messages of one rule.
func (t *terminal) rule(list []*FindingGroup) {
	shown := list
	if len(shown) > terminalFindings && !t.o.Full {
		shown = shown[:terminalFindings]
	}
	hint := ""
	for i, g := range shown {
		t.finding(g)
		if g.Hint != "" && g.Hint != hint {
			hint = g.Hint
			t.line("    ", t.color(faint, "do"), " ", safetext.Line(hint))
		}
		if docs := Docs(t.r, g.Finding); docs != "" && i == len(shown)-1 {
			t.line("    ", t.color(faint, "see"), " ", safetext.Line(docs))
		}
	}
	if rest := list[len(shown):]; len(rest) > 0 {
		t.line("    … ", Count(breaches(rest), "more finding"), " of ", safetext.Line(list[0].Rule),
			"; see them with --full")
	}
}

func (t *terminal) finding(g *FindingGroup) {
	p := cyan
	switch g.Severity {
	case SeverityError:
		p = red
	case SeverityWarning:
		p = yellow
	}
	most := terminalNames
	if t.o.Full {
		most = len(g.Breaches)
	}
	t.line(t.color(p, safetext.Line(string(g.Severity))), " ", t.color(bold, safetext.Line(g.Rule)),
		optional(" ", g.subject(safetext.Line, most)),
		": ", safetext.Line(g.Message))
	for i := range g.Breaches[:min(most, len(g.Breaches))] {
		b := &g.Breaches[i]
		at := joined(b.Path, b.File)
		if at == "" || !t.o.Full && len(g.Breaches) > 1 {
			continue
		}
		t.line("    ", t.color(faint, "at"), " ", safetext.Line(at))
	}
}

// TerminalFindings writes the result of a check of whole environments, without a change set: what cannot be rendered,
// the findings, what was not checked, and the counts.
func TerminalFindings(w io.Writer, r *Review, o TerminalOptions) {
	if o.Width <= 0 {
		o.Width = 100
	}
	t := &terminal{r: r, o: o}
	t.errors()
	t.withheld()
	t.findings()
	t.warnings()
	t.notes()
	checked, unknown := 0, ""
	if c := r.Changes; c != nil {
		checked = c.Compared
		if n := len(c.Withheld); n > 0 {
			unknown = Number(n) + " not checked"
		}
	}
	f := &r.Findings
	exempted := ""
	if f.Exempted > 0 {
		exempted = Number(f.Exempted) + " exempted"
	}
	t.line(t.color(bold, joined(Count(checked, "target")+" checked", unknown, Count(f.Count(SeverityError), "error"),
		Count(f.Count(SeverityWarning), "warning"), exempted)))
	_, _ = io.WriteString(w, strings.TrimPrefix(t.out.String(), "\n")) // the caller's writer keeps its error
}
