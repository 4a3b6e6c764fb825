package command

import (
	"fmt"
	"strings"
)

// word is one argument. A quoted word is never a flag.
type word struct {
	text   string
	quoted bool
}

// flag reports whether a word is meant as a flag. Phones replace -- by a dash; such a word counts as a flag too, and
// is refused with a suggestion.
func (w word) flag() bool {
	if w.quoted {
		return false
	}
	for _, mark := range []string{"-", "–", "—"} {
		if strings.HasPrefix(w.text, mark) {
			return true
		}
	}
	return false
}

// closing returns the marks that end a quotation that begins with r. Phones write typographic quotation marks.
func closing(r rune) (string, bool) {
	switch r {
	case '"':
		return `"`, true
	case '\'':
		return `'`, true
	case '“':
		return "”", true
	case '„':
		return "“”", true
	default:
		return "", false
	}
}

// split splits a line into words at blanks. Quotation marks keep words together. In double quotes, a
// backslash escapes a quotation mark or a backslash.
func split(line string) ([]word, *Problem) {
	var words []word
	var b strings.Builder
	inWord, quoted, end, opened := false, false, "", rune(0)
	flush := func() {
		if inWord {
			words = append(words, word{text: b.String(), quoted: quoted})
		}
		b.Reset()
		inWord, quoted = false, false
	}
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		next := rune(0)
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		switch {
		case end != "" && opened == '"' && r == '\\' && (next == '"' || next == '\\'):
			b.WriteRune(next)
			i++
		case end != "" && strings.ContainsRune(end, r):
			end = ""
		case end != "":
			b.WriteRune(r)
		case r == ' ' || r == '\t':
			flush()
		default:
			// An apostrophe inside a word does not begin a quotation.
			if c, ok := closing(r); ok && (!inWord || r != '\'') {
				quoted = quoted || !inWord
				end, opened, inWord = c, r, true
				continue
			}
			inWord = true
			b.WriteRune(r)
		}
		if len(words) > maxWords {
			return nil, &Problem{
				Message: fmt.Sprintf("the line has more than %d words", maxWords),
				Hint:    "quote a text of several words",
			}
		}
	}
	if end != "" {
		return nil, &Problem{
			Message: fmt.Sprintf("the quotation mark %c is not closed", opened),
			Hint:    "close it on the same line",
		}
	}
	flush()
	return words, nil
}
