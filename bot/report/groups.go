package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	maxWhere  = 6   // patterns of one group
	maxPaths  = 8   // changed paths of one object
	maxImages = 30  // of one group
	maxNamed  = 5   // objects of noise that roll
	maxLine   = 300 // characters of one line of a diff
	maxValue  = 60  // characters of a value beside its path
)

// summaryLine is a group's line while it is folded.
func (m *markdown) summaryLine(g *diff.Group) string {
	var out strings.Builder
	out.WriteString(sign(g.Risk) + " <b>" + htmlCode(g.App) + "</b> on " + htmlCode(patterns(g.Where, maxWhere)))
	if text := groupCounts(g); text != "" {
		out.WriteString(" — " + text)
	}
	if g.Summary != "" {
		out.WriteString(": " + htmlProse(g.Summary))
	}
	if tag := m.since[g.ID]; tag != "" {
		out.WriteString(" <b>(" + tag + ")</b>")
	}
	return out.String()
}

// groupCounts are those of one cluster.
func groupCounts(g *diff.Group) string {
	text := changeCounts(g.Counts)
	if text != "" && len(g.Clusters) > 1 {
		text += " on each"
	}
	return text
}

// rowOf is a group's row where its objects are not shown.
func (m *markdown) rowOf(g *diff.Group) string {
	where := code(patterns(g.Where, maxWhere))
	return row(sign(g.Risk), code(g.App), where, groupCounts(g), prose(g.Summary))
}

// shell is what a group has besides its objects.
func (m *markdown) shell(g *diff.Group) string {
	var out strings.Builder
	out.WriteString("<details><summary>" + m.summaryLine(g) + "</summary>\n\n")
	if len(g.Varies) > 0 {
		names := make([]string, 0, maxWhere+1)
		for i, v := range g.Varies {
			if i == maxWhere {
				names = append(names, count(len(g.Varies)-i, "more reference"))
				break
			}
			names = append(names, code("${"+v+"}"))
		}
		out.WriteString("Differs from cluster to cluster by " + strings.Join(names, ", ") + "; shown as on " + code(g.Example) + ".\n\n")
	}
	if images := imagesOf(g); len(images) > 0 {
		out.WriteString(row("Container", "Image before", "Image after") + "|---|---|---|\n")
		for i, image := range images {
			if i == maxImages {
				out.WriteString(row(count(len(images)-i, "more image"), "", ""))
				break
			}
			out.WriteString(row(code(image.Container), imageCell(image.Old), imageCell(image.New)))
		}
		out.WriteString("\n")
	}
	if line := noiseLine(g, code); line != "" {
		out.WriteString(line + "\n\n")
	}
	return out.String()
}

const shellEnd = "\n</details>\n"

func imageCell(image string) string {
	if image == "" {
		return "none"
	}
	return code(image)
}

// imagesOf are the images that change from one to another; those of added and removed objects are read in their text.
func imagesOf(g *diff.Group) []diff.Image {
	var out []diff.Image
	seen := map[diff.Image]bool{}
	for i := range g.Objects {
		if v := g.Objects[i].Verb; v == diff.Added || v == diff.Removed {
			continue
		}
		for _, image := range g.Objects[i].Images {
			if !seen[image] {
				seen[image] = true
				out = append(out, image)
			}
		}
	}
	return out
}

// noiseLine counts the objects that have noise alone, and names those that roll for it.
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
	verb := " change"
	if n == 1 {
		verb = " changes"
	}
	out := "Folded noise: " + count(n, "object") + verb + " in version labels and checksums alone"
	if len(rolling) == 0 {
		return out + "."
	}
	out += "; " + rolls(len(rolling)) + " for it: "
	for i, title := range rolling {
		if i == maxNamed {
			return out + " and " + number(len(rolling)-i) + " more."
		}
		if i > 0 {
			out += ", "
		}
		out += name(title)
	}
	return out + "."
}

// objectLine names an object and what becomes of it.
func objectLine(o *diff.ObjectChange, name naming) string {
	switch {
	case o.Verb == diff.Renamed:
		return name(diff.Title(o.OldID)) + " → " + name(o.Title())
	case o.Verb == diff.Changed && o.Rolls:
		return name(o.Title()) + ", rolls"
	}
	return name(o.Title())
}

func verbWord(v diff.Verb) string {
	switch v {
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
func named(o *diff.ObjectChange) string {
	return "- " + verbWord(o.Verb) + " " + objectLine(o, code) + "\n"
}

// withPaths is the bullet with the changed paths and their values.
func withPaths(o *diff.ObjectChange) string {
	if len(o.Fields) == 0 {
		return named(o)
	}
	var out strings.Builder
	out.WriteString("- " + verbWord(o.Verb) + " " + objectLine(o, code) + ": ")
	for i := range o.Fields {
		if i == maxPaths {
			out.WriteString(" and " + count(len(o.Fields)-i, "more field"))
			break
		}
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(fieldText(&o.Fields[i], code))
	}
	out.WriteString("\n")
	return out.String()
}

// fieldText is a changed field's path with its values, if they are short enough for a line.
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

// full is an object with the changed fields in context, cut to at most so many lines (-1: all). left is what was cut off.
func full(o *diff.ObjectChange, most int) (text string, left int) {
	var out strings.Builder
	out.WriteString("**" + verbWord(o.Verb) + "** " + objectLine(o, code))
	for _, e := range o.Effects {
		if e.Name != diff.EffectImage && (e.Name != diff.EffectRolls || e.Risk != diff.RiskMedium) {
			out.WriteString(" · " + prose(e.Message))
		}
	}
	if o.Verb != diff.Added && o.Verb != diff.Removed && len(o.Noise) > 0 {
		out.WriteString(" · " + count(len(o.Noise), "field") + " of noise folded")
	}
	out.WriteString("\n\n")
	lines, left := hunkLines(o, most)
	if len(lines) > 0 {
		out.WriteString(fence("diff", lines))
	}
	if left > 0 {
		out.WriteString("\n" + count(left, "more line") + " not shown.\n")
	}
	out.WriteString("\n")
	return out.String(), left
}

// hunkLines are the lines of an object's hunks, escaped, with the path above each hunk.
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
			lines = append(lines, diffLine(l, beside(shown, j)))
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

// beside is the line that a removed or added one is the other form of: a lone '-' before a lone '+'.
func beside(lines []string, i int) string {
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

// diffLine makes a line of a hunk fit to be read. Of a very long one the part is shown in which it differs from its other form.
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

// shownObjects are those with a line of their own: all but noise.
func shownObjects(g *diff.Group) []*diff.ObjectChange {
	out := make([]*diff.ObjectChange, 0, len(g.Objects))
	for i := range g.Objects {
		if !g.Objects[i].OnlyNoise() {
			out = append(out, &g.Objects[i])
		}
	}
	return slices.Clip(out)
}
