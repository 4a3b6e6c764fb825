package command

import (
	"regexp"
	"strings"
)

// near matches a line that is nearly a command: in a list, in backticks, or with capitals.
var near = regexp.MustCompile("(?i)^(?: {0,3}([-*+]|[0-9]{1,9}[.)])[ \t]+)?(`?)(/sluice)[ \t]+([^`]+?)(`?)[ \t]*$")

// nearCommands returns the problem of the first line that would be a command in another place or form, so that its
// author learns why nothing happens. Quotations and blocks of code are meant as they are.
func nearCommands(body string) []Problem {
	if !strings.Contains(strings.ToLower(body), prefix) {
		return nil
	}
	d := scan([]byte(body))
	for _, p := range d.paragraphs {
		at := p.from
		for text := range strings.Lines(body[p.from:p.to]) {
			from := at
			at += len(text)
			text = strings.TrimRight(text, "\n")
			m := near.FindStringSubmatch(text)
			if m == nil || m[2] != m[5] {
				continue
			}
			if m[1]+m[2] == "" && m[3] == prefix { // it is part of something else
				continue
			}
			if shown, _ := d.outside(from); !shown {
				continue
			}
			verb, rest, _ := strings.Cut(m[4], " ")
			c, problem := parseLine(prefix + " " + strings.ToLower(verb) + " " + rest)
			if problem != nil {
				continue
			}
			out := Problem{
				Line: 1 + strings.Count(body[:from], "\n"), Text: shorten(text),
				Message: "a command is written in lower case",
				Hint:    "write " + c.String() + " at the beginning of a line of its own",
			}
			switch {
			case m[1] != "":
				out.Message = "a command in a list is not executed"
			case m[2] != "":
				out.Message = "a command in backticks is not executed"
			}
			return []Problem{out}
		}
	}
	return nil
}
