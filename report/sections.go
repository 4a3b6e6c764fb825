package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	messageLines = 14  // of one message
	messageWidth = 300 // characters of one line of a message
	oneLine      = 240 // a message up to here stands in its list
)

// message writes a failure: on one line if it is short, else as a block of code. label is Markdown.
func message(label, text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= oneLine && !strings.Contains(text, "\n") {
		return "- " + label + ": " + prose(text) + "\n"
	}
	return "\n" + label + ":\n\n" + fence("text", messageBlock(text)) + "\n"
}

// messageBlock returns the lines of a message, indented, so that no line begins with text from outside.
func messageBlock(text string) []string {
	lines := strings.Split(safetext.Message(text, messageLines, messageWidth), "\n")
	for i, l := range lines {
		lines[i] = "  " + l
	}
	return lines
}

func (m *markdown) errors() *part {
	p := &part{head: "> [!CAUTION]\n> The review failed.\n\n", tail: "\n"}
	for i, g := range Alike(GroupMessages(m.r.Errors)) {
		p.items = append(p.items, message(fmt.Sprintf("**Error %d**", i+1), g.Line(maxNamed)))
	}
	p.more = func(shown int) string { return "\nAnd " + Count(len(p.items)-shown, "more error") + ".\n" }
	return p
}

func (m *markdown) withheld() *part {
	p := &part{tail: "\n"}
	if m.r.Changes == nil {
		return p
	}
	list := GroupWithheld(m.r.Changes.Withheld)
	if n := withheldCount(m.r.Changes); n > 0 {
		their := "their"
		if n == 1 {
			their = "its"
		}
		p.head = "> [!WARNING]\n> " + Count(n, "target") +
			" cannot be rendered. The report leaves out " + their + " objects, and Sluice does not write them.\n\n"
	} else if len(list) > 0 {
		p.head = "> [!WARNING]\n> " + Count(len(m.r.Changes.Withheld), "target") +
			" cannot be rendered at the base. The report shows all their objects as added: they are new or changed.\n\n"
	}
	for _, g := range list {
		p.items = append(p.items, message(g.Label(code), g.Message))
	}
	p.more = func(shown int) string {
		n := 0
		for _, g := range list[shown:] {
			n += g.Targets
		}
		return "\nAnd " + Count(n, "more target") + ", for " + Count(len(list)-shown, "other reason") + ".\n"
	}
	return p
}

// files lists changed files that the changes do not show.
func (m *markdown) files(read bool) *part {
	p := &part{tail: "\n"}
	if m.r.Changes == nil {
		return p
	}
	list := FilesOf(m.r.Changes, read)
	p.head = "\n> [!NOTE]\n> " + UnclaimedWords(len(list)) + ":\n\n"
	if read {
		p.head = "\n" + InertWords(len(list)) + ":\n\n"
	}
	for _, f := range list {
		p.items = append(p.items, "- "+code(f.Path)+": "+prose(f.Reason)+"\n")
	}
	p.more = func(shown int) string { return "- And " + Count(len(p.items)-shown, "more file") + ".\n" }
	return p
}

func (m *markdown) cautions() *part {
	p := &part{tail: "\n"}
	if m.r.Changes == nil {
		return p
	}
	list := Cautions(m.r.Changes, cautionItems)
	p.head = "> [!WARNING]\n"
	var kinds []*Caution // of each item
	for _, g := range GroupLosses(m.r.Changes) {
		if g.Risk.Rank() > diff.RiskHigh.Rank() {
			continue
		}
		if g.Risk == diff.RiskCritical {
			p.head = "> [!CAUTION]\n"
		}
		kinds = append(kinds, &Caution{Name: g.Name, Kinds: len(g.list)})
		p.items = append(p.items, "> - "+sign(g.Risk)+" **"+EffectWords(g.Name)+"**: "+g.Text(code)+"\n")
	}
	for _, c := range list {
		if c.Risk == diff.RiskCritical {
			p.head = "> [!CAUTION]\n"
		}
		for _, i := range c.Items {
			kinds = append(kinds, c)
			message := ""
			if i.Message != "" {
				message = " — " + prose(safetext.Shorten(i.Message, oneLine))
			}
			p.items = append(p.items, "> - "+sign(c.Risk)+" **"+EffectWords(c.Name)+"**: "+i.subject(code)+
				" on "+code(patterns(i.Group.Where, 3))+message+"\n")
		}
		if rest := c.Rest(); rest > 0 {
			kinds = append(kinds, c)
			p.items = append(p.items, "> - "+sign(c.Risk)+" **"+EffectWords(c.Name)+"**: and "+
				Count(rest, "more object")+
				" ("+Number(c.Total)+" on all clusters)\n")
		}
	}
	p.more = func(shown int) string {
		var parts []string
		for i := shown; i < len(kinds); i++ {
			if i == shown || kinds[i] != kinds[i-1] {
				parts = append(parts, EffectWords(kinds[i].Name)+" ("+Number(kinds[i].Kinds)+")")
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

// finding is one line for a group of findings. The rule is a link to its page.
func (m *markdown) finding(g *FindingGroup) string {
	const most = 3
	var out strings.Builder
	out.WriteString("- " + severitySign(g.Severity) + " " + link(code(g.Rule), Docs(m.r, g.Finding)))
	if text := g.subject(code, most); text != "" {
		out.WriteString(" " + text)
	}
	out.WriteString(": " + prose(safetext.Shorten(g.Message, messageWidth)))
	if b := g.Breaches[0]; len(g.Breaches) == 1 && b.Path != "" {
		out.WriteString(" (" + code(b.Path) + ")")
	}
	if file := g.place(); file != "" {
		out.WriteString(" in " + code(file))
	}
	if g.Hint != "" {
		out.WriteString(" → " + prose(safetext.Shorten(g.Hint, messageWidth)))
	}
	out.WriteString("\n")
	return out.String()
}

// openFindings are the findings without an error that stand above the fold, so that the changes are on the first
// screen.
const openFindings = 3

// findings lists the new findings, grouped; existing ones are counted in the status. Errors always stand above the
// fold.
func (m *markdown) findings() string {
	list := GroupFindings(m.r.Findings.Introduced, m.r.Changes)
	p := &part{head: "### Policy\n\n", tail: "\n"}
	errors := 0
	for _, g := range list {
		if g.Severity == SeverityError {
			errors++
		}
		p.items = append(p.items, m.finding(g))
	}
	if open := max(errors, openFindings); len(list) > open+1 {
		p.fold, p.open = open, "\n<details><summary>"+Count(len(list)-open, "more message")+" of the policy</summary>\n\n"
		p.close = "\n</details>\n"
	}
	p.more = func(shown int) string { return "- And more: " + byRule(list[shown:]) + "\n" }
	text, shown := p.fit(m.left / 2)
	m.cut.Findings = breaches(list[shown:])
	m.left -= size(text)
	return text
}

// notes lists what was not checked.
func (m *markdown) notes() string {
	p := &part{head: "\n", tail: "\n"}
	for _, g := range GroupMessages(m.r.Findings.Notes) {
		p.items = append(p.items, "- Note: "+prose(g.Line(maxNamed))+"\n")
	}
	p.more = func(shown int) string { return "- And " + Count(len(p.items)-shown, "more note") + ".\n" }
	text, shown := p.fit(m.left / 8)
	m.cut.Others += len(p.items) - shown
	return text
}

func (m *markdown) resolved() *part {
	list := GroupFindings(m.r.Findings.Resolved, nil)
	p := &part{
		head: "\n<details><summary>✅ " + Count(breaches(list), "finding") + " resolved</summary>\n\n",
		tail: "\n</details>\n",
	}
	for _, g := range list {
		p.items = append(p.items, m.finding(g))
	}
	p.more = func(shown int) string { return "- And " + byRule(list[shown:]) + "\n" }
	return p
}

// CompanionsBlock returns only the companions, for the answer to a command.
func CompanionsBlock(list []Companion) string {
	m := &markdown{r: &Review{Companions: list}}
	text, _ := m.companions().fit(noLimit)
	return text
}

func (m *markdown) companions() *part {
	p := &part{head: "### Depends on\n\n" + row("Merge request", "Head", "State") + "|---|---|---|\n", tail: "\n"}
	for _, c := range m.r.Companions {
		head := ""
		if c.Head != "" {
			head = code(abbreviated(c.Head))
		}
		p.items = append(p.items, row(code(c.Name), head, prose(c.Part)))
	}
	p.more = func(shown int) string { return "\nAnd " + Count(len(p.items)-shown, "more merge request") + ".\n" }
	return p
}

func pinsPart(pins []Pin) *part {
	p := &part{head: "### Repositories\n\n" + row("Repository", "From", "To", "Changes inputs of") +
		"|---|---|---|---|\n", tail: "\n"}
	for i := range pins {
		one := &pins[i]
		p.items = append(p.items, row(code(one.Name), code(abbreviated(one.From)), code(abbreviated(one.To)),
			one.Changes()))
	}
	p.more = func(shown int) string { return "\nAnd " + Number(len(p.items)-shown) + " more.\n" }
	return p
}

func (m *markdown) warnings() *part {
	list := GroupMessages(m.r.Warnings)
	p := &part{head: "\n<details><summary>⚠️ " + Count(len(m.r.Warnings), "warning") +
		" about the fleet's files</summary>\n\n", tail: "\n</details>\n"}
	for _, g := range list {
		p.items = append(p.items, "- ⚠️ "+prose(g.Line(maxNamed))+"\n")
	}
	p.more = func(shown int) string { return "- And " + Count(len(list)-shown, "more warning") + ".\n" }
	return p
}

func (m *markdown) rollout() *part {
	p := &part{
		head: "### Rollout\n\n" + row("Environment", "Commit", "State", "Since", "Waits for") +
			"|---|---|---|---|---|\n",
		tail: "\n",
	}
	for _, j := range m.r.Rollout {
		commit := ""
		if j.Commit != "" {
			commit = code(abbreviated(j.Commit))
		}
		p.items = append(p.items, row(code(j.Environment), commit, prose(j.State), when(j.Since), prose(j.Waits)))
	}
	p.more = func(shown int) string { return "\nAnd " + Count(len(p.items)-shown, "more environment") + ".\n" }
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
		head: "\n<details><summary>" + Count(len(list), "command") + "</summary>\n\n" +
			row("Command", "By", "Outcome", "At") + "|---|---|---|---|\n",
		tail: "\n</details>\n",
	}
	for _, e := range list {
		p.items = append(p.items, row(code(e.Command), code(e.Who), prose(e.Outcome), when(e.At)))
	}
	p.more = func(shown int) string { return "\nAnd " + Count(len(list)-shown, "earlier command") + ".\n" }
	return p
}

// cutLine counts what was cut and names the complete reports. The forge's own view is none: it ends after a few
// hundred files.
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
		{c.Paths, "object", " with only their changed paths"},
		{c.Named, "object", " with only their name"},
		{c.Counted, "object", " only counted"},
		{c.Groups, "group", " without a row"},
		{c.AppRows, "app", " without a row"},
		{c.Findings, "finding", " only counted"},
		{c.Others, "entry", " only counted"},
	} {
		switch {
		case p.n > 1 && p.one == "entry":
			parts = append(parts, Number(p.n)+" entries"+p.rest)
		case p.n > 0:
			parts = append(parts, Count(p.n, p.one)+p.rest)
		}
	}
	var ways []string
	for _, w := range [][2]string{{"the HTML report", m.r.Links.HTML}, {"the stored reports", m.r.Links.Artifact}} {
		if webAddress(w[1]) != "" {
			ways = append(ways, link(w[0], w[1]))
		}
	}
	ways = append(ways, code(Command(m.r)))
	return "\n✂️ **Cut to fit**: " + strings.Join(parts, ", ") + ". The complete report: " + strings.Join(ways, ", ") +
		".\n"
}

// footer names the compared commits. base is false for the digest: another base with the same outcome is no news.
func (m *markdown) footer(base bool) string {
	r := m.r
	parts := []string{}
	head := link(code(r.head()), r.Links.Head)
	switch {
	case r.Against != "":
		head = code(r.Against) + " → " + head
	case r.Base != "" && base:
		head = link(code(abbreviated(r.Base)), r.Links.Base) + " → " + head
	}
	parts = append(parts, head)
	if r.Changes != nil {
		parts = append(parts, Count(r.Changes.Compared, "target")+" compared")
	}
	for _, l := range [][2]string{
		{"rendered files", r.Links.Full},
		{"HTML report", r.Links.HTML},
		{"reports", r.Links.Artifact},
	} {
		if webAddress(l[1]) != "" {
			parts = append(parts, link(l[0], l[1]))
		}
	}
	if r.Version != "" { // a review that has no report says nothing of it
		parts = append(parts, "Sluice "+code(r.Version))
	}
	return "\n---\n<sub>" + strings.Join(parts, " · ") + "</sub>\n"
}
