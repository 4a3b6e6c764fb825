package diff

import (
	"cmp"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const contextLines = 3

// compare returns the change of an object, or nil if nothing changes. before is nil for an added object, after for a
// removed one. by says how the tool applies the change.
func compare(before, after manifest.Object, by applying) *ObjectChange {
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		out := &ObjectChange{Verb: Added, ID: after.Identity(), APIVersion: after.APIVersion()}
		out.Hunks = hunks(nil, lines(after))
		return finish(out, nil, after, by, nil)
	case after == nil:
		out := &ObjectChange{Verb: Removed, ID: before.Identity(), APIVersion: before.APIVersion()}
		out.Hunks = hunks(lines(before), nil)
		return finish(out, before, nil, by, nil)
	}
	out := &ObjectChange{Verb: Changed, ID: after.Identity(), APIVersion: after.APIVersion()}
	if old := before.Identity(); old != out.ID {
		out.Verb, out.OldID = Renamed, old
	}
	now := settled(before, after)
	real := fields("", "", map[string]any(before), map[string]any(now), nil)
	for _, f := range real {
		if noisy(f) {
			out.Noise = append(out.Noise, f)
		} else {
			out.Fields = append(out.Fields, f)
		}
	}
	rolling := len(out.Noise) // what follows changes nothing in the cluster
	out.Noise = append(out.Noise, without(fields("", "", map[string]any(before), map[string]any(after), nil), real)...)
	if len(out.Fields)+len(out.Noise) == 0 {
		return nil // only the order differs
	}
	stored := slices.Concat(out.Fields, out.Noise[:rolling])
	byPath := func(a, b FieldChange) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortStableFunc(out.Fields, byPath)
	slices.SortStableFunc(out.Noise, byPath)
	if len(out.Fields) > 0 {
		shown, _ := alignAll("", map[string]any(before), quiet("", before, now)).(map[string]any)
		out.Context = lines(before)
		out.Hunks = hunks(out.Context, lines(shown))
	}
	return finish(out, before, after, by, stored)
}

// finish counts the lines and judges the change. stored has the changes of fields that reach the cluster, those of
// noise among them.
func finish(out *ObjectChange, before, after manifest.Object, by applying, stored []FieldChange) *ObjectChange {
	for _, h := range out.Hunks {
		out.Lines += len(h.Lines)
	}
	judge(out, before, after, by, stored)
	return out
}

// lines returns an object in canonical YAML.
func lines(o manifest.Object) []string {
	text, err := manifest.Encode(o)
	if err != nil { // not possible: the object was decoded from YAML
		return []string{"# " + err.Error()}
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// hunks returns a unified diff of two texts.
func hunks(a, b []string) []Hunk {
	switch {
	case len(a) == 0 && len(b) == 0:
		return nil
	case len(a) == 0:
		return []Hunk{{NewStart: 1, Lines: prefixed("+", b)}}
	case len(b) == 0:
		return []Hunk{{OldStart: 1, Lines: prefixed("-", a)}}
	}
	before, after := strings.Join(a, "\n")+"\n", strings.Join(b, "\n")+"\n"
	unified, err := udiff.ToUnifiedDiff("", "", before, udiff.Lines(before, after), contextLines)
	if err != nil { // not possible: udiff itself made the edits
		return []Hunk{{OldStart: 1, NewStart: 1, Lines: append(prefixed("-", a), prefixed("+", b)...)}}
	}
	out := make([]Hunk, 0, len(unified.Hunks))
	for _, h := range unified.Hunks {
		one := Hunk{OldStart: h.FromLine, NewStart: h.ToLine, Lines: make([]string, 0, len(h.Lines))}
		old, now, first := h.FromLine, h.ToLine, true
		for _, l := range h.Lines {
			text := strings.TrimSuffix(l.Content, "\n")
			switch l.Kind {
			case udiff.Delete:
				if first {
					one.Path, first = pathAt(a, old-1), false
				}
				one.Lines = append(one.Lines, "-"+text)
				old++
			case udiff.Insert:
				if first {
					one.Path, first = pathAt(b, now-1), false
				}
				one.Lines = append(one.Lines, "+"+text)
				now++
			default:
				one.Lines = append(one.Lines, " "+text)
				old++
				now++
			}
		}
		out = append(out, one)
	}
	return out
}

func prefixed(mark string, text []string) []string {
	out := make([]string, len(text))
	for i, l := range text {
		out[i] = mark + l
	}
	return out
}

// pathAt returns the path of the mapping that contains a line of canonical YAML.
func pathAt(text []string, at int) string {
	if at < 0 || at >= len(text) {
		return ""
	}
	depth := indent(text[at])
	var parts []string
	for i := at - 1; i >= 0 && depth > 0; i-- {
		d := indent(text[i])
		if d >= depth {
			continue
		}
		key := strings.TrimLeft(text[i], " -")
		name, _, ok := strings.Cut(key, ":")
		if !ok {
			continue
		}
		item := strings.HasPrefix(strings.TrimLeft(text[i], " "), "- ")
		switch {
		case item && depth <= len(text[i])-len(key): // the first key of the same list element, not a parent
			if name == "name" {
				_, v, _ := strings.Cut(key, ": ")
				parts = append(parts, "["+v+"]")
			} else {
				parts = append(parts, "[]")
			}
		case item && strings.HasSuffix(key, ":"):
			parts = append(parts, name, "[]")
		case item: // a scalar has no children
		default:
			parts = append(parts, name)
		}
		depth = d
	}
	slices.Reverse(parts)
	return strings.ReplaceAll(strings.Join(parts, "."), ".[", "[")
}

// indent returns the depth of a line. A list element is deeper than its list.
func indent(line string) int {
	trimmed := strings.TrimLeft(line, " ")
	n := len(line) - len(trimmed)
	if strings.HasPrefix(trimmed, "- ") {
		n++
	}
	return n
}
