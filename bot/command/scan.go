package command

import (
	"bytes"
	"slices"
	"sort"
	"strings"

	"golang.org/x/net/html/atom"
)

// span is a part of a comment, in bytes; to is the first byte after it.
type span struct{ from, to int }

// within reports whether a position is in one of the spans, which are in order and do not overlap. A hostile text has a
// span for each few bytes and a position for each line, so that looking at each span would take seconds.
func within(spans []span, at int) bool {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].to > at })
	return i < len(spans) && spans[i].from <= at
}

// htmlState is the HTML element that contains the text from an offset on; "" if it is in no relevant element.
type htmlState struct {
	from   int
	inside string
}

// document lists the structures of a comment that cross paragraphs. The spans of each list are in order and do not
// overlap.
type document struct {
	source     []byte
	paragraphs []span // runs of lines that are not blank, without code fences
	quotations []span // GitLab's quotations: everything between two lines of >>>
	comments   []span // HTML comments inside lines
	raw        []span // blocks of raw HTML
	unclosed   span   // block of code or raw HTML that the comment does not close; empty if there is none
	formulas   []span // between two $$
	html       []htmlState
	folded     []htmlState     // inside is "details" or ""
	closed     map[string]bool // HTML elements of which a later end tag was seen

	dollars  []int
	elements []string       // open ones, the innermost last
	opened   map[string]int // how many of elements have a name
	folds    int            // open <details>
}

// scan finds the structures of a comment whose lines end in \n.
func scan(source []byte) *document {
	d := &document{source: source, closed: map[string]bool{}, opened: map[string]int{}}
	l := liner{document: d, paragraph: -1, quotation: -1}
	at := 0
	for line := range bytes.Lines(source) {
		l.line(string(bytes.TrimRight(line, "\n")), at, at+len(line))
		at += len(line)
	}
	l.flush(len(source))
	switch { // the forge shows nothing after it, or code
	case l.rawEnds != nil:
		d.raw = append(d.raw, span{l.rawFrom, len(source)})
		d.unclosed = span{l.rawFrom, len(source)}
	case l.fence != "":
		d.unclosed = span{l.fenceFrom, len(source)}
	}
	d.inline()
	for i := 0; i+1 < len(d.dollars); i += 2 {
		d.formulas = append(d.formulas, span{d.dollars[i], d.dollars[i+1]})
	}
	return d
}

// liner processes the lines of a comment one after the other.
type liner struct {
	*document
	paragraph int // offset of the open paragraph, or -1
	quotation int // offset of the line >>> that opened a quotation, or -1
	fence     string
	fenceFrom int
	container string   // of the fence; see containerOf
	rawEnds   []string // texts that end the open block of raw HTML; nil: none is open
	rawFrom   int
	rawIn     string // container of the block of raw HTML
}

// line processes the line between two offsets.
func (l *liner) line(text string, from, to int) {
	if l.fence != "" && leaves(text, l.container) {
		l.fence = ""
	}
	if l.rawEnds != nil && leaves(text, l.rawIn) {
		l.raw, l.rawEnds = append(l.raw, span{l.rawFrom, from}), nil
		l.flush(from)
	}
	container, rest := containerOf(text)
	if l.fence == "" && l.rawEnds == nil {
		l.rawEnds, l.rawFrom, l.rawIn = rawBlock(rest), from, container
	}
	switch trimmed := strings.TrimSpace(text); {
	case l.rawEnds != nil:
		l.begin(from)
		if containsAny(strings.ToLower(text), l.rawEnds) {
			l.raw, l.rawEnds = append(l.raw, span{l.rawFrom, to}), nil
			l.flush(to)
		}
	case l.fence != "":
		if ends(text, l.fence, l.container) {
			l.fence = ""
		}
	case trimmed == ">>>":
		l.flush(from)
		if l.quotation < 0 {
			l.quotation = from
		} else {
			l.quotations = append(l.quotations, span{l.quotation, from})
			l.quotation = -1
		}
	case fenceOf(rest) != "":
		l.flush(from)
		l.fence, l.fenceFrom, l.container = fenceOf(rest), from, container
	case trimmed == "":
		l.flush(from)
	default:
		l.begin(from)
	}
}

func (l *liner) begin(at int) {
	if l.paragraph < 0 {
		l.paragraph = at
	}
}

func (l *liner) flush(at int) {
	if l.paragraph >= 0 {
		l.paragraphs = append(l.paragraphs, span{l.paragraph, at})
	}
	l.paragraph = -1
}

// rawBlock returns the texts that end the raw HTML block that a line begins, or nil. Blank lines and fences do not
// end it (https://spec.commonmark.org/0.31.2/#html-blocks, kinds 1 to 5).
func rawBlock(s string) []string {
	t := strings.ToLower(strings.TrimLeft(s, " "))
	if len(s)-len(t) > 3 || !strings.HasPrefix(t, "<") {
		return nil
	}
	for _, element := range []string{"pre", "script", "style", "textarea"} {
		if after, ok := strings.CutPrefix(t[1:], element); ok &&
			(after == "" || strings.IndexByte(" \t>", after[0]) >= 0) {
			return []string{"</pre>", "</script>", "</style>", "</textarea>"}
		}
	}
	switch {
	case strings.HasPrefix(t, "<!--"):
		return []string{"-->"}
	case strings.HasPrefix(t, "<?"):
		return []string{"?>"}
	case strings.HasPrefix(t, "<![cdata["):
		return []string{"]]>"}
	case len(t) > 2 && t[1] == '!' && t[2] >= 'a' && t[2] <= 'z':
		return []string{">"}
	}
	return nil
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// containerOf removes the markers of quotations and lists from a line, as far as a fence can follow them. The
// container is ">" for a quotation, " " for a list and "" for none.
func containerOf(s string) (container, rest string) {
	rest = s
	for {
		t := strings.TrimLeft(rest, " ")
		if len(rest)-len(t) > 3 && container == "" || t == "" {
			return container, rest
		}
		if after, ok := strings.CutPrefix(t, ">"); ok {
			container, rest = ">", after
			continue
		}
		digits := len(t) - len(strings.TrimLeft(t, "0123456789"))
		marker := 0
		switch {
		case strings.IndexByte("-*+", t[0]) >= 0:
			marker = 1
		case digits > 0 && digits < 10 && len(t) > digits && (t[digits] == '.' || t[digits] == ')'):
			marker = digits + 1
		}
		if marker == 0 || len(t) <= marker || t[marker] != ' ' && t[marker] != '\t' {
			return container, rest
		}
		if container == "" {
			container = " "
		}
		rest = t[marker+1:]
	}
}

// leaves reports whether a line ends the container of a fence, and the fence with it.
func leaves(s, container string) bool {
	switch container {
	case ">":
		return !strings.HasPrefix(strings.TrimLeft(s, " "), ">")
	case " ":
		return s != "" && s[0] != ' ' && s[0] != '\t'
	}
	return false
}

// fenceOf returns the characters with which a line opens a code fence, or "".
func fenceOf(s string) string {
	t := strings.TrimLeft(s, " ")
	if len(s)-len(t) > 3 || t == "" || t[0] != '`' && t[0] != '~' {
		return ""
	}
	n := len(t) - len(strings.TrimLeft(t, t[:1]))
	if n < 3 || t[0] == '`' && strings.IndexByte(t[n:], '`') >= 0 {
		return ""
	}
	return t[:n]
}

// ends reports whether a line closes a fence.
func ends(s, fence, container string) bool {
	t := strings.TrimLeft(s, " ")
	if container != "" {
		t = strings.TrimLeft(s, " \t>")
	} else if len(s)-len(t) > 3 {
		return false
	}
	t = strings.TrimRight(t, " \t")
	return len(t) >= len(fence) && strings.Trim(t, fence[:1]) == ""
}

// inline searches the paragraphs for HTML elements, HTML comments and $$, outside of code spans.
func (d *document) inline() {
	ends := indexes(d.source, "-->")
	at := 0
	for _, p := range d.paragraphs {
		code := d.codeSpans(p)
		last := bytes.LastIndexByte(d.source[p.from:p.to], '>') + p.from
		for at = max(at, p.from); at < p.to; {
			rest := d.source[at:p.to]
			for len(code) > 0 && code[0].to <= at {
				code = code[1:]
			}
			switch {
			case len(code) > 0 && code[0].from <= at:
				at = code[0].to
			case rest[0] == '\\':
				at += 2
			case bytes.HasPrefix(rest, []byte("$$")):
				d.dollars = append(d.dollars, at)
				at += 2
			case bytes.HasPrefix(rest, []byte("<!--")):
				at = d.comment(at, p, ends)
			case rest[0] == '<' && at < last:
				d.tag(at, rest)
				at++
			default:
				at++
			}
		}
	}
}

// comment parses an HTML comment and returns the offset after it. A comment must end in its paragraph; those at the
// beginning of a line are raw blocks. <!--> is a complete comment.
func (d *document) comment(at int, p span, ends []int) int {
	if i, _ := slices.BinarySearch(ends, at+2); i < len(ends) && ends[i] < p.to {
		d.comments = append(d.comments, span{at, ends[i]})
		return ends[i] + 3
	}
	return at + 4
}

func indexes(source []byte, text string) []int {
	var out []int
	for at := 0; ; {
		i := bytes.Index(source[at:], []byte(text))
		if i < 0 {
			return out
		}
		out, at = append(out, at+i), at+i+1
	}
}

// codeSpans returns the code spans of a paragraph: text between two runs of as many backticks.
func (d *document) codeSpans(p span) []span {
	type ticks struct{ at, n int }
	var all []ticks
	for at := p.from; at < p.to; at++ {
		if d.source[at] != '`' {
			continue
		}
		from := at
		for at < p.to && d.source[at] == '`' {
			at++
		}
		all = append(all, ticks{from, at - from})
	}
	later := map[int][]int{} // by length: indexes of all, ascending
	for i, t := range all {
		later[t.n] = append(later[t.n], i)
	}
	var out []span
	for i := 0; i < len(all); i++ {
		same := later[all[i].n]
		for len(same) > 0 && same[0] <= i {
			same = same[1:]
		}
		later[all[i].n] = same
		if len(same) == 0 {
			continue
		}
		end := all[same[0]]
		out = append(out, span{all[i].at, end.at + end.n})
		i = same[0]
	}
	return out
}

// tag parses a start or end tag of HTML.
func (d *document) tag(at int, rest []byte) {
	name, end := rest[1:], false
	if len(name) > 0 && name[0] == '/' {
		name, end = name[1:], true
	}
	n := 0
	for n < len(name) && n < maxTag && (name[n]|0x20 >= 'a' && name[n]|0x20 <= 'z' ||
		n > 0 && (name[n] >= '0' && name[n] <= '9' || name[n] == '-')) {
		n++
	}
	if n == 0 || n == len(name) || strings.IndexByte(" \t\n/>", name[n]) < 0 {
		return
	}
	element := strings.ToLower(string(name[:n]))
	d.fold(element, at, end)
	if transparent(element) || atom.Lookup([]byte(element)) == 0 {
		return
	}
	if !end {
		d.elements, d.opened[element] = append(d.elements, element), d.opened[element]+1
		d.html = append(d.html, htmlState{at, d.elements[0]})
		return
	}
	d.closed[element] = true
	if d.opened[element] == 0 {
		return
	}
	for last := ""; last != element; {
		last = d.elements[len(d.elements)-1]
		d.elements, d.opened[last] = d.elements[:len(d.elements)-1], d.opened[last]-1
	}
	inside := ""
	if len(d.elements) > 0 {
		inside = d.elements[0]
	}
	d.html = append(d.html, htmlState{at, inside})
}

// fold records a start or end tag if it is one of <details>.
func (d *document) fold(element string, at int, end bool) {
	inside := ""
	switch {
	case element != "details":
		return
	case !end:
		d.folds++
	case d.folds > 0:
		d.folds--
	}
	if d.folds > 0 {
		inside = "details"
	}
	d.folded = append(d.folded, htmlState{at, inside})
}

const maxTag = 32

// transparent reports whether text inside an HTML element is still plain text of the comment. This is also true for
// elements without content.
func transparent(element string) bool {
	switch element {
	case "details", "summary", "div", "p", "span", "center", "section", "article",
		"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr":
		return true
	}
	return false
}
