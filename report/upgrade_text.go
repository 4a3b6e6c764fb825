package report

import (
	"io"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	upgradeReasons = 3 // of one group of blocked clusters
	upgradeObjects = 3 // of one message

	upgradeMessages = 10 // of one section that blocks nothing
)

// UpgradeTerminal writes a plan for a terminal or a log. It escapes what a terminal or a CI system would interpret. The
// caller detects errors of w.
func UpgradeTerminal(w io.Writer, u *Upgrade, o TerminalOptions) {
	const columns = 100
	if o.Width <= 0 {
		o.Width = columns
	}
	t := &terminal{r: u.Review, o: o}
	t.line(t.color(bold, safetext.Line(u.Summary())))
	t.upgrade(u)
	if u.Review != nil {
		if c := u.Review.Changes; c != nil && len(c.Groups) > 0 {
			t.line()
			t.line(t.color(bold, "What changes"))
			t.apps()
			t.groups()
		}
	}
	for _, n := range GroupMessages(u.Notes) {
		t.line()
		t.line("note: ", safetext.Lines(n.Line(maxNamed)))
	}
	_, _ = io.WriteString(w, t.out.String()) // the caller's writer keeps its error
}

// upgrade writes the clusters and the issues.
func (t *terminal) upgrade(u *Upgrade) {
	t.line()
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
			t.line("  ", t.color(faint, g.Rule), "  ", safetext.Lines(safetext.Message(g.Message, messageLines, messageWidth)))
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
