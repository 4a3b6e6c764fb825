package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

const (
	// bytes of a paragraph that Markdown's parser reads, because its time grows with the square of the size
	maxParagraph  = 4 << 10
	maxParagraphs = 20 // with lines that begin like a command
)

// line is a line that begins like a command. problem is the reason why it is not one.
type line struct {
	number  int // from 1
	text    string
	problem *Problem
}

// plainLines returns the lines of a comment that begin like a command and that the forge shows as plain text.
//
// A scanner finds structures that cross paragraphs: code fences, HTML and its comments, GitLab's quotations and
// formulas. It reads each byte a limited number of times. Markdown's parser reads only the paragraphs with lines that
// begin like a command, and decides about their spans, links, lists, tables and headings.
func plainLines(body string) []line {
	d := scan([]byte(body))
	var out []line
	parsed := 0
	for _, p := range d.paragraphs {
		starts := d.candidates(p)
		if len(starts) == 0 {
			continue
		}
		if parsed++; parsed > maxParagraphs {
			return append(out, d.line(starts[0], &Problem{
				Message: "the comment has too many paragraphs with commands",
				Hint:    hintAlone,
			}))
		}
		var verdict func(at int) (bool, *Problem)
		if p.to-p.from > maxParagraph {
			verdict = func(int) (bool, *Problem) {
				return true, &Problem{Message: "the paragraph of the command is too long", Hint: hintBlankLine}
			}
		} else {
			verdict = paragraphVerdict(d.source[p.from:p.to], p.from)
		}
		for _, at := range starts {
			if shown, problem := d.outside(at); !shown {
				if problem != nil {
					out = append(out, d.line(at, problem))
				}
				continue
			}
			if shown, problem := verdict(at); shown {
				out = append(out, d.line(at, problem))
			}
		}
	}
	return append(out, d.swallowed()...)
}

// swallowed returns the first line that begins like a command in a block that the comment does not close, with the
// problem. The author may not see that the block continues to the end of the comment.
func (d *document) swallowed() []line {
	starts := d.candidates(d.unclosed)
	if len(starts) == 0 {
		return nil
	}
	opened := 1 + bytes.Count(d.source[:d.unclosed.from], []byte("\n"))
	what := "a code block"
	if within(d.raw, d.unclosed.from) {
		what = "HTML"
	}
	return []line{d.line(starts[0], &Problem{
		Message: fmt.Sprintf("the line is part of %s that line %d opens and no line closes", what, opened),
		Hint:    hintAlone,
	})}
}

// Hints of problems with the position of a command.
const (
	hintAlone     = "write the commands in a comment of their own"
	hintBlankLine = "leave an empty line before the command"
)

// line returns the line that begins at an offset.
func (d *document) line(at int, problem *Problem) line {
	full, _, _ := bytes.Cut(d.source[at:], []byte("\n"))
	return line{
		number: 1 + bytes.Count(d.source[:at], []byte("\n")), text: strings.TrimRight(string(full), " \t"),
		problem: problem,
	}
}

// candidates returns the offsets of the paragraph's lines that begin like a command.
func (d *document) candidates(p span) []int {
	var out []int
	for at := p.from; at < p.to; {
		rest := d.source[at:p.to]
		if after, ok := bytes.CutPrefix(rest, []byte(prefix)); ok &&
			(len(after) == 0 || strings.IndexByte(" \t\n", after[0]) >= 0) {
			out = append(out, at)
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	return out
}

// outside reports whether a position is outside of all structures that cross paragraphs. The problem is nil if the
// author surely meant to show the command and not to give it.
func (d *document) outside(at int) (bool, *Problem) {
	switch {
	case within(d.quotations, at), within(d.comments, at), within(d.raw, at):
		return false, nil
	case within(d.formulas, at):
		return false, &Problem{Message: "the line is part of a formula between two $$", Hint: hintAlone}
	}
	i, _ := slices.BinarySearchFunc(d.html, at, func(h htmlState, at int) int { return h.from - at })
	if i > 0 && d.html[i-1].inside != "" {
		h := d.html[i-1]
		if d.closed[h.inside] {
			return false, nil
		}
		return false, &Problem{
			Message: "the line is inside the HTML element <" + h.inside + ">, which is not closed",
			Hint:    hintAlone,
		}
	}
	return true, nil
}

// unfolded reports whether a position is outside of <details>.
func (d *document) unfolded(at int) bool {
	i, _ := slices.BinarySearchFunc(d.folded, at, func(h htmlState, at int) int { return h.from - at })
	return i == 0 || d.folded[i-1].inside == ""
}

// paragraphVerdict parses a paragraph that begins at an offset of the comment. The returned function reports whether
// a line of the paragraph is plain text, and the problem if the line is plain text but not a command.
func paragraphVerdict(source []byte, offset int) func(at int) (bool, *Problem) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough))
	root := md.Parser().Parse(text.NewReader(source))
	type place struct {
		block   ast.Node
		heading bool
	}
	plain := map[int]place{}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() != ast.KindParagraph && n.Kind() != ast.KindHeading {
			continue
		}
		for i := range n.Lines().Len() {
			plain[n.Lines().At(i).Start] = place{n, n.Kind() == ast.KindHeading}
		}
	}
	return func(at int) (bool, *Problem) {
		at -= offset
		p, ok := plain[at]
		if !ok || at > 0 && source[at-1] != '\n' || !directText(p.block, at) {
			return false, nil
		}
		if p.heading {
			return true, &Problem{
				Message: "the line is a heading, because a line of - or = follows it",
				Hint:    "leave an empty line between them",
			}
		}
		if inlineFormula(source, at) {
			return true, &Problem{Message: "the line is part of a formula between two $", Hint: hintBlankLine}
		}
		return true, nil
	}
}

// directText reports whether the text at a position is directly in its block: not in code, a link, HTML or emphasis.
func directText(block ast.Node, at int) bool {
	for n := block.FirstChild(); n != nil; n = n.NextSibling() {
		if t, ok := n.(*ast.Text); ok && t.Segment.Start <= at && at < t.Segment.Stop {
			return true
		}
	}
	return false
}

// inlineFormula reports whether $ signs before and after a position in its paragraph can be the two ends of a
// formula.
func inlineFormula(paragraph []byte, at int) bool {
	return bytes.Count(paragraph[:at], []byte("$"))%2 == 1 && bytes.IndexByte(paragraph[at:], '$') >= 0
}
