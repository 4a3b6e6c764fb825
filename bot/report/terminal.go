package report

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// TerminalOptions say how a report is written to a terminal.
type TerminalOptions struct {
	Color bool
	Width int  // columns; 0 is 100
	Full  bool // all lines of all objects, and noise by name
}

// Lines of one object, and objects, that are written unless all are wanted.
const (
	terminalLines   = 60
	terminalObjects = 200
)

// Terminal writes the review for a reader at a terminal, or in a log. Nothing foreign in it is interpreted: escape sequences
// and what cannot be seen are shown as escapes. Errors of w are its owner's to find.
func Terminal(w io.Writer, r *Review, o TerminalOptions) {
	if o.Width <= 0 {
		o.Width = 100
	}
	t := &terminal{r: r, o: o}
	t.top()
	t.troubles()
	t.cautions()
	t.apps()
	t.groups()
	t.findings()
	t.foot()
	_, _ = io.WriteString(w, t.out.String()) // nobody to tell
}

type terminal struct {
	r   *Review
	o   TerminalOptions
	out strings.Builder
}

// paint is one of our own escape sequences.
type paint string

const (
	bold   paint = "1"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	cyan   paint = "36"
	faint  paint = "2"
)

func (t *terminal) color(p paint, s string) string {
	if !t.o.Color || s == "" {
		return s
	}
	return "\x1b[" + string(p) + "m" + s + "\x1b[0m"
}

func (t *terminal) line(parts ...string) {
	for _, p := range parts {
		t.out.WriteString(p)
	}
	t.out.WriteByte('\n')
}

func (t *terminal) top() {
	r := t.r
	t.line(t.color(bold, headline(r, safetext.Line)))
	if sign, words := verdictWords(r); words != "" {
		p := green
		switch r.Verdict {
		case VerdictFail, VerdictError:
			p = red
		case VerdictWarn:
			p = yellow
		}
		detail := (&markdown{r: r}).verdictDetail()
		if detail != "" {
			detail = ": " + detail
		}
		t.line(plainSign(sign), " ", t.color(p, words), detail)
	}
}

// plainSign is a sign that every terminal shows in one column.
func plainSign(sign string) string {
	switch sign {
	case "✅":
		return "✓"
	case "❌", "⛔":
		return "✗"
	}
	return "!"
}

// troubles are the errors, the targets withheld and the warnings.
func (t *terminal) troubles() {
	for _, e := range t.r.Errors {
		t.message("error", red, "", e)
	}
	if c := t.r.Changes; c != nil && len(c.Withheld) > 0 {
		t.line()
		t.line(t.color(red, count(len(c.Withheld), "target")+" could not be rendered"), "; nothing is said of what would change there:")
		for _, g := range withheldGroups(c.Withheld) {
			where := safetext.Line(g.app) + " on " + safetext.Line(patterns(g.where, maxWhere))
			if g.before {
				where += " (at the base; the head renders)"
			}
			t.message("withheld", red, where+": ", g.message)
		}
	}
	for _, w := range t.r.Warnings {
		t.message("warning", yellow, "", w)
	}
}

func (t *terminal) message(label string, p paint, where, text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	rest := 0
	if len(lines) > messageLines && !t.o.Full {
		lines, rest = lines[:messageLines], len(lines)-messageLines
	}
	for i, l := range lines {
		l = safetext.Line(strings.TrimRight(l, "\r "))
		if i == 0 {
			t.line(t.color(p, label), ": ", where, l)
		} else {
			t.line("    ", l)
		}
	}
	if rest > 0 {
		t.line("    … ", count(rest, "more line"))
	}
}

func riskPaint(r diff.Risk) paint {
	switch r {
	case diff.RiskCritical, diff.RiskHigh:
		return red
	case diff.RiskMedium:
		return yellow
	}
	return faint
}

func (t *terminal) cautions() {
	if t.r.Changes == nil {
		return
	}
	list := cautions(t.r.Changes)
	if len(list) > 0 {
		t.line()
	}
	for _, c := range list {
		for _, i := range c.items {
			t.line(t.color(riskPaint(c.risk), string(c.risk)), "  ", t.color(bold, effectWords(c.name)), ": ", safetext.Line(i.object.Title()),
				" of ", safetext.Line(i.group.App), " on ", safetext.Line(patterns(i.group.Where, 3)), " — ", safetext.Line(i.message))
		}
		if rest := c.kinds - len(c.items); rest > 0 {
			t.line(t.color(riskPaint(c.risk), string(c.risk)), "  ", t.color(bold, effectWords(c.name)), ": and ", count(rest, "more object"), ", ",
				number(c.total), " on all clusters together")
		}
	}
}

func (t *terminal) apps() {
	c := t.r.Changes
	if c == nil || len(c.Apps) == 0 {
		return
	}
	rows := [][]string{{"APP", "CLUSTERS", "GROUPS", "ADDED", "CHANGED", "REMOVED", "ROLLS", "IN SHORT"}}
	for i := range c.Apps {
		a := &c.Apps[i]
		words := safetext.Line(a.Summary)
		if a.Withheld > 0 {
			held := count(a.Withheld, "target") + " withheld"
			if words != "" {
				held += "; "
			}
			words = held + words
		}
		rows = append(rows, []string{
			safetext.Line(safetext.Shorten(a.Name, maxColumn)), number(a.Clusters), number(a.Groups), number(a.Counts.Added), number(a.Counts.Changed),
			number(a.Counts.Removed), number(a.Counts.Workloads), words,
		})
	}
	t.line()
	t.table(rows)
	if n := c.Totals.Noise; n > 0 {
		t.line(t.color(faint, "folded noise: "+count(n, "object")+" on "+count(scopeOf(c).noisy, "cluster")+" with new version labels or checksums alone"))
	}
}

const maxColumn = 40

// table aligns columns; the last one is cut at the terminal's width.
func (t *terminal) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, r := range rows {
		var out strings.Builder
		used, last := 0, len(r)-1
		for i, cell := range r[:last] {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				out.WriteString(cell + pad + "  ")
			} else {
				out.WriteString(pad + cell + "  ")
			}
			used += widths[i] + 2
		}
		const least = 20
		out.WriteString(safetext.Shorten(r[last], max(least, t.o.Width-used)))
		text := strings.TrimRight(out.String(), " ")
		if n == 0 {
			text = t.color(faint, text)
		}
		t.line(text)
	}
}

func (t *terminal) groups() {
	c := t.r.Changes
	if c == nil {
		return
	}
	left := terminalObjects
	for i := range c.Groups {
		g := &c.Groups[i]
		if quietGroup(g) && !t.o.Full {
			continue
		}
		objects := shownObjects(g)
		t.line()
		t.line(t.color(riskPaint(g.Risk), "● "+string(g.Risk)), "  ", t.color(bold, safetext.Line(g.App)), " on ", safetext.Line(patterns(g.Where, maxWhere)),
			optional(" — ", groupCounts(g)))
		if len(g.Varies) > 0 {
			t.line("  differs from cluster to cluster by ", safetext.Line(strings.Join(g.Varies, ", ")), "; shown as on ", safetext.Line(g.Example))
		}
		t.images(g)
		for j, o := range objects {
			if left == 0 && !t.o.Full {
				t.line("  and ", count(len(objects)-j, "more object"), ", not shown; see them with --full")
				break
			}
			left--
			t.object(o)
		}
		if line := noiseLine(g, safetext.Line); line != "" {
			t.line("  ", t.color(faint, line))
		}
		if t.o.Full {
			t.noise(g)
		}
	}
}

func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func (t *terminal) images(g *diff.Group) {
	for _, i := range imagesOf(g) {
		none := func(s string) string {
			if s == "" {
				return "none"
			}
			return safetext.Line(s)
		}
		t.line("  image ", safetext.Line(i.Container), ": ", t.color(red, none(i.Old)), " → ", t.color(green, none(i.New)))
	}
}

func (t *terminal) object(o *diff.ObjectChange) {
	p := yellow
	switch o.Verb {
	case diff.Added:
		p = green
	case diff.Removed:
		p = red
	}
	t.line("  ", t.color(p, strings.ToLower(verbWord(o.Verb))), " ", t.color(bold, objectLine(o, safetext.Line)))
	for _, e := range o.Effects {
		if e.Name != diff.EffectImage && e.Name != diff.EffectRolls {
			t.line("    ", t.color(riskPaint(e.Risk), "! "+safetext.Line(e.Message)))
		}
	}
	most := terminalLines
	if t.o.Full {
		most = -1
	}
	lines, left := hunkLines(o, most)
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "@@"):
			l = t.color(cyan, l)
		case l[0] == '+':
			l = t.color(green, l)
		case l[0] == '-':
			l = t.color(red, l)
		}
		t.line("    ", l)
	}
	if left > 0 {
		t.line("    ", t.color(faint, "… "+count(left, "more line")+"; see them with --full"))
	}
}

// noise lists the fields of noise by name.
func (t *terminal) noise(g *diff.Group) {
	for i := range g.Objects {
		for j := range g.Objects[i].Noise {
			t.line("    ", t.color(faint, safetext.Line(g.Objects[i].Title())+": "+fieldText(&g.Objects[i].Noise[j], safetext.Line)))
		}
	}
}

func (t *terminal) findings() {
	f := &t.r.Findings
	list := slices.Clone(f.Introduced)
	slices.SortStableFunc(list, bySeverity)
	if len(list)+len(f.Notes) > 0 {
		t.line()
	}
	for i := range list {
		t.finding(&list[i])
	}
	for _, n := range f.Notes {
		t.message("note", cyan, "", n)
	}
}

func (t *terminal) finding(f *Finding) {
	p := cyan
	switch f.Severity {
	case SeverityError:
		p = red
	case SeverityWarning:
		p = yellow
	}
	var where string
	if f.Object.Kind != "" {
		where = " " + safetext.Line(diff.Title(f.Object))
	}
	where += optional(" of ", safetext.Line(f.App))
	if len(f.Clusters) > 0 {
		where += " on " + safetext.Line(places(f.Environment, f.Clusters))
	}
	t.line(t.color(p, safetext.Line(string(f.Severity))), " ", t.color(bold, safetext.Line(f.Rule)), where, ": ", safetext.Line(f.Message))
	for _, more := range [][2]string{{"field", f.Path}, {"file", fileLine(f)}, {"do", f.Hint}, {"see", docsOf(t.r, f)}} {
		if more[1] != "" {
			t.line("    ", t.color(faint, more[0]), " ", safetext.Line(more[1]))
		}
	}
}

func (t *terminal) foot() {
	r := t.r
	t.line()
	from := abbreviated(r.Base)
	if r.Against != "" {
		from = r.Against
	}
	parts := []string{safetext.Line(from) + " → " + safetext.Line(abbreviated(r.Head))}
	if r.Changes != nil {
		parts = append(parts, count(r.Changes.Compared, "target")+" compared")
	}
	parts = append(parts, "Sluice "+safetext.Line(r.Version))
	t.line(t.color(faint, strings.Join(parts, " · ")))
}

// TerminalFindings writes what a check of whole environments found, without a change set: what could not be rendered, the
// findings, what could not be checked, and the counts.
func TerminalFindings(w io.Writer, r *Review, o TerminalOptions) {
	if o.Width <= 0 {
		o.Width = 100
	}
	t := &terminal{r: r, o: o}
	t.troubles()
	t.findings()
	checked := 0
	if r.Changes != nil {
		checked = r.Changes.Compared
	}
	f := &r.Findings
	exempted := ""
	if f.Exempted > 0 {
		exempted = number(f.Exempted) + " exempted"
	}
	t.line(t.color(bold, joined(count(checked, "target")+" checked", count(f.Count(SeverityError), "error"), count(f.Count(SeverityWarning), "warning"), exempted)))
	_, _ = io.WriteString(w, t.out.String())
}
