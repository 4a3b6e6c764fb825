package report

import (
	"io"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	upgradeReasons = 3 // of one group of blocked clusters
	upgradeObjects = 3 // of one message

	upgradeMessages = 8 // of one section that blocks nothing
)

// UpgradeTerminal writes a plan for a terminal or a log. It escapes what a terminal or a CI system would interpret. The
// caller detects errors of w.
func UpgradeTerminal(w io.Writer, u *Upgrade, o TerminalOptions) {
	const columns = 100
	if o.Width <= 0 {
		o.Width = columns
	}
	t := &terminal{r: &Review{Changes: u.Changes}, o: o}
	t.line(t.color(bold, safetext.Line(u.Summary())))
	t.line()
	t.upgradeClusters(u)
	t.upgradeIssues(u)
	if u.Changes != nil && len(u.Changes.Groups) > 0 {
		t.line()
		t.line(t.color(bold, "What changes"))
		t.apps()
		t.groups()
	}
	for _, n := range GroupMessages(u.Notes) {
		t.line()
		t.line("note: ", safetext.Lines(n.Line(maxNamed)))
	}
	_, _ = io.WriteString(w, t.out.String()) // the caller's writer keeps its error
}

// upgradeClusters writes the verdicts.
func (t *terminal) upgradeClusters(u *Upgrade) {
	for _, g := range u.Groups() {
		sign, p := "✓", green
		switch g.Verdict {
		case UpgradeBlocked:
			sign, p = "✗", red
		case UpgradeChanges:
			sign, p = "!", yellow
		}
		t.line(t.color(p, sign+" "+string(g.Verdict)), "  ", safetext.Line(g.Where), "  ", safetext.Line(g.Words()))
		for i, reason := range g.BlockedBy {
			if i == upgradeReasons && !t.o.Full {
				t.line("    and ", Count(len(g.BlockedBy)-i, "other reason"))
				break
			}
			t.line("    ", safetext.Line(safetext.Shorten(reason, messageWidth)))
		}
	}
}

// upgradeIssues writes what the verdicts come from.
func (t *terminal) upgradeIssues(u *Upgrade) {
	for _, s := range u.Sections() {
		t.line()
		t.line(t.color(bold, safetext.Line(s.Title)))
		shown := len(s.Groups)
		if !t.o.Full && !s.Blocks {
			shown = min(shown, upgradeMessages)
		}
		for _, g := range s.Groups[:shown] {
			most := upgradeObjects
			if t.o.Full {
				most = len(g.Breaches)
			}
			message := safetext.Line(safetext.Shorten(strings.TrimSpace(g.Message), oneLine))
			if s.Blocks || t.o.Full {
				message = strings.ReplaceAll(safetext.Message(g.Message, messageLines, messageWidth), "\n", "\n      ")
			}
			t.line("  ", t.color(faint, safetext.Line(g.Rule)), "  ", message)
			at := "    " + g.subject(safetext.Line, most)
			if file := g.place(); file != "" {
				at += " in " + safetext.Line(file)
			}
			t.line(at)
			if g.Hint != "" {
				t.line("    → ", safetext.Line(safetext.Shorten(g.Hint, messageWidth)))
			}
		}
		if rest := len(s.Groups) - shown; rest > 0 {
			t.line("  and ", Count(rest, "other message"), "; see them with --full")
		}
	}
}

// upgrade writes the verdicts of a change of kubeVersion, those that are blocked first.
func (m *markdown) upgrade() *part {
	p := &part{tail: "\n"}
	u := m.r.Upgrade
	if u == nil {
		return p
	}
	p.head = "\n### Kubernetes upgrade\n\n" + row("", "Clusters", "Version", "Blocked by") + "|---|---|---|---|\n"
	groups := u.Groups()
	for _, g := range groups {
		sign := "✅ ready"
		switch g.Verdict {
		case UpgradeBlocked:
			sign = "⛔ **blocked**"
		case UpgradeChanges:
			sign = "⚠️ changes"
		}
		var reasons []string
		for i, reason := range g.BlockedBy {
			if i == upgradeReasons {
				reasons = append(reasons, "and "+Count(len(g.BlockedBy)-i, "other reason"))
				break
			}
			reasons = append(reasons, prose(safetext.Shorten(reason, oneLine)))
		}
		p.items = append(p.items, row(sign, code(g.Where), code(g.Words()), strings.Join(reasons, "; ")))
	}
	p.more = func(shown int) string {
		n := 0
		for _, g := range groups[shown:] {
			n += len(g.Clusters)
		}
		return "\nAnd " + Count(n, "more cluster") + ".\n"
	}
	return p
}
