package command

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// line is one that begins like a command; a problem says why it cannot be one.
type line struct {
	number  int
	text    string
	problem *Problem
}

// plainLines are the lines of a comment that begin like a command and are plain text of it. The structure is a Markdown
// parser's, not a guess: fences, indentation, quotations, HTML and spans that cross lines are what the forge shows too.
func plainLines(body string) []line {
	source := []byte(body)
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough))
	root := md.Parser().Parse(text.NewReader(source))
	quoted := quotations(source)
	var out []line
	open := 0 // elements of HTML that quote, which blank lines do not end
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		switch n.Kind() {
		case ast.KindHTMLBlock:
			open = max(0, open+quotingTags(n, source))
		case ast.KindParagraph, ast.KindHeading:
			if open == 0 {
				out = append(out, linesOf(n, source, quoted)...)
			}
		}
	}
	return out
}

func linesOf(n ast.Node, source []byte, quoted []span) []line {
	var out []line
	segments := n.Lines()
	for i := range segments.Len() {
		start := segments.At(i).Start
		if start > 0 && source[start-1] != '\n' || !bytes.HasPrefix(source[start:], []byte(prefix)) {
			continue
		}
		whole, _, _ := bytes.Cut(source[start:], []byte("\n"))
		if rest := whole[len(prefix):]; len(rest) > 0 && rest[0] != ' ' && rest[0] != '\t' || within(quoted, start) || !plain(n, start) {
			continue
		}
		l := line{number: 1 + bytes.Count(source[:start], []byte("\n")), text: strings.TrimRight(string(whole), " \t")}
		if n.Kind() == ast.KindHeading {
			l.problem = &Problem{Message: "the line is a heading, because a line of - or = follows it", Hint: "leave an empty line between them"}
		}
		out = append(out, l)
	}
	return out
}

// plain says whether the text at a place stands directly in its block, not in code, a link, HTML or emphasis.
func plain(block ast.Node, at int) bool {
	for n := block.FirstChild(); n != nil; n = n.NextSibling() {
		if t, ok := n.(*ast.Text); ok && t.Segment.Start <= at && at < t.Segment.Stop {
			return true
		}
	}
	return false
}

type span struct{ from, to int }

func within(spans []span, at int) bool {
	for _, s := range spans {
		if s.from <= at && at < s.to {
			return true
		}
	}
	return false
}

// quotations are GitLab's: all between two lines of >>>. CommonMark knows nothing of them.
func quotations(source []byte) []span {
	var out []span
	from, at := -1, 0
	for l := range bytes.Lines(source) {
		if bytes.Equal(bytes.TrimSpace(l), []byte(">>>")) {
			if from < 0 {
				from = at
			} else {
				out = append(out, span{from, at})
				from = -1
			}
		}
		at += len(l)
	}
	return out
}

// quotingTags counts the elements for quotations and code that a block of HTML leaves open, less those that it closes.
func quotingTags(n ast.Node, source []byte) int {
	var b strings.Builder
	segments := n.Lines()
	for i := range segments.Len() {
		segment := segments.At(i)
		b.Write(segment.Value(source))
	}
	if h, ok := n.(*ast.HTMLBlock); ok && h.HasClosure() {
		b.Write(h.ClosureLine.Value(source))
	}
	html, count := strings.ToLower(b.String()), 0
	if strings.HasPrefix(strings.TrimSpace(html), "<!--") {
		return 0 // a comment opens nothing
	}
	for _, tag := range []string{"blockquote", "pre", "code"} {
		count += strings.Count(html, "<"+tag+">") + strings.Count(html, "<"+tag+" ") - strings.Count(html, "</"+tag)
	}
	return count
}
