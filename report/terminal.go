package report

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// TerminalOptions are the options of a terminal report.
type TerminalOptions struct {
	Color bool
	Width int  // columns; 0 means 100
	Full  bool // all lines of all objects, all findings, and noise by name
}

// Limits without TerminalOptions.Full.
const (
	terminalLines    = 60  // of one object
	terminalObjects  = 200 // with hunks
	terminalFindings = 5   // messages of one rule
	terminalNames    = 3   // objects of one message
	terminalFiles    = 20  // changed files that are read by none
)

// Terminal writes the review for a terminal or a log. It escapes what a terminal or a CI system would interpret.
// The caller detects errors of w.
func Terminal(w io.Writer, r *Review, o TerminalOptions) {
	if o.Width <= 0 {
		o.Width = 100
	}
	t := &terminal{r: r, o: o}
	t.top()
	t.pins()
	t.errors()
	t.cautions()
	t.withheld()
	if r.Upgrade != nil {
		t.line()
		t.line(t.color(bold, "Kubernetes upgrade"))
		t.upgradeClusters(r.Upgrade)
	}
	t.findings()
	t.apps()
	t.groups()
	t.declarations()
	t.files()
	t.warnings()
	t.notes()
	t.foot()
	_, _ = io.WriteString(w, t.out.String()) // the caller's writer keeps its error
}

type terminal struct {
	r   *Review
	o   TerminalOptions
	out strings.Builder
}

// paint is a parameter of an SGR escape sequence.
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
	if sign, words := VerdictWords(r); words != "" {
		p := green
		switch r.Verdict {
		case VerdictFail, VerdictError:
			p = red
		case VerdictWarn:
			p = yellow
		}
		detail := VerdictDetail(r)
		if detail != "" {
			detail = ": " + detail
		}
		t.line(plainSign(sign), " ", t.color(p, words), detail)
	}
	if r.Routine != nil && !r.Routine.Routine {
		t.line("not routine: ", safetext.Line(r.Routine.Why))
	}
}

// plainSign returns a sign that takes one column on every terminal.
func plainSign(sign string) string {
	switch sign {
	case "✅":
		return "✓"
	case "❌", "⛔":
		return "✗"
	}
	return "!"
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
	list, losses := Cautions(t.r.Changes, cautionItems), GroupLosses(t.r.Changes)
	if len(list)+len(losses) > 0 {
		t.line()
	}
	for _, g := range losses {
		t.line(t.color(riskPaint(g.Risk), string(g.Risk)), "  ", t.color(bold, EffectWords(g.Name)), ": ",
			g.Text(safetext.Line))
	}
	for _, c := range list {
		label := t.color(riskPaint(c.Risk), string(c.Risk)) + "  " + t.color(bold, EffectWords(c.Name)) + ": "
		for _, i := range c.Items {
			t.line(label, i.subject(safetext.Line), " on ", safetext.Line(patterns(i.Group.Where, 3)),
				optional(" — ", safetext.Line(i.Message)))
		}
		if rest := c.Rest(); rest > 0 {
			t.line(label, "and ", Count(rest, "more object"), " (", Number(c.Total), " on all clusters)")
		}
	}
}

// apps writes the table of apps, unless one line would say the same as the changes.
func (t *terminal) apps() {
	c := t.r.Changes
	if c == nil {
		return
	}
	list := appRows(c)
	if len(list) == 0 || len(list) == 1 && len(c.Withheld) == 0 {
		return
	}
	rows := [][]string{{"APP", "CLUSTERS", "GROUPS", "ADDED", "CHANGED", "REMOVED", "ROLLS", "SUMMARY"}}
	for _, a := range list {
		words := safetext.Line(a.Summary)
		if a.Withheld > 0 {
			held := Count(a.Withheld, "target") + " withheld"
			if words != "" {
				held += "; "
			}
			words = held + words
		}
		name := func(s string) string { return safetext.Line(safetext.Shorten(s, maxColumn)) }
		rows = append(rows, []string{
			a.names(name), Number(a.Clusters), Number(a.Groups), Number(a.Counts.Added), Number(a.Counts.Changed),
			Number(a.Counts.Deleted()), Number(a.Counts.Workloads), words,
		})
	}
	t.line()
	t.table(rows)
	if n := c.Totals.Noise; n > 0 {
		t.line(t.color(faint, "folded noise: "+Count(n, "object")+" on "+Count(scopeOf(c).noisy, "cluster")+
			" with only new version labels, checksums or equal values"))
	}
}

const maxColumn = 40

// table aligns columns and cuts the last one at the terminal's width.
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
	if t.r.Changes != nil {
		t.groupList(t.r.Changes.Groups)
	}
}

// declarations writes the changes of objects that declare targets.
func (t *terminal) declarations() {
	if c := t.r.Changes; c != nil && len(c.Declarations) > 0 {
		t.line()
		t.line(t.color(bold, "Declarations"), " of targets that are withheld or render the same:")
		t.groupList(c.Declarations)
	}
}

func (t *terminal) groupList(groups []diff.Group) {
	left := terminalObjects
	fold := NewFolder()
	for _, g := range Entries(pointers(groups)) {
		if quietGroup(g.Group) && !t.o.Full {
			continue
		}
		t.line()
		from := ""
		if c := g.Place(); c != nil && len(g.Others) > 0 {
			from = ", from " + safetext.Line(c.String())
		}
		t.line(t.color(riskPaint(g.Risk), "● "+string(g.Risk)), "  ", t.color(bold, g.name(safetext.Line)), " on ",
			safetext.Line(patterns(g.Where, maxWhere)), optional(" — ", GroupCounts(g.Group)), from)
		if line := g.appsLine(safetext.Line); line != "" {
			t.line("  apps: ", line)
		}
		if len(g.Varies) > 0 {
			t.line("  clusters differ by ", safetext.Line(strings.Join(g.Varies, ", ")), "; shown for ",
				safetext.Line(g.Example))
		}
		objects := fold.FoldEntry(g)
		for j, o := range objects {
			if left == 0 && !t.o.Full {
				rest := 0
				for _, o := range objects[j:] {
					rest += o.Objects()
				}
				t.line("  and ", Count(rest, "more object"), "; see them with --full")
				break
			}
			left--
			t.object(o)
		}
		if line := noiseLine(g.Group, safetext.Line); line != "" {
			t.line("  ", t.color(faint, line))
		}
		if t.o.Full {
			t.noise(g.Group)
		}
	}
}

func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// object writes an object. A change of images needs no hunk: a row for each image says it all.
func (t *terminal) object(o *Folded) {
	p := yellow
	switch {
	case o.Verb == diff.Added:
		p = green
	case o.Verb == diff.Removed && !o.Orphaned():
		p = red
	}
	t.line("  ", t.color(p, strings.ToLower(VerbWord(o.ObjectChange))), " ",
		t.color(bold, objectLine(o.ObjectChange, safetext.Line)))
	for _, e := range o.Effects {
		if e.Name != diff.EffectImage && (e.Name != diff.EffectRolls || e.Risk != diff.RiskMedium) {
			t.line("    ", t.color(riskPaint(e.Risk), "! "+safetext.Line(e.Message)))
		}
	}
	switch {
	case o.Like != nil && !t.o.Full:
		t.line("    the same change as on ", o.likeText(safetext.Line))
	case OnlyImages(o.ObjectChange):
		rows := ImageRows(o.ObjectChange)
		for i := range rows {
			t.line("    image ", rows[i].text(safetext.Line))
		}
	case o.Verb == diff.Removed && !t.o.Full && len(o.Hunks) > 0:
		t.line("    ", t.color(faint, "its manifest: see it with --full"))
	default:
		t.hunks(o.ObjectChange)
	}
	if same := o.sameLine(safetext.Line); same != "" {
		t.line("    ", same)
	}
}

func (t *terminal) hunks(o *diff.ObjectChange) {
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
		t.line("    ", t.color(faint, "… "+Count(left, "more line")+"; see them with --full"))
	}
}

// noise lists the fields of noise.
func (t *terminal) noise(g *diff.Group) {
	for i := range g.Objects {
		for j := range g.Objects[i].Noise {
			t.line("    ", t.color(faint, safetext.Line(g.Objects[i].Title())+": "+
				fieldText(&g.Objects[i].Noise[j], safetext.Line)))
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
	parts := []string{safetext.Line(from) + " → " + safetext.Line(r.head())}
	if r.Changes != nil {
		parts = append(parts, Count(r.Changes.Compared, "target")+" compared")
	}
	parts = append(parts, "Sluice "+safetext.Line(r.Version))
	t.line(t.color(faint, strings.Join(parts, " · ")))
}
