package gitstore

import (
	"fmt"
	"strings"
)

// class reads a bracket expression.
type class struct {
	glob string
	at   int
	set  [256]bool
}

// classRegexp translates a bracket expression, which never matches a slash, and gives its length; false if it is not closed.
func classRegexp(glob string) (string, int, bool) {
	c := class{glob: glob, at: 1}
	negate := strings.HasPrefix(glob[1:], "!") || strings.HasPrefix(glob[1:], "^")
	if negate {
		c.at++
	}
	start, previous := c.at, -1
	for c.at < len(glob) {
		if glob[c.at] == ']' && c.at > start {
			return setRegexp(c.set, negate), c.at + 1, true
		}
		var ok bool
		if previous, ok = c.next(previous); !ok {
			break
		}
	}
	return "", 0, false
}

// next reads a character, a range that begins with the previous one, or a class name. It returns the start of a possible range.
func (c *class) next(previous int) (int, bool) {
	if name, used, ok := c.named(); used > 0 || !ok {
		c.at += used
		return -1, ok && addNamed(&c.set, name)
	}
	if rest := c.glob[c.at+1:]; c.glob[c.at] == '-' && previous >= 0 && rest != "" && rest[0] != ']' {
		c.at++
		last, ok := c.char()
		for b := previous; b <= int(last); b++ {
			c.set[b] = true
		}
		return -1, ok
	}
	char, ok := c.char()
	c.set[char] = true
	return int(char), ok
}

// char reads one character, which a backslash may escape.
func (c *class) char() (byte, bool) {
	if c.glob[c.at] == '\\' {
		c.at++
	}
	if c.at == len(c.glob) {
		return 0, false
	}
	c.at++
	return c.glob[c.at-1], true
}

// named reads [:name:].
func (c *class) named() (name string, used int, ok bool) {
	rest, named := strings.CutPrefix(c.glob[c.at:], "[:")
	if !named {
		return "", 0, true
	}
	rest, _, ok = strings.Cut(rest, "]")
	if name, named = strings.CutSuffix(rest, ":"); !ok || !named {
		return "", 0, ok
	}
	return name, len("[:") + len(rest) + len("]"), true
}

// addNamed adds a class of C's <ctype.h>; false if there is none of this name.
func addNamed(set *[256]bool, name string) bool {
	between := func(pairs ...byte) {
		for p := 0; p < len(pairs); p += 2 {
			for b := int(pairs[p]); b <= int(pairs[p+1]); b++ {
				set[b] = true
			}
		}
	}
	switch name {
	case "alnum":
		between('0', '9', 'A', 'Z', 'a', 'z')
	case "alpha":
		between('A', 'Z', 'a', 'z')
	case "blank":
		between(' ', ' ', '\t', '\t')
	case "cntrl":
		between(0, 0x1f, 0x7f, 0x7f)
	case "digit":
		between('0', '9')
	case "graph":
		between('!', '~')
	case "lower":
		between('a', 'z')
	case "print":
		between(' ', '~')
	case "punct":
		between('!', '/', ':', '@', '[', '`', '{', '~')
	case "space":
		between(' ', ' ', '\t', '\r')
	case "upper":
		between('A', 'Z')
	case "xdigit":
		between('0', '9', 'A', 'F', 'a', 'f')
	default:
		return false
	}
	return true
}

func setRegexp(set [256]bool, negate bool) string {
	var out strings.Builder
	for b, in := range set {
		if in != negate && b != '/' {
			fmt.Fprintf(&out, `\x{%x}`, b)
		}
	}
	if out.Len() == 0 {
		return `[^\x{0}-\x{10FFFF}]`
	}
	return "[" + out.String() + "]"
}
