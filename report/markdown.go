package report

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
)

// Cut counts what a report leaves out to fit its limit.
type Cut struct {
	Full      int // objects shown in full
	Lines     int // lines missing from those objects
	Paths     int // objects with only their changed paths
	Named     int // objects with only their name
	Counted   int // objects that are only counted
	GroupRows int // groups with only a row
	Groups    int // groups that are only counted
	AppRows   int // apps that are only counted
	Findings  int // new findings that are only counted
	Others    int // messages, cautions and entries that are only counted
}

// Any reports whether something was left out.
func (c Cut) Any() bool {
	c.Full = 0
	return c != Cut{}
}

// markdown writes one comment.
type markdown struct {
	r     *Review
	cut   Cut
	left  int               // characters
	since map[string]string // Group.ID → new, changed
	rowed bool              // every app has a row with its summary
}

const (
	smallest    = 4000 // characters below which only the headline and the totals are written
	roomForCut  = 700  // for the line that counts what was cut
	roomForMore = 400  // for the count at the end of a part
)

// Markdown returns the comment on the merge request, in at most limit characters. It counts UTF-16 units, of which no
// forge counts more. Nothing in the comment is live. If the report does not fit, the ladder cuts the least grave and
// least far-reaching changes first; the headline, the cautions, the errors, the apps and all counts stay. Equal
// reviews give equal text. The digest in the marker does not depend on the base commit.
func Markdown(r *Review, limit int) (string, Cut) {
	m := &markdown{r: r, since: map[string]string{}}
	if r.Since != nil {
		for _, id := range r.Since.New {
			m.since[id] = "new"
		}
		for _, id := range r.Since.Changed {
			m.since[id] = "changed"
		}
	}
	mark := ""
	if r.Marker != nil {
		withDigest := *r.Marker
		withDigest.Digest = Digest("")
		mark = Marker(withDigest) + "\n"
	}
	body := m.body(limit - size(mark))
	if r.Marker != nil {
		withDigest := *r.Marker
		withDigest.Digest = Digest(strings.Replace(body, m.footer(true), m.footer(false), 1))
		mark = Marker(withDigest) + "\n"
	}
	return mark + body, m.cut
}

// Heading begins the first visible line of a report in Markdown.
const Heading = "## Sluice: "

func (m *markdown) body(limit int) string {
	top := Heading + headline(m.r, code) + "\n\n" + m.status()
	foot := m.footer(true)
	if limit < smallest {
		return m.least(limit)
	}
	m.left = limit - size(top) - size(foot) - roomForCut
	// Parts take their room in order of importance; the order of reading is below.
	errors := m.take(m.errors(), 2)
	withheld := m.take(m.withheld(), 2) + m.take(m.files(false), 4)
	cautions := m.take(m.cautions(), 2)
	rollout := m.take(m.rollout(), 4)
	upgrade := m.take(m.upgrade(), 4)
	m.left -= 4 * roomForMore // for the parts after the apps
	apps, noise := m.apps()
	m.left += 3 * roomForMore
	findings := m.findings()
	resolved := m.take(m.resolved(), 4)
	companions := m.take(m.companions(), 4) + m.take(pinsPart(m.r.Pins), 4)
	warnings := m.take(m.warnings(), 4)
	log := m.take(m.log(), 4)
	groups := m.groups()
	if c := m.r.Changes; c != nil {
		groups += m.groupList("\n### Declarations\n\nThese objects declare targets that are withheld or render the same.\n", pointers(c.Declarations)) + m.take(m.files(true), 4)
	}
	notes := m.notes()
	cut := m.cutLine()
	out := top + companions + errors + cautions + withheld + rollout + upgrade + findings + apps + noise + groups + resolved +
		warnings + log + notes + cut + foot
	out = strings.ReplaceAll(out, "\n\n\n", "\n\n") // never within text from outside: each of its lines has a mark
	if size(out) > limit {                          // the headline, links and counts alone exceed the limit
		m.cut = Cut{}
		return m.least(limit)
	}
	return out
}

// take writes a part into a share of what is left.
func (m *markdown) take(p *part, divisor int) string {
	text, shown := p.fit(max(0, m.left) / divisor)
	m.left -= size(text)
	m.cut.Others += len(p.items) - shown
	return text
}

// least is the report for a limit into which hardly anything fits.
func (m *markdown) least(limit int) string {
	if c := m.r.Changes; c != nil {
		m.cut.Groups, m.cut.AppRows = len(c.Groups), len(c.Apps)
		for i := range c.Groups {
			m.cut.Counted += total(c.Groups[i].Counts)
		}
	}
	m.cut.Findings = len(m.r.Findings.Introduced)
	m.cut.Others = len(m.r.Errors) + len(m.r.Warnings)
	var out string
	for _, more := range []string{Heading + headline(m.r, code) + "\n", "\n" + m.status(), "Run " + code(Command(m.r)) +
		" to see the changes.\n"} {
		if size(out)+size(more) <= limit {
			out += more
		}
	}
	return out
}

// status is the verdict and what is new since the last reviewed head.
func (m *markdown) status() string {
	var out strings.Builder
	if sign, words := VerdictWords(m.r); words != "" {
		out.WriteString(sign + " **" + words + "**")
		if text := VerdictDetail(m.r); text != "" {
			out.WriteString(": " + text)
		}
		out.WriteString(".\n\n")
	}
	if m.r.Waits != "" {
		out.WriteString("⏳ This merge request " + prose(m.r.Waits) + ".\n\n")
	}
	if d := m.r.Since; d != nil {
		text := joined(withCount(len(d.New), "new"), withCount(len(d.Changed), "changed"),
			withCount(len(d.Gone), "gone"))
		if text == "" {
			out.WriteString("Since your push of " + code(abbreviated(d.Commit)) + ": the same changes.\n\n")
		} else {
			out.WriteString("Since your push of " + code(abbreviated(d.Commit)) + ", groups of changes: " + text +
				m.sinceNames() + ".\n\n")
		}
	}
	return out.String()
}

func withCount(n int, word string) string {
	if n == 0 {
		return ""
	}
	return Number(n) + " " + word
}

// sinceNames names the first groups that are new or changed since the last reviewed head.
func (m *markdown) sinceNames() string {
	if m.r.Changes == nil {
		return ""
	}
	var names []string
	for i := range m.r.Changes.Groups {
		g := &m.r.Changes.Groups[i]
		if m.since[g.ID] == "" {
			continue
		}
		if len(names) == maxNamed {
			names = append(names, "…")
			break
		}
		name := code(g.App) + " on " + code(patterns(g.Where, 2))
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " — " + strings.Join(names, ", ")
}

// VerdictDetail counts what leads to the verdict: `1 critical change, 1 new warning`.
func VerdictDetail(r *Review) string {
	var parts []string
	if n := len(r.Errors); n > 0 {
		parts = append(parts, Count(n, "error"))
	}
	if n := criticals(r.Changes); n > 0 {
		parts = append(parts, Count(n, "critical change"))
	}
	if r.Routine != nil && r.Routine.Routine {
		parts = append(parts, "routine, because "+r.Routine.Why)
	}
	if c := r.Changes; c != nil {
		if n := withheldCount(c); n > 0 {
			parts = append(parts, Count(n, "target")+" withheld")
		}
		if n := len(c.Withheld) - withheldCount(c); n > 0 {
			parts = append(parts, "the base of "+Count(n, "target")+" unknown")
		}
		if text := uncertain(c); text != "" {
			parts = append(parts, text)
		}
	}
	if f := &r.Findings; len(f.Introduced)+len(f.Existing)+len(f.Resolved)+f.Exempted > 0 {
		parts = append(parts, policyWords(f))
	}
	return joined(parts...)
}

// apps returns the table of apps and the line of folded noise. One app, or one change of several apps, needs no table:
// its own line says the same.
func (m *markdown) apps() (table, noise string) {
	c := m.r.Changes
	if c == nil {
		return "", ""
	}
	noise = m.noise()
	m.left -= size(noise)
	p, rows := m.appRows(true)
	if len(rows) == 0 || len(rows) == 1 && len(c.Withheld) == 0 {
		return "", noise
	}
	const wide = 2 // rows with a summary take at most half of the room
	text, shown := p.fit(m.left / wide)
	m.rowed = shown == len(p.items)
	if !m.rowed {
		p, rows = m.appRows(false)
		text, shown = p.fit(m.left)
	}
	m.left -= size(text)
	for _, r := range rows[shown:] {
		m.cut.AppRows += r.apps
	}
	return text, noise
}

// appRow is a row of the table: an app, or several apps with one change that is the same on all of them.
type appRow struct {
	*diff.App
	apps int
}

// appRows returns the rows of the apps in which something changes, rolls or is withheld.
func appRows(c *diff.ChangeSet) []*appRow {
	entry := map[string]*Entry{} // of an app with one group
	for _, e := range Entries(pointers(c.Groups)) {
		for _, app := range e.Apps() {
			entry[app] = e
		}
	}
	byEntry := map[*Entry]*appRow{}
	var out []*appRow
	for i := range c.Apps {
		a := &c.Apps[i]
		if total(a.Counts) == 0 && a.Counts.Workloads == 0 && a.Withheld == 0 {
			continue
		}
		e := entry[a.Name]
		if e == nil || len(e.Others) == 0 || a.Groups != 1 || a.Withheld > 0 {
			out = append(out, &appRow{App: a, apps: 1})
			continue
		}
		row := byEntry[e]
		if row == nil {
			own := *a
			own.Summary = e.summary()
			row = &appRow{App: &own}
			byEntry[e], out = row, append(out, row)
		} else {
			row.Counts.Add(a.Counts, 1)
			row.Groups++
		}
		row.apps++
	}
	return out
}

// names names the apps of a row.
func (r *appRow) names(name naming) string {
	if r.apps == 1 {
		return name(r.Name)
	}
	return name(r.Name) + " and " + Count(r.apps-1, "other")
}

func (m *markdown) appRows(summaries bool) (*part, []*appRow) {
	list := appRows(m.r.Changes)
	p := &part{}
	for _, a := range list {
		p.items = append(p.items, a.markdown(summaries))
	}
	const open = 25
	head := row("", "App", "Clusters", "Groups", "Added", "Changed", "Removed", "Summary") +
		"|---|---|---|--:|--:|--:|--:|---|\n"
	p.head = head
	p.tail = "\n"
	if len(list) > open+open/2 {
		p.fold, p.open, p.close = open, "\n<details><summary>More apps</summary>\n\n"+head, "\n</details>\n"
	}
	p.more = func(shown int) string {
		var c diff.Counts
		withheld, apps := 0, 0
		for _, a := range list[shown:] {
			c.Add(a.Counts, 1)
			withheld += a.Withheld
			apps += a.apps
		}
		held := ""
		if withheld > 0 {
			held = Count(withheld, "target") + " withheld"
		}
		return "\n**And " + Count(apps, "more app") + "** without a row: " +
			joined(ChangeCounts(c), Rolls(c.Workloads), held) + ".\n"
	}
	return p, list
}

func (r *appRow) markdown(summaries bool) string {
	a := r.App
	where, words := Number(a.Clusters), ""
	if summaries {
		if len(a.Where) > 0 {
			where = code(patterns(a.Where, 3))
		}
		words = prose(a.Summary)
	}
	if a.Withheld > 0 {
		held := Count(a.Withheld, "target") + " withheld"
		if words != "" {
			held = "; " + held
		}
		words += held
	}
	mark := sign(a.Risk)
	if a.Withheld > 0 {
		mark = "⛔"
	}
	return row(mark, r.names(code), where, Number(a.Groups), plus(a.Counts.Added), plus(a.Counts.Changed),
		plus(a.Counts.Deleted()), words)
}

// plus writes a number, and nothing for zero.
func plus(n int) string {
	if n == 0 {
		return ""
	}
	return Number(n)
}

// noise counts the folded noise.
func (m *markdown) noise() string {
	c := m.r.Changes
	if c.Totals.Noise == 0 {
		return ""
	}
	s := scopeOf(c)
	out := "Folded noise: " + Count(c.Totals.Noise, "object") + " on " + Count(s.noisy, "cluster") +
		" with only new version labels, checksums or equal values"
	if len(s.quiet) > 0 {
		const most = 5
		names := make([]string, 0, most+1)
		for i, a := range s.quiet {
			if i == most {
				names = append(names, Count(len(s.quiet)-i, "more app"))
				break
			}
			names = append(names, code(a))
		}
		out += "; no other change in " + strings.Join(names, ", ")
	}
	return "\n" + out + ".\n"
}

// groups writes the groups of changes into the room that is left.
func (m *markdown) groups() string {
	if m.r.Changes == nil {
		return ""
	}
	var list []*diff.Group
	for i := range m.r.Changes.Groups {
		if g := &m.r.Changes.Groups[i]; !quietGroup(g) {
			list = append(list, g)
		}
	}
	return m.groupList("\n### Changes\n", list)
}

func pointers(groups []diff.Group) []*diff.Group {
	out := make([]*diff.Group, len(groups))
	for i := range groups {
		out[i] = &groups[i]
	}
	return out
}

func (m *markdown) groupList(heading string, groups []*diff.Group) string {
	if len(groups) == 0 {
		return ""
	}
	l := newLadder(m, groups)
	l.climb(m.left - len(heading))
	text := heading + l.text()
	m.left -= size(text)
	return text
}
