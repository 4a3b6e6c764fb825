package report

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
)

// ladder fits the changes into a limited number of characters. The changes are a sequence of groups, gravest first,
// each a sequence of objects. Every rung covers a beginning of that sequence, so a graver change never shows less
// than a lighter one:
//
//	full hunks ⊆ changed paths ⊆ objects by name ⊆ a row in the table; the rest is counted.
//
// Each step walks the sequence once and stops where its share of the room is used up, so the cost depends on the
// limit and not on the number of objects. The first round reserves room for the higher rungs; the second round
// gives what is left to the lower ones.

// unit is a group's shell (object nil) or one of its objects.
type unit struct {
	group  int
	object *Folded
	text   string
	size   int
	lines  int // of hunks that are left out
}

type ladder struct {
	m      *markdown
	groups []*Entry
	units  []unit
	rows   []string // of the first groups
	sizes  []int    // of rows

	ofApp map[string]int // groups of each app

	named, paths, full int // units that have at least this rung
	used               int
}

// Shares of the room that the first round uses, per cent.
const (
	shareRows  = 25
	shareNamed = 40
	sharePaths = 60
	shareAll   = 100

	shareObject = 4   // one object takes at most a quarter of the room
	fewestLines = 8   // of a diff that is cut; less is useless
	openGroups  = 12  // shown one by one; further ones are folded together
	roomForRest = 900 // for frames and for counting the rest
)

func newLadder(m *markdown, groups []*diff.Group) *ladder {
	l := &ladder{m: m, groups: Entries(groups), ofApp: map[string]int{}}
	fold := NewFolder()
	for i, e := range l.groups {
		for _, app := range e.Apps() {
			l.ofApp[app]++
		}
		l.units = append(l.units, unit{group: i})
		for _, o := range fold.FoldEntry(e) {
			l.units = append(l.units, unit{group: i, object: o})
		}
	}
	return l
}

// climb gives every unit its rung.
func (l *ladder) climb(room int) {
	room -= roomForRest
	if room <= 0 {
		return
	}
	l.giveRows(room * shareRows / shareAll)
	l.giveNames(room * shareNamed / shareAll)
	l.givePaths(room * sharePaths / shareAll)
	l.giveHunks(room, false)
	l.giveNames(room)
	l.givePaths(room)
	l.giveHunks(room, true)
	l.giveRows(room)
}

func (l *ladder) giveRows(room int) {
	for len(l.rows) < len(l.groups) {
		text := ""
		if e := l.groups[len(l.rows)]; !l.m.rowed ||
			slices.ContainsFunc(e.Apps(), func(a string) bool { return l.ofApp[a] > 1 }) {
			text = l.m.rowOf(e)
		}
		n := size(text)
		if l.opened(len(l.rows)) {
			n = 0 // the shell replaces the row
		} else if l.used+n > room {
			return
		}
		l.rows, l.sizes = append(l.rows, text), append(l.sizes, n)
		l.used += n
	}
}

// opened reports whether a group has its shell.
func (l *ladder) opened(group int) bool {
	return l.named > 0 && l.units[l.named-1].group >= group
}

func (l *ladder) giveNames(room int) {
	for l.named < len(l.units) {
		u := &l.units[l.named]
		text, saved := "", 0
		if u.object == nil {
			text = l.m.shell(l.groups[u.group]) + shellEnd
			if u.group < len(l.sizes) {
				saved = l.sizes[u.group]
			}
		} else {
			text = named(u.object)
		}
		n := size(text)
		if l.used+n-saved > room {
			return
		}
		if saved > 0 {
			l.sizes[u.group] = 0
		}
		u.text, u.size = text, n
		l.used += n - saved
		l.named++
	}
}

func (l *ladder) givePaths(room int) {
	for l.paths < l.named {
		u := &l.units[l.paths]
		if u.object != nil {
			text := withPaths(u.object)
			n := size(text)
			if l.used+n-u.size > room {
				return
			}
			l.used += n - u.size
			u.text, u.size = text, n
		}
		l.paths++
	}
}

// giveHunks gives the full form. An object that exceeds its share is cut; in the last round, also the object at which
// the room ends.
func (l *ladder) giveHunks(room int, last bool) {
	for l.full < l.paths {
		u := &l.units[l.full]
		if u.object == nil {
			l.full++
			continue
		}
		left := room - l.used + u.size
		share := min(left, room/shareObject)
		text, cut := l.fullWithin(u.object, share)
		fits := text != "" && (last || cut == 0 || share < left)
		if !fits {
			return
		}
		n := size(text)
		l.used += n - u.size
		u.text, u.size, u.lines = text, n, cut
		l.full++
		if cut > 0 && share == left {
			return // the room ends here
		}
	}
}

// fullWithin returns an object's full form within a size, "" if too little of it would be left. Its cost depends on
// the size.
func (l *ladder) fullWithin(o *Folded, room int) (text string, cut int) {
	most := min(o.Lines, room) // each line takes more than one character
	for range 6 {
		text, cut = full(o, most)
		n := size(text)
		if n <= room {
			return text, cut
		}
		shown := o.Lines - cut
		next := min(shown*room/(n+1), shown-1)
		if next < fewestLines {
			return "", 0
		}
		most = next
	}
	return "", 0
}

// text writes the groups and counts what each rung covers.
func (l *ladder) text() string {
	var out strings.Builder
	opened, inFold := 0, false
	last := -1
	for i := range l.units[:l.named] {
		u := &l.units[i]
		if u.object == nil {
			if last >= 0 {
				out.WriteString(shellEnd)
			}
			if opened == openGroups && l.openedGroups() > openGroups+1 {
				inFold = true
				out.WriteString("\n<details><summary>" + Count(l.openedGroups()-opened, "more group") +
					" of changes</summary>\n\n")
			}
			out.WriteString("\n" + strings.TrimSuffix(u.text, shellEnd))
			opened++
		} else {
			if i >= l.full && i > 0 && l.units[i-1].object != nil && i-1 < l.full {
				out.WriteString("\n")
			}
			out.WriteString(u.text)
		}
		last = u.group
	}
	if rest := l.unnamed(last); rest != "" {
		out.WriteString("\n" + rest + "\n")
	}
	if last >= 0 {
		out.WriteString(shellEnd)
	}
	if inFold {
		out.WriteString("\n</details>\n")
	}
	l.writeRows(&out, last+1)
	l.count(last)
	return out.String()
}

func (l *ladder) openedGroups() int {
	if l.named == 0 {
		return 0
	}
	return l.units[l.named-1].group + 1
}

// unnamed counts the objects of the last open group that have no line of their own.
func (l *ladder) unnamed(group int) string {
	var c diff.Counts
	for i := l.named; i < len(l.units) && l.units[i].group == group; i++ {
		n := l.units[i].object.Objects()
		switch o := l.units[i].object; o.Verb {
		case diff.Added:
			c.Added += n
		case diff.Removed:
			c.Removed += n
			if o.Orphaned() {
				c.Orphaned += n
			}
		default:
			c.Changed += n
		}
	}
	if total(c) == 0 {
		return ""
	}
	return "And " + Count(total(c), "more object") + ": " + ChangeCounts(c) + "."
}

func (l *ladder) writeRows(out *strings.Builder, from int) {
	table, above := strings.Builder{}, 0
	for _, r := range l.rows[min(from, len(l.rows)):] {
		table.WriteString(r)
		if r == "" {
			above++
		}
	}
	if table.Len() > 0 {
		out.WriteString("\n**Further groups**\n\n" + row("", "App", "Where", "Objects", "Summary") +
			"|---|---|---|---|---|\n" + table.String())
	}
	if above > 0 {
		out.WriteString("\nThe table of apps summarizes " + Count(above, "more group") +
			", each the only one of its app.\n")
	}
	rest := max(from, len(l.rows))
	if rest >= len(l.groups) {
		return
	}
	var c diff.Counts
	apps := map[string]bool{}
	for _, e := range l.groups[rest:] {
		for _, g := range e.Groups() {
			c.Add(g.Counts, len(g.Clusters))
			apps[g.App] = true
		}
	}
	out.WriteString("\nAnd " + Count(len(l.groups)-rest, "more group") + " of " + Count(len(apps), "app") + ": " +
		joined(ChangeCounts(c), Rolls(c.Workloads)) + ".\n")
}

// count records what was cut.
func (l *ladder) count(last int) {
	cut := &l.m.cut
	for i := range l.units {
		u := &l.units[i]
		if u.object == nil {
			continue
		}
		n := u.object.Objects()
		switch {
		case i < l.full:
			cut.Full += n
			cut.Lines += u.lines
		case i < l.paths:
			cut.Paths += n
		case i < l.named:
			cut.Named += n
		default:
			cut.Counted += n
		}
	}
	cut.GroupRows = max(0, len(l.rows)-last-1)
	cut.Groups = len(l.groups) - max(len(l.rows), last+1)
}
