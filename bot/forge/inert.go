package forge

import (
	"strings"
	"unicode"
)

// Inert returns a text in which no line is a quick action, or a command of another bot: a backslash precedes a slash and a letter at the
// beginning of a line. GitLab runs the quick actions of a description or a comment with the rights of the account that writes it, also when
// that account only writes again what somebody else wrote. The implementations of Requests and Comments pass what they write through it.
func Inert(text string) string {
	var out strings.Builder
	written := 0
	begins := true // nothing but white space is before this character in its line
	for i, r := range text {
		if begins && r == '/' && letter(text[i+1:]) {
			out.WriteString(text[written:i] + `\`)
			written = i
		}
		switch {
		case strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r):
			begins = true
		case !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r):
			begins = false
		}
	}
	return out.String() + text[written:]
}

// letter reports whether a text begins with a letter.
func letter(text string) bool {
	return text != "" && (text[0]|0x20 >= 'a' && text[0]|0x20 <= 'z' || text[0] >= 0x80)
}
