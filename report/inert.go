package report

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Text from outside passes through one of the functions of this file before it becomes Markdown. They follow one
// rule: text from outside is code (a span, a fence, <code>), in which neither forge looks for mentions, references,
// links, markup or emoji. Only plain English words stand outside code, to keep sentences readable.

// code returns a span of code that shows the exact text, including spaces at its ends.
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

// longestRun returns the length of the longest run of c in s, but not less than least.
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

// htmlCode is code for use within HTML.
func htmlCode(s string) string {
	return "<code>" + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'",
		"&#39;").Replace(safetext.Line(safetext.Shorten(s, maxSpan))) + "</code>"
}

// prose returns a sentence in which all but plain words and small numbers is code. It must not begin a line.
func prose(s string) string { return sentence(s, code) }

// htmlProse is prose for use within HTML.
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
		before, bare, after := bracketed(strings.Join(pending, " "))
		out.WriteString(before + in(bare) + after)
		pending = pending[:0]
	}
	words := strings.Fields(s)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if before, quoted, after, n := quotedPhrase(words[i:]); n > 0 {
			flush()
			gap(&out)
			out.WriteString(before + in(quoted) + after)
			i += n - 1
			continue
		}
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

// bracketed separates a text from the punctuation behind it, and from a parenthesis that it does not both open and
// close.
func bracketed(text string) (before, bare, after string) {
	bare = strings.TrimRight(text, punctuation)
	for strings.HasSuffix(bare, ")") && strings.Count(bare, ")") > strings.Count(bare, "(") {
		bare = strings.TrimRight(bare[:len(bare)-1], punctuation)
	}
	if strings.HasPrefix(bare, "(") && strings.Count(bare, "(") > strings.Count(bare, ")") {
		before, bare = bare[:1], bare[1:]
	}
	if bare == "" {
		return "", text, ""
	}
	return before, bare, text[len(before)+len(bare):]
}

// quotedPhrase returns the words that backquotes enclose, such as `sluice deps lock`, if the first word begins them; n
// is how many words that takes, 0 if none are enclosed. before and after are a parenthesis and punctuation around the
// quotes.
func quotedPhrase(words []string) (before, quoted, after string, n int) {
	const most = 30
	first := strings.TrimPrefix(words[0], "(")
	if !strings.HasPrefix(first, "`") {
		return "", "", "", 0
	}
	before = words[0][:len(words[0])-len(first)]
	for n = 1; n <= min(most, len(words)); n++ {
		text := strings.Join(words[:n], " ")[len(before)+1:]
		inner, rest, closed := strings.Cut(text, "`")
		if !closed {
			continue
		}
		if inner == "" || strings.Trim(rest, punctuation+")") != "" {
			break
		}
		return before, inner, rest, n
	}
	return "", "", "", 0
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

// plainWord reports whether no forge can read a word as anything else: ASCII letters, possibly with hyphens, in
// parentheses or before punctuation, or a short number.
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
	// with a full stop, the beginning of an address
	if w == "" || len(w) > longest || strings.HasSuffix(strings.ToLower(w), "www") {
		return false
	}
	letters, numbers, hex, ok := letterCounts(w)
	switch {
	case !ok:
		return false
	case numbers > 0:
		return letters == 0 && numbers <= digits
	}
	return len(w) < hashLike || hex < len(w) // seven hexadecimal digits may name a commit
}

// letterCounts counts the ASCII letters, the digits and the letters a to f of a word. ok is false if the word has other
// characters than these, single hyphens within it and the apostrophe of a genitive.
func letterCounts(w string) (letters, numbers, hex int, ok bool) {
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
		case c == '-' && i > 0 && i < len(w)-1 && w[i-1] != '-': // lower-case
		default:
			return 0, 0, 0, false
		}
	}
	return letters, numbers, hex, true
}

// fence returns a block of code. Each of its lines must begin with a mark (' ', '+', '-', '@'), never with text from
// outside.
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

// link returns a link, or only the text if the address is not http or https. text is Markdown.
func link(text, address string) string {
	address = webAddress(address)
	if address == "" {
		return text
	}
	return "[" + text + "](<" + address + ">)"
}

// webAddress returns an http or https address without characters that Markdown or HTML could interpret, "" for any
// other address.
func webAddress(address string) string {
	const longest = 2000
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		len(address) > longest {
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

// size counts characters as the strictest forge does: in UTF-16 units.
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

// row returns a line of a table. It writes a pipe in a cell as `\|`, which tables read as the pipe itself, also in
// code. A pipe behind a backslash becomes an escape, because parsers disagree on what that backslash belongs to.
func row(cells ...string) string {
	var out strings.Builder
	out.WriteByte('|')
	for _, c := range cells {
		out.WriteString(" " + strings.NewReplacer(`\|`, `\\u007c`, "|", `\|`).Replace(c) + " |")
	}
	out.WriteByte('\n')
	return out.String()
}

// Block returns the lines as a block of code.
func Block(lines []string) string { return fence("text", lines) }

// Tag returns the name of a tag for a title or the subject of a commit, where no part is code. Of a name that a forge
// could read as a mention, a reference or an address, only what follows the last slash is left; "a tag" if that is not
// plain either.
func Tag(name string) string {
	for _, part := range []string{name, name[strings.LastIndexByte(name, '/')+1:]} {
		if !strings.ContainsFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
				!strings.ContainsRune("._/+-", r)
		}) && !strings.Contains(strings.ToLower(part), "www.") {
			return part
		}
	}
	return "a tag"
}
