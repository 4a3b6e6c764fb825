package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	messageLines = 14  // of one message
	messageWidth = 300 // characters of one line of a message
	oneLine      = 240 // a message up to here stands in its list
)

// message writes what went wrong: on its line if it is short, else as a block of code. label is Markdown.
func message(label, text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= oneLine && !strings.Contains(text, "\n") {
		return "- " + label + ": " + prose(text) + "\n"
	}
	return "\n" + label + ":\n\n" + fence("text", messageBlock(text)) + "\n"
}

// messageBlock are the lines of a message, each after two blanks, so that none begins with what it says.
func messageBlock(text string) []string {
	lines := strings.SplitN(text, "\n", messageLines+1)
	rest := ""
	if len(lines) > messageLines {
		lines, rest = lines[:messageLines], lines[messageLines]
	}
	out := make([]string, 0, len(lines)+1)
	for _, l := range lines {
		out = append(out, "  "+safetext.Line(safetext.Shorten(strings.TrimRight(l, "\r "), messageWidth)))
	}
	if rest != "" {
		out = append(out, "  … "+count(strings.Count(rest, "\n")+1, "more line"))
	}
	return out
}

func (m *markdown) errors() *part {
	p := &part{head: "> [!CAUTION]\n> The review could not be made.\n\n", tail: "\n"}
	for i, e := range m.r.Errors {
		p.items = append(p.items, message(fmt.Sprintf("**Error %d**", i+1), e))
	}
	p.more = func(shown int) string { return "\nAnd " + count(len(p.items)-shown, "more error") + ".\n" }
	return p
}

func (m *markdown) withheld() *part {
	p := &part{tail: "\n"}
	if m.r.Changes == nil {
		return p
	}
	list := withheldGroups(m.r.Changes.Withheld)
	p.head = "> [!WARNING]\n> " + count(len(m.r.Changes.Withheld), "target") +
		" could not be rendered and is withheld: nothing is said of its objects, and nothing of it will be written.\n\n"
	if len(m.r.Changes.Withheld) != 1 {
		p.head = strings.Replace(p.head, "is withheld: nothing is said of its objects, and nothing of it",
			"are withheld: nothing is said of their objects, and nothing of them", 1)
	}
	for _, g := range list {
		label := "**" + code(g.app) + "** on " + code(patterns(g.where, maxWhere))
		if g.before {
			label += " (at the base; the head renders)"
		}
		p.items = append(p.items, message(label, g.message))
	}
	p.more = func(shown int) string {
		n := 0
		for _, g := range list[shown:] {
			n += g.targets
		}
		return "\nAnd " + count(n, "more target") + ", for " + count(len(list)-shown, "other reason") + ".\n"
	}
	return p
}

func (m *markdown) cautions() *part {
	p := &part{tail: "\n"}
	if m.r.Changes == nil {
		return p
	}
	list := cautions(m.r.Changes)
	p.head = "> [!WARNING]\n"
	var kinds []*caution // of each item
	for _, c := range list {
		if c.risk == diff.RiskCritical {
			p.head = "> [!CAUTION]\n"
		}
		for _, i := range c.items {
			kinds = append(kinds, c)
			p.items = append(p.items, "> - "+sign(c.risk)+" **"+effectWords(c.name)+"**: "+code(i.object.Title())+" of "+code(i.group.App)+
				" on "+code(patterns(i.group.Where, 3))+" — "+prose(safetext.Shorten(i.message, oneLine))+"\n")
		}
		if rest := c.kinds - len(c.items); rest > 0 {
			kinds = append(kinds, c)
			p.items = append(p.items, "> - "+sign(c.risk)+" **"+effectWords(c.name)+"**: and "+count(rest, "more object")+", "+
				number(c.total)+" on all clusters together\n")
		}
	}
	p.more = func(shown int) string {
		var parts []string
		for i := shown; i < len(kinds); i++ {
			if i == shown || kinds[i] != kinds[i-1] {
				parts = append(parts, effectWords(kinds[i].name)+" ("+number(kinds[i].kinds)+")")
			}
		}
		return "> - And also: " + strings.Join(parts, ", ") + "\n"
	}
	return p
}

func severitySign(s Severity) string {
	switch s {
	case SeverityError:
		return "❌"
	case SeverityWarning:
		return "⚠️"
	}
	return "ℹ️"
}

// docsOf is the address of a rule's page; "" if it has none.
func docsOf(r *Review, f *Finding) string {
	if f.Docs != "" || r.Links.Docs == "" {
		return f.Docs
	}
	return strings.TrimSuffix(r.Links.Docs, "/") + "/" + f.Rule
}

func fileLine(f *Finding) string {
	if f.File == "" || f.Line <= 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

func bySeverity(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), cmp.Compare(a.Rule, b.Rule))
}

// finding is one line. The rule leads to its page.
func (m *markdown) finding(f *Finding) string {
	var out strings.Builder
	out.WriteString("- " + severitySign(f.Severity) + " " + link(code(f.Rule), docsOf(m.r, f)))
	if f.Object.Kind != "" {
		out.WriteString(" " + code(diff.Title(f.Object)))
	}
	if f.App != "" {
		out.WriteString(" of " + code(f.App))
	}
	if len(f.Clusters) > 0 {
		out.WriteString(" on " + code(places(f.Environment, f.Clusters)))
	}
	out.WriteString(": " + prose(safetext.Shorten(f.Message, messageWidth)))
	if f.Path != "" {
		out.WriteString(" (" + code(f.Path) + ")")
	}
	if at := fileLine(f); at != "" {
		out.WriteString(" in " + code(at))
	}
	if f.Hint != "" {
		out.WriteString(" → " + prose(safetext.Shorten(f.Hint, messageWidth)))
	}
	out.WriteString("\n")
	return out.String()
}

// findings are the new ones; those that were there before are counted.
func (m *markdown) findings() string {
	f := &m.r.Findings
	list := slices.Clone(f.Introduced)
	slices.SortStableFunc(list, bySeverity)
	p := &part{head: "### Policy\n\n", tail: "\n"}
	for i := range list {
		p.items = append(p.items, m.finding(&list[i]))
	}
	p.more = func(shown int) string { return "- And more: " + byRule(list[shown:]) + "\n" }
	text, shown := p.fit(m.left / 2)
	m.cut.Findings = len(list) - shown
	text += m.notes(text == "")
	m.left -= size(text)
	return text
}

// byRule counts findings: `12 of image-tag, 3 of schema`.
func byRule(list []Finding) string {
	n := map[string]int{}
	var rules []string
	for i := range list {
		if n[list[i].Rule] == 0 {
			rules = append(rules, list[i].Rule)
		}
		n[list[i].Rule]++
	}
	const most = 6
	var parts []string
	rest := len(list)
	for i, r := range rules {
		if i == most {
			parts = append(parts, number(rest)+" of "+count(len(rules)-i, "other rule"))
			break
		}
		parts = append(parts, number(n[r])+" of "+code(safetext.Shorten(r, oneLine/4)))
		rest -= n[r]
	}
	return strings.Join(parts, ", ")
}

// notes say what could not be checked: never silently.
func (m *markdown) notes(alone bool) string {
	p := &part{tail: "\n"}
	if alone {
		p.head = "### Policy\n\n"
	}
	for _, n := range m.r.Findings.Notes {
		p.items = append(p.items, "- Note: "+prose(n)+"\n")
	}
	p.more = func(shown int) string { return "- And " + count(len(p.items)-shown, "more note") + ".\n" }
	text, shown := p.fit(m.left / 8)
	m.cut.Others += len(p.items) - shown
	return text
}

func (m *markdown) resolved() *part {
	list := m.r.Findings.Resolved
	p := &part{head: "\n<details><summary>✅ " + count(len(list), "finding") + " resolved</summary>\n\n", tail: "\n</details>\n"}
	for i := range list {
		p.items = append(p.items, m.finding(&list[i]))
	}
	p.more = func(shown int) string { return "- And " + byRule(list[shown:]) + "\n" }
	return p
}

func (m *markdown) warnings() *part {
	list := m.r.Warnings
	p := &part{head: "\n<details><summary>⚠️ " + count(len(list), "warning") + " about the fleet's files</summary>\n\n", tail: "\n</details>\n"}
	for _, w := range list {
		p.items = append(p.items, "- ⚠️ "+prose(w)+"\n")
	}
	p.more = func(shown int) string { return "- And " + count(len(list)-shown, "more warning") + ".\n" }
	return p
}

func (m *markdown) journey() *part {
	p := &part{
		head: "### Journey\n\n" + row("Environment", "Commit", "State", "Since", "Waits for") + "|---|---|---|---|---|\n",
		tail: "\n",
	}
	for _, j := range m.r.Journey {
		commit := ""
		if j.Commit != "" {
			commit = code(abbreviated(j.Commit))
		}
		p.items = append(p.items, row(code(j.Environment), commit, prose(j.State), when(j.Since), prose(j.Waits)))
	}
	p.more = func(shown int) string { return "\nAnd " + count(len(p.items)-shown, "more environment") + ".\n" }
	return p
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

func (m *markdown) log() *part {
	list := slices.Clone(m.r.Log)
	slices.SortStableFunc(list, func(a, b CommandEntry) int { return b.At.Compare(a.At) })
	p := &part{
		head: "\n<details><summary>" + count(len(list), "command") + "</summary>\n\n" + row("Command", "By", "Outcome", "At") + "|---|---|---|---|\n",
		tail: "\n</details>\n",
	}
	for _, e := range list {
		p.items = append(p.items, row(code(e.Command), code(e.Who), prose(e.Outcome), when(e.At)))
	}
	p.more = func(shown int) string { return "\nAnd " + count(len(list)-shown, "earlier command") + ".\n" }
	return p
}

// cutLine says what was cut and where the whole is.
func (m *markdown) cutLine() string {
	c := m.cut
	if !c.Any() {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		n    int
		one  string
		rest string
	}{
		{c.Lines, "line", " of diffs left out"},
		{c.Paths, "object", " by changed paths alone"},
		{c.Named, "object", " by name alone"},
		{c.Counted, "object", " counted alone"},
		{c.Groups, "group", " without a row"},
		{c.AppRows, "app", " without a row"},
		{c.Findings, "finding", " counted alone"},
		{c.Others, "entry", " counted alone"},
	} {
		switch {
		case p.n > 1 && p.one == "entry":
			parts = append(parts, number(p.n)+" entries"+p.rest)
		case p.n > 0:
			parts = append(parts, count(p.n, p.one)+p.rest)
		}
	}
	var ways []string
	for _, w := range [][2]string{{"the full diff", m.r.Links.Full}, {"the HTML report", m.r.Links.HTML}, {"the stored reports", m.r.Links.Artifact}} {
		if webAddress(w[1]) != "" {
			ways = append(ways, link(w[0], w[1]))
		}
	}
	ways = append(ways, code(m.r.moreCommand()))
	return "\n✂️ **Cut to fit**: " + strings.Join(parts, ", ") + ". All of it: " + strings.Join(ways, ", ") + ".\n"
}

func (m *markdown) footer() string {
	r := m.r
	parts := []string{}
	switch {
	case r.Against != "":
		parts = append(parts, code(r.Against)+" → "+link(code(abbreviated(r.Head)), r.Links.Head))
	case r.Base != "":
		parts = append(parts, link(code(abbreviated(r.Base)), r.Links.Base)+" → "+link(code(abbreviated(r.Head)), r.Links.Head))
	default:
		parts = append(parts, link(code(abbreviated(r.Head)), r.Links.Head))
	}
	if r.Changes != nil {
		parts = append(parts, count(r.Changes.Compared, "target")+" compared")
	}
	for _, l := range [][2]string{{"full diff", r.Links.Full}, {"HTML report", r.Links.HTML}, {"reports", r.Links.Artifact}} {
		if webAddress(l[1]) != "" {
			parts = append(parts, link(l[0], l[1]))
		}
	}
	parts = append(parts, "Sluice "+code(r.Version))
	return "\n---\n<sub>" + strings.Join(parts, " · ") + "</sub>\n"
}
