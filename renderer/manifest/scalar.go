package manifest

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// plainIsSafe reports whether every reader of YAML 1.1 and 1.2 reads an unquoted string as the same string.
func plainIsSafe(s string) bool {
	const most = 1000
	if s == "" || len(s) > most || reserved(s) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' {
			return plainUnicode(s)
		}
	}
	return plainASCII(s)
}

func plainUnicode(s string) bool {
	if !utf8.ValidString(s) || !allPrintable(s) || s[0] > '~' && !unicode.IsLetter(firstRune(s)) {
		return false
	}
	return plainASCII(s) && strings.TrimFunc(s, unicode.IsSpace) == s
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func plainASCII(s string) bool {
	switch c := s[0]; {
	case strings.IndexByte(" ?:,[]{}#&*!|>'\"%@`=<~", c) >= 0:
		return false
	case c == '-' && (len(s) == 1 || s[1] == ' ' || strings.HasPrefix(s, "---")):
		return false
	case c == '.' && strings.HasPrefix(s, "..."):
		return false
	case (c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.') && looksLikeNumber(s):
		return false
	}
	last := s[len(s)-1]
	if last == ' ' || last == ':' {
		return false
	}
	return strings.IndexByte(s, ' ') < 0 || !strings.Contains(s, ": ") && !strings.Contains(s, " #")
}

// looksLikeNumber reports whether a string could be a number, date or time in YAML 1.1 or 1.2. It is also true for some
// other strings of the same characters. None of the notations has two points.
func looksLikeNumber(s string) bool {
	word := strings.ToLower(strings.TrimLeft(s, "+-."))
	if strings.Count(s, ".") > 1 || !strings.ContainsAny(s, "0123456789") && word != "inf" && word != "nan" {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		case strings.IndexByte("xXoO_+-.:tTzZiInN ", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// reserved reports whether some version of YAML reads a word as a boolean, a null or a merge key.
func reserved(s string) bool {
	const longest = 5
	if len(s) > longest {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return true
	}
	return false
}

// blockIsSafe reports whether a literal block without an indentation indicator preserves a text of several lines.
func blockIsSafe(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	started := false
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if line == "" {
			continue
		}
		switch {
		case !started && (line[0] == ' ' || line[0] == '\t'): // the first line sets the indentation
			return false
		case i == len(lines)-1 && line[len(line)-1] == ' ': // some readers drop it
			return false
		}
		started = true
		for _, r := range line {
			if r != '\t' && !isPrintable(r) {
				return false
			}
		}
	}
	return started
}

func allPrintable(s string) bool {
	for _, r := range s {
		if !isPrintable(r) {
			return false
		}
	}
	return true
}

// isPrintable is narrower than YAML's own set: it excludes characters that a terminal or an editor may change or hide.
func isPrintable(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r <= '~'
	}
	return r != utf8.RuneError && r != '\ufeff' && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) ||
		unicode.IsPunct(r) || unicode.IsSymbol(r))
}
