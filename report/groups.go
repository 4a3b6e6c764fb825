package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	maxWhere  = 6   // patterns of one group
	maxPaths  = 8   // changed paths of one object
	maxImages = 30  // of one group
	maxNamed  = 5   // objects that roll because of noise
	maxLine   = 300 // characters of one line of a diff
	maxValue  = 60  // characters of a value behind its path
)

// summaryLine is a group's line while it is folded.
func (m *markdown) summaryLine(e *Entry) string {
	var out strings.Builder
	out.WriteString(sign(e.Risk) + " <b>" + e.name(htmlCode) + "</b> on " + htmlCode(patterns(e.Where, maxWhere)))
	if text := GroupCounts(e.Group); text != "" {
		out.WriteString(" — " + text)
	}
	if c := e.Place(); c != nil && len(e.Others) > 0 {
		out.WriteString(", from " + htmlCode(c.String()))
	}
	if text := e.summary(); text != "" {
		out.WriteString(": " + htmlProse(text))
	}
	if tag := e.Since(m.since); tag != "" {
		out.WriteString(" <b>(" + tag + ")</b>")
	}
	return out.String()
}

// GroupCounts writes the counts of one cluster.
func GroupCounts(g *diff.Group) string {
	text := ChangeCounts(g.Counts)
	if text != "" && len(g.Clusters) > 1 {
		text += " on each"
	}
	if g.BaseUnknown {
		text = joined(text, BaseUnknownWords)
	}
	return text
}

// rowOf is a group's row where its objects are not shown.
func (m *markdown) rowOf(e *Entry) string {
	where := code(patterns(e.Where, maxWhere))
	return row(sign(e.Risk), e.name(code), where, GroupCounts(e.Group), prose(e.summary()))
}

// shell is what a group shows besides its objects.
func (m *markdown) shell(g *Entry) string {
	var out strings.Builder
	out.WriteString("<details><summary>" + m.summaryLine(g) + "</summary>\n\n")
	if line := g.appsLine(code); line != "" {
		out.WriteString("Apps: " + line + "\n\n")
	}
	if line := g.removedLine(code); line != "" {
		out.WriteString(line + ".\n\n")
	}
	if len(g.Varies) > 0 {
		names := make([]string, 0, maxWhere+1)
		for i, v := range g.Varies {
			if i == maxWhere {
				names = append(names, Count(len(g.Varies)-i, "more reference"))
				break
			}
			names = append(names, code("${"+v+"}"))
		}
		out.WriteString("Clusters differ by " + strings.Join(names, ", ") + "; shown for " + code(g.Example) + ".\n\n")
	}
	if line := noiseLine(g.Group, code); line != "" {
		out.WriteString(line + "\n\n")
	}
	return out.String()
}

const shellEnd = "\n</details>\n"

// noiseLine counts the objects in which only noise changes and names those that roll because of it.
func noiseLine(g *diff.Group, name naming) string {
	n, rolling := 0, []string{}
	for i := range g.Objects {
		o := &g.Objects[i]
		if !o.OnlyNoise() {
			continue
		}
		n++
		if o.Rolls {
			rolling = append(rolling, o.Title())
		}
	}
	if n == 0 {
		return ""
	}
	out := "Folded noise: " + Count(n, "object") + " with only new version labels, checksums or equal values"
	if len(rolling) == 0 {
		return out + "."
	}
	out += "; " + Rolls(len(rolling)) + ": "
	for i, title := range rolling {
		if i == maxNamed {
			return out + " and " + Number(len(rolling)-i) + " more."
		}
		if i > 0 {
			out += ", "
		}
		out += name(title)
	}
	return out + "."
}

// objectLine names an object: `Deployment web/web`, rolls.
func objectLine(o *diff.ObjectChange, name naming) string {
	switch {
	case o.Verb == diff.Renamed:
		return name(diff.Title(o.OldID)) + " → " + name(o.Title())
	case o.Verb == diff.Changed && o.Rolls:
		return name(o.Title()) + ", rolls"
	}
	return name(o.Title())
}

// VerbWord says what happens to an object, in words that begin a line.
func VerbWord(o *diff.ObjectChange) string {
	if o.Orphaned() {
		return "No longer managed"
	}
	switch o.Verb {
	case diff.Added:
		return "Added"
	case diff.Removed:
		return "Removed"
	case diff.Renamed:
		return "Renamed"
	}
	return "Changed"
}

// named is an object's bullet: the lowest rung at which an object has a line of its own.
func named(o *Folded) string {
	return "- " + VerbWord(o.ObjectChange) + " " + objectLine(o.ObjectChange, code) + suffix(o.sameLine(code)) + "\n"
}

func suffix(text string) string {
	if text == "" {
		return ""
	}
	return ". " + text + "."
}

// withPaths is the bullet with the changed paths and their values.
func withPaths(o *Folded) string {
	text := ""
	switch {
	case o.Like != nil:
		text = "the same change as on " + o.likeText(code)
	case OnlyImages(o.ObjectChange):
		text = imageText(o.ObjectChange, code)
	case len(o.Fields) == 0:
		return named(o)
	default:
		text = pathsText(o.ObjectChange)
	}
	return "- " + VerbWord(o.ObjectChange) + " " + objectLine(o.ObjectChange, code) + ": " + text +
		suffix(o.sameLine(code)) + "\n"
}

func pathsText(o *diff.ObjectChange) string {
	var parts []string
	for i := range o.Fields {
		if i == maxPaths {
			parts = append(parts, "and "+Count(len(o.Fields)-i, "more field"))
			break
		}
		parts = append(parts, fieldText(&o.Fields[i], code))
	}
	return strings.Join(parts, ", ")
}

// imageText lists the images of an object, one for each change.
func imageText(o *diff.ObjectChange, name naming) string {
	var parts []string
	rows := ImageRows(o)
	for i := range rows {
		if i == maxImages {
			parts = append(parts, "and "+Count(len(rows)-i, "more image"))
			break
		}
		parts = append(parts, rows[i].text(name))
	}
	return strings.Join(parts, "; ")
}

// fieldText is a changed field's path, with its values if they are scalars.
func fieldText(f *diff.FieldChange, name naming) string {
	old, ok1 := scalar(f.Old)
	now, ok2 := scalar(f.New)
	path := name(f.Path)
	switch {
	case f.Had && f.Has && ok1 && ok2 && old != now:
		return path + " " + name(old) + " → " + name(now)
	case !f.Had && ok2:
		return path + " added, " + name(now)
	case !f.Had:
		return path + " added"
	case !f.Has:
		return path + " removed"
	}
	return path
}

func scalar(v any) (string, bool) {
	switch v.(type) {
	case map[string]any, []any:
		return "", false
	}
	return safetext.Shorten(fmt.Sprint(v), maxValue), true
}

// full is an object with its changed fields in context, in at most so many lines (-1: all). left counts the lines
// that are left out.
func full(o *Folded, most int) (text string, left int) {
	if o.Like != nil {
		return withPaths(o), 0
	}
	if o.Verb == diff.Removed && len(o.Hunks) > 0 {
		return removedManifest(o, most)
	}
	var out strings.Builder
	out.WriteString("**" + VerbWord(o.ObjectChange) + "** " + objectLine(o.ObjectChange, code))
	for _, e := range o.Effects {
		if e.Name != diff.EffectImage && (e.Name != diff.EffectRolls || e.Risk != diff.RiskMedium) {
			out.WriteString(" · " + prose(e.Message))
		}
	}
	if o.Verb != diff.Added && o.Verb != diff.Removed && len(o.Noise) > 0 {
		out.WriteString(" · " + Count(len(o.Noise), "field") + " of noise folded")
	}
	if OnlyImages(o.ObjectChange) {
		return out.String() + " · " + imageText(o.ObjectChange, code) + suffix(o.sameLine(code)) + "\n\n", 0
	}
	out.WriteString("\n\n")
	lines, left := hunkLines(o.ObjectChange, most)
	if len(lines) > 0 {
		out.WriteString(fence("diff", lines))
	}
	if left > 0 {
		out.WriteString("\n" + Count(left, "more line") + " not shown.\n")
	}
	if same := o.sameLine(code); same != "" {
		out.WriteString("\n" + same + ".\n")
	}
	out.WriteString("\n")
	return out.String(), left
}

// removedManifest is a removed object with its manifest, folded: what matters is that it goes.
func removedManifest(o *Folded, most int) (text string, left int) {
	lines, left := hunkLines(o.ObjectChange, most)
	var out strings.Builder
	out.WriteString("<details><summary><b>" + VerbWord(o.ObjectChange) + "</b> " + objectLine(o.ObjectChange, htmlCode))
	for _, e := range o.Effects {
		out.WriteString(" · " + htmlProse(e.Message))
	}
	out.WriteString("</summary>\n\n" + fence("diff", lines))
	if left > 0 {
		out.WriteString("\n" + Count(left, "more line") + " not shown.\n")
	}
	return out.String() + "\n</details>\n\n", left
}

// hunkLines returns the lines of an object's hunks, escaped, with the path above each hunk.
func hunkLines(o *diff.ObjectChange, most int) (lines []string, left int) {
	n := 0
	for i := range o.Hunks {
		h := &o.Hunks[i]
		shown := h.Lines
		if most >= 0 && n+len(shown) > most {
			shown = shown[:max(0, most-n)]
			left += len(h.Lines) - len(shown)
		}
		if len(shown) == 0 {
			continue
		}
		if o.Verb != diff.Added && o.Verb != diff.Removed {
			lines = append(lines, hunkHead(h))
		}
		for j, l := range shown {
			lines = append(lines, diffLine(l, counterpart(shown, j)))
		}
		n += len(shown)
	}
	return lines, left
}

func hunkHead(h *diff.Hunk) string {
	if h.Path == "" {
		return fmt.Sprintf("@@ line %d @@", max(h.OldStart, h.NewStart))
	}
	return "@@ " + safetext.Line(safetext.Shorten(h.Path, maxLine)) + " @@"
}

// counterpart returns the line that replaces a line: a single '-' before a single '+', or the other way around.
func counterpart(lines []string, i int) string {
	at := func(j int) byte {
		if j < 0 || j >= len(lines) || lines[j] == "" {
			return ' '
		}
		return lines[j][0]
	}
	switch {
	case at(i) == '-' && at(i+1) == '+' && at(i-1) != '-' && at(i+2) != '+':
		return lines[i+1]
	case at(i) == '+' && at(i-1) == '-' && at(i-2) != '-' && at(i+1) != '+':
		return lines[i-1]
	}
	return ""
}

// diffLine escapes and shortens a line of a hunk. Of a very long line it shows the part that differs from other, its
// counterpart.
func diffLine(l, other string) string {
	if l == "" || strings.IndexByte(" -+", l[0]) < 0 {
		l = " " + l
	}
	if len(l) <= maxLine {
		return safetext.Line(l)
	}
	mark, body := l[:1], l[1:]
	if other != "" {
		if at := commonPrefix(body, other[1:]); at > maxLine/2 {
			const start, before = 60, 40
			from := max(start, at-before)
			for from < len(body) && !utf8.RuneStart(body[from]) {
				from++
			}
			body = safetext.Shorten(body, start) + " … " + body[from:]
		}
	}
	return mark + safetext.Line(safetext.Shorten(body, maxLine))
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
