package manifest

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Quick decodes a text of one mapping in the style of most manifests. It returns false for every other text, also for one that exceeds the
// budget or is no YAML: read that with a library. Plain words of YAML 1.1 such as `yes` and `off` are booleans.
func Quick(data []byte, b Budget) (map[string]any, bool) {
	if len(data) > b.Bytes {
		return nil, false
	}
	return quickly(data, b.Depth)
}

// quickly decodes a text of one mapping in the style of most manifests, much faster than the library. It returns false for
// everything else, including invalid YAML, which the library then reads or refuses: anchors, aliases, tags, directives, several documents,
// folded blocks, flow collections of several lines, scalars whose type needs the library, keys that repeat or are no strings,
// and nesting deeper than the limit.
//
// FuzzQuickly holds it against the library.
func quickly(data []byte, depth int) (map[string]any, bool) {
	if !ordinary(data) {
		return nil, false
	}
	q := quick{text: string(data), depth: min(depth, quickDepth), tabs: bytes.IndexByte(data, '\t') >= 0}
	q.begin()
	q.next()
	if q.end || q.indent != 0 || isEntry(q.line) {
		return nil, false
	}
	out := q.mapping(0)
	return out, !q.failed && q.end
}

const (
	quickDepth = 100
	longestKey = 500 // YAML's limit is 1,024 characters, including escapes
)

// ordinary reports whether a text ends with a line break and has no characters that YAML forbids or reads as another line break.
func ordinary(data []byte) bool {
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return false
	}
	for i := 0; i < len(data); {
		c := data[i]
		if c >= ' ' && c <= '~' || c == '\n' || c == '\t' {
			i++
			continue
		}
		const first = '\u00a0' // after the control characters
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r < first, r == utf8.RuneError, r == '\u2028', r == '\u2029', r == '\ufeff', r == '\ufffe', r == '\uffff':
			return false
		}
		i += size
	}
	return true
}

// quick is the state of quickly: the current line and what follows. After a failure, the other methods stop soon, and their results have
// no meaning.
type quick struct {
	text   string
	at     int  // start of the next line
	depth  int  // levels that may still open
	tabs   bool // the text has tabs; only literal blocks may
	failed bool
	end    bool   // no more lines
	indent int    // of the current line; -1 at the end
	line   string // without indentation and trailing spaces
}

func (q *quick) fail() any {
	q.failed, q.end, q.indent = true, true, -1
	return nil
}

// raw takes the next line.
func (q *quick) raw() (indent int, line string) {
	line, _, _ = strings.Cut(q.text[q.at:], "\n")
	q.at += len(line) + 1
	for indent < len(line) && line[indent] == ' ' {
		indent++
	}
	return indent, line[indent:]
}

// begin skips a line `---` before the document, with the comments above it.
func (q *quick) begin() {
	for q.at < len(q.text) {
		switch indent, line := q.raw(); {
		case line == "" || line[0] == '#' && !q.hasTab(line):
		case indent == 0 && strings.TrimRight(line, " ") == "---":
			return
		default:
			q.at = 0
			return
		}
	}
	q.at = 0
}

// next goes to the next line that is neither blank nor a comment.
func (q *quick) next() {
	for q.at < len(q.text) && !q.failed {
		indent, line := q.raw()
		if line == "" || line[0] == '#' {
			continue
		}
		q.indent, q.line = indent, strings.TrimRight(line, " ")
		if q.hasTab(line) || indent == 0 && (strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...")) {
			q.fail()
		}
		return
	}
	q.end, q.indent = true, -1
}

func (q *quick) hasTab(line string) bool { return q.tabs && strings.IndexByte(line, '\t') >= 0 }

// isEntry reports whether a line is an entry of a list.
func isEntry(line string) bool { return line == "-" || strings.HasPrefix(line, "- ") }

// mapping reads a mapping whose keys have an indentation.
func (q *quick) mapping(indent int) map[string]any {
	out := map[string]any{}
	for !q.end && q.indent == indent {
		key, rest, ok := quickKey(q.line)
		if _, twice := out[key]; !ok || twice {
			q.fail()
			break
		}
		out[key] = q.value(rest, indent)
	}
	if q.indent > indent {
		q.fail()
	}
	return out
}

// sequence reads a list whose dashes have an indentation.
func (q *quick) sequence(indent int) []any {
	out := []any{}
	for !q.end && q.indent == indent && isEntry(q.line) {
		rest := strings.TrimLeft(q.line[1:], " ")
		if rest == "" || rest[0] == '#' {
			out = append(out, q.below(indent, false))
			continue
		}
		_, _, isKey := quickKey(rest)
		if !isKey && !isEntry(rest) {
			out = append(out, q.value(rest, indent))
			continue
		}
		q.indent += len(q.line) - len(rest)
		q.line = rest
		out = append(out, q.collection())
	}
	if q.indent > indent {
		q.fail()
	}
	return out
}

// collection reads the mapping or list that begins with the current line, in either style.
func (q *quick) collection() any {
	q.depth--
	defer func() { q.depth++ }()
	switch {
	case q.depth <= 0:
		return q.fail()
	case isEntry(q.line):
		return q.sequence(q.indent)
	case q.line[0] == '{' || q.line[0] == '[': // toYaml writes an empty value like this
		return q.value(q.line, q.indent)
	}
	return q.mapping(q.indent)
}

// below reads the collection in the lines below a key or a dash; null if there is none. A list below a key may have its indentation.
func (q *quick) below(indent int, ofKey bool) any {
	q.next()
	if q.indent > indent || ofKey && q.indent == indent && isEntry(q.line) {
		return q.collection()
	}
	return nil
}

// value reads the value whose first line is text, and goes to the line after it. indent is that of the collection around it.
func (q *quick) value(text string, indent int) any {
	if text == "" || text[0] == '#' {
		return q.below(indent, true)
	}
	var out any
	switch text[0] {
	case '|':
		return q.literal(text, indent)
	case '"', '\'', '{', '[':
		f := flow{text: q.unbroken(text, indent), depth: q.depth}
		if out = f.node(); f.failed || !isComment(f.text) {
			return q.fail()
		}
	default:
		text, _, comment := strings.Cut(text, " #")
		text = strings.TrimRight(text, " ")
		if !comment {
			text = q.plain(text, indent)
		}
		var ok bool
		if out, ok = quickScalar(text); !ok || comment && (startsOther(text) || !isPlain(text)) {
			return q.fail()
		}
	}
	q.next()
	return out
}

// unbroken returns the text of a quoted scalar with its further lines, folded as the library does. It returns other texts as they are.
func (q *quick) unbroken(text string, indent int) string {
	quote := text[0]
	if quote != '"' && quote != '\'' || closes(text[1:], quote) {
		return text
	}
	var out strings.Builder
	out.WriteString(text)
	for q.at < len(q.text) && !q.failed {
		breaks := 0
		column, line := q.raw()
		for ; line == "" && q.at < len(q.text); column, line = q.raw() {
			breaks++
		}
		line = strings.TrimRight(line, " ")
		if column <= indent || line == "" || q.hasTab(line) {
			break
		}
		if breaks == 0 {
			out.WriteByte(' ')
		}
		out.WriteString(strings.Repeat("\n", breaks))
		out.WriteString(line)
		if closes(line, quote) {
			return out.String()
		}
	}
	q.fail()
	return text
}

// closes reports whether a line ends a quoted scalar. An escaped line break does not, and the character behind it is then no escape that is known.
func closes(line string, quote byte) bool {
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && quote == '"':
			i++
		case line[i] != quote:
		case quote == '\'' && strings.HasPrefix(line[i+1:], "'"):
			i++
		default:
			return true
		}
	}
	return false
}

// isComment reports whether only a comment follows a value, or nothing.
func isComment(rest string) bool {
	text := strings.TrimLeft(rest, " ")
	return text == "" || text[0] == '#' && len(text) < len(rest)
}

// plain returns a plain scalar with its further lines.
func (q *quick) plain(text string, indent int) string {
	if !isPlain(text) || startsOther(text) {
		q.fail()
		return ""
	}
	return text + q.continuation(indent)
}

// continuation returns the further lines of a plain scalar, folded.
func (q *quick) continuation(indent int) string {
	var out strings.Builder
	for q.at < len(q.text) {
		begin, breaks := q.at, 0
		column, line := q.raw()
		for ; line == "" && q.at < len(q.text); column, line = q.raw() {
			breaks++
		}
		line = strings.TrimRight(line, " ")
		if column <= indent || line == "" {
			q.at = begin
			break
		}
		if line[0] == '#' || !isPlain(line) || q.hasTab(line) {
			q.fail()
			break
		}
		if breaks == 0 {
			out.WriteByte(' ')
		}
		out.WriteString(strings.Repeat("\n", breaks))
		out.WriteString(line)
	}
	return out.String()
}

// isPlain reports whether a line of a plain scalar contains neither a comment nor a key.
func isPlain(line string) bool {
	return line[len(line)-1] != ':' && !strings.Contains(line, ": ") && !strings.Contains(line, " #")
}

// startsOther reports whether a text begins as something other than a plain scalar.
func startsOther(text string) bool {
	if text[0] == '-' {
		return isEntry(text)
	}
	return strings.IndexByte("?:,[]{}#&*!|>'\"%@`", text[0]) >= 0
}

// literal reads a literal block. Only `|`, `|-` and `|+` are known.
func (q *quick) literal(header string, indent int) any {
	switch header {
	case "|", "|-", "|+":
	default:
		return q.fail()
	}
	var out strings.Builder
	column, breaks := -1, 0 // of the first line; line breaks that are not written yet
	for q.at < len(q.text) {
		begin := q.at
		spaces, line := q.raw()
		if column < 0 && (line == "" && spaces > 0 || line != "" && line[0] == '\t') {
			return q.fail() // leading lines of spaces can set the indentation, and tabs cannot
		}
		if line == "" && spaces <= max(column, 0) {
			breaks++
			continue
		}
		if column < 0 {
			column = spaces
		}
		if spaces < column || column <= indent {
			q.at = begin
			break
		}
		for range breaks {
			out.WriteByte('\n')
		}
		breaks = 1
		out.WriteString(q.text[begin+column : q.at-1])
	}
	if out.Len() == 0 {
		return q.fail()
	}
	switch header {
	case "|":
		out.WriteByte('\n')
	case "|+":
		out.WriteString(strings.Repeat("\n", breaks))
	}
	q.next()
	return out.String()
}

// quickKey divides a line into a key and the text after its colon. It returns false if the line does not begin with a key, or the key is no plain string.
func quickKey(line string) (key, rest string, ok bool) {
	if line[0] == '"' || line[0] == '\'' {
		f := flow{text: line}
		if key = f.quoted(); f.failed || f.text == "" || f.text[0] != ':' || len(f.text) > 1 && f.text[1] != ' ' {
			return "", "", false
		}
		return key, strings.TrimLeft(f.text[1:], " "), len(key) <= longestKey
	}
	end := strings.Index(line, ": ")
	if end < 0 && line[len(line)-1] == ':' {
		end = len(line) - 1
	}
	if end <= 0 || end > longestKey || startsOther(line) || line[end-1] == ' ' || !isPlain(line[:end]) {
		return "", "", false
	}
	value, known := quickScalar(line[:end])
	key, isText := value.(string)
	return key, strings.TrimLeft(line[end+1:], " "), known && isText && key != "<<"
}
