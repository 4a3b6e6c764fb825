package report

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Everything that comes from outside passes through one of the functions of this file, which are the only ones that make
// Markdown or terminal text of it. They rest on one rule: foreign text stands in code (a span, a fence, <code>), where neither
// forge looks for mentions, references, links, markup or emoji; only plain English words are let out, because text in code
// alone is hard to read.

// code is a span of code. The reader sees the very text, spaces at its ends included.
func code(s string) string {
	s = safetext.Line(safetext.Shorten(s, maxSpan))
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' {
		s = `"` + s + `"`
	}
	ticks := strings.Repeat("`", longestRun(s, '`', 0)+1)
	if s[0] == '`' || s[len(s)-1] == '`' {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

const maxSpan = 300 // characters of a name or a value

// longestRun is the longest run of a character in s, at least least.
func longestRun(s string, c byte, least int) int {
	run := 0
	for i := range len(s) {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		least = max(least, run)
	}
	return least
}

// htmlCode is code within our own HTML.
func htmlCode(s string) string {
	return "<code>" + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(safetext.Line(safetext.Shorten(s, maxSpan))) + "</code>"
}

// prose is a sentence that was made of foreign parts: plain words and small numbers stay, all else becomes code. It must not
// stand at the start of a line.
func prose(s string) string { return sentence(s, code) }

// htmlProse is prose within our own HTML.
func htmlProse(s string) string { return sentence(s, htmlCode) }

func sentence(s string, in func(string) string) string {
	s = safetext.Shorten(s, maxSentence)
	var out strings.Builder
	var pending []string // neighbours that need code share one span
	flush := func() {
		if len(pending) == 0 {
			return
		}
		gap(&out)
		text := strings.Join(pending, " ")
		bare := strings.TrimRight(text, punctuation)
		if bare == "" {
			bare = text
		}
		quoted := bare
		if n := len(bare); n > 2 && bare[0] == '`' && bare[n-1] == '`' && !strings.Contains(bare[1:n-1], "`") {
			quoted = bare[1 : n-1] // the message has it in code already
		}
		out.WriteString(in(quoted) + text[len(bare):])
		pending = pending[:0]
	}
	for word := range strings.FieldsSeq(s) {
		if plainWord(word) {
			flush()
			gap(&out)
			out.WriteString(word)
			continue
		}
		pending = append(pending, word)
		if strings.IndexByte(punctuation, word[len(word)-1]) >= 0 {
			flush()
		}
	}
	flush()
	return out.String()
}

const (
	maxSentence = 600
	punctuation = ".,;:?"
)

func gap(out *strings.Builder) {
	if out.Len() > 0 {
		out.WriteByte(' ')
	}
}

// plainWord says that a word can be nothing but a word: ASCII letters, perhaps in parentheses or before punctuation, or a short number.
func plainWord(w string) bool {
	if w == "→" || w == "—" {
		return true
	}
	w = strings.TrimPrefix(w, "(")
	if i := len(w) - 1; i > 0 && strings.IndexByte(punctuation, w[i]) >= 0 {
		w = w[:i]
	}
	w = strings.TrimSuffix(w, ")")
	const hashLike, longest, digits = 7, 24, 5
	if w == "" || len(w) > longest {
		return false
	}
	letters, numbers, hex := 0, 0, 0
	for i := range len(w) {
		switch c := w[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters++
			if c|0x20 <= 'f' {
				hex++
			}
		case c >= '0' && c <= '9':
			numbers++
		case c == '\'' && i > 0 && i == len(w)-2: // the volume's
		default:
			return false
		}
	}
	if numbers > 0 {
		return letters == 0 && numbers <= digits
	}
	return len(w) < hashLike || hex < len(w) // seven hexadecimal digits may name a commit
}

// fence is a block of code. No line of it begins with what the text begins with: each has a mark (' ', '+', '-', '@') before it.
func fence(language string, lines []string) string {
	ticks := 2
	for _, l := range lines {
		ticks = longestRun(l, '`', ticks)
	}
	mark := strings.Repeat("`", ticks+1)
	var out strings.Builder
	out.WriteString(mark + language + "\n")
	for _, l := range lines {
		out.WriteString(l)
		out.WriteByte('\n')
	}
	out.WriteString(mark + "\n")
	return out.String()
}

// link leads to a page if the address is one for the web; otherwise the text stands alone. text is Markdown already.
func link(text, address string) string {
	address = webAddress(address)
	if address == "" {
		return text
	}
	return "[" + text + "](<" + address + ">)"
}

// webAddress gives an address with every character that Markdown or HTML could take for its own escaped; "" if it is none.
func webAddress(address string) string {
	const longest = 2000
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(address) > longest {
		return ""
	}
	var out strings.Builder
	for i := range len(address) {
		c := address[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("<>\"'`\\|[](){}*_^", c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// size counts characters as the strictest forge may: in UTF-16, where a character outside the basic plane counts twice.
func size(s string) int {
	n := 0
	for _, r := range s {
		if w := utf16.RuneLen(r); w > 0 {
			n += w
		} else {
			n++
		}
	}
	return n
}

// row is a line of a table. A pipe in a cell is written as `\|`, which tables take for the pipe itself, within code too. One that has a
// backslash before it is shown as an escape: parsers do not agree on which of the two that backslash belongs to.
func row(cells ...string) string {
	var out strings.Builder
	out.WriteByte('|')
	for _, c := range cells {
		out.WriteString(" " + strings.NewReplacer(`\|`, `\\u007c`, "|", `\|`).Replace(c) + " |")
	}
	out.WriteByte('\n')
	return out.String()
}

// Block is a block of text as it is, in which nothing is live.
func Block(lines []string) string { return fence("text", lines) }
