// Package safetext makes untrusted text safe to show: names, values and messages that come from a chart, a commit or
// a forge. It escapes characters that a reader cannot see, or that a terminal, a log or a CI system would interpret,
// and shortens long text. It does not escape markup; the packages that write Markdown and HTML do that.
//
// The package is a leaf: it imports only the standard library, and every package may import it. All functions are
// pure and safe for concurrent use.
package safetext

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is the number of combining marks that one character may carry.
const maxMarks = 3

// Line returns s as a single line of visible text. It escapes, in Go's notation (\n, \x1b, \u202e):
// line breaks and tabs, control characters, bidirectional and zero-width characters, other invisible characters,
// spaces other than U+0020, invalid UTF-8, and combining marks beyond three per character.
func Line(s string) string {
	if plain(s) {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + len(s)/8)
	marks := maxMarks // a mark at the start would combine with the text before s
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		mark := unicode.Is(unicode.M, r)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
			marks = maxMarks
		case mark && (marks >= maxMarks || hiddenMark(r)), !mark && hidden(r):
			writeEscape(&out, r)
			marks = maxMarks
		case mark:
			out.WriteRune(r)
			marks++
		default:
			out.WriteRune(r)
			marks = 0
		}
		i += n
	}
	return out.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func writeEscape(out *strings.Builder, r rune) {
	switch {
	case r == '\n':
		out.WriteString(`\n`)
	case r == '\t':
		out.WriteString(`\t`)
	case r == '\r':
		out.WriteString(`\r`)
	case r < 0x80:
		fmt.Fprintf(out, `\x%02x`, r)
	case r > 0xffff:
		fmt.Fprintf(out, `\U%08x`, r)
	default:
		fmt.Fprintf(out, `\u%04x`, r)
	}
}

// hidden reports whether a character is invisible or looks like another one. unicode.IsPrint excludes all spaces
// except U+0020, controls, format characters, surrogates, private use and unassigned code points.
func hidden(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0xfffc: // blanks that Unicode classifies as letters or symbols
		return true
	}
	return !unicode.IsPrint(r)
}

func hiddenMark(r rune) bool {
	return r == 0x034f || r == 0x17b4 || r == 0x17b5 || unicode.Is(unicode.Variation_Selector, r)
}

// Visible reports whether Line would return s unchanged.
func Visible(s string) bool { return plain(s) || Line(s) == s }

// Lines returns s with its line breaks kept and each line escaped like Line does. Tabs become four spaces and
// trailing white space is removed. It also defuses the commands that GitHub Actions and Azure Pipelines read from
// a job's log: a leading "::" and any "##[" or "##vso[".
func Lines(s string) string {
	lines := strings.Split(strings.TrimRight(s, " \t\r\n"), "\n")
	for i, l := range lines {
		lines[i] = logLine(l)
	}
	return strings.Join(lines, "\n")
}

func logLine(l string) string {
	l = Line(strings.ReplaceAll(strings.TrimRight(l, " \t\r"), "\t", "    "))
	if rest, ok := strings.CutPrefix(strings.TrimLeft(l, " "), "::"); ok {
		l = `\x3a:` + rest
	}
	if strings.Contains(l, "##") {
		l = strings.NewReplacer("##[", `#\x23[`, "##vso[", `#\x23vso[`).Replace(l)
	}
	return l
}

// Message is Lines with limits: at most maxLines lines of at most width characters. If lines are left out, the last
// line says how many.
func Message(s string, maxLines, width int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	rest := len(lines) - maxLines
	if rest > 0 {
		lines = lines[:maxLines]
	}
	for i, l := range lines {
		lines[i] = logLine(Shorten(l, width))
	}
	switch {
	case rest == 1:
		lines = append(lines, "… 1 more line")
	case rest > 1:
		lines = append(lines, fmt.Sprintf("… %d more lines", rest))
	}
	return strings.Join(lines, "\n")
}

// Shorten returns s with at most n characters (n ≥ 1); a shortened text ends in "…". It never splits a
// character and does not escape: call it before Line, which can only lengthen the text.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	seen, last := 0, 0
	for i := range s {
		if seen == n-1 {
			last = i
		}
		if seen == n {
			return s[:last] + "…"
		}
		seen++
	}
	return s
}

// Brief returns s as a single line of visible text, made of at most n of its characters: Line of Shorten.
func Brief(s string, n int) string { return Line(Shorten(s, n)) }

// Log is a slog.HandlerOptions.ReplaceAttr function. It escapes string and error values with Line, so that a
// log line shows what a terminal or a log viewer would otherwise interpret.
func Log(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		if s := v.String(); !Visible(s) {
			a.Value = slog.StringValue(Line(s))
		}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok && err != nil {
			a.Value = slog.StringValue(Line(err.Error()))
		}
	}
	return a
}
