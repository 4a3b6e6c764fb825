package forge

import (
	"strings"
	"unicode"
)

// Inert returns a text in which no line is a quick action, or a command of another bot: a backslash precedes a slash
// and a letter at the beginning of a line. GitLab runs the quick actions of a description or a comment with the rights
// of the account that writes it, also when that account only writes again what somebody else wrote. The implementations
// of Requests and Comments pass what they write through it.
//
// It escapes lines of code too, because GitLab does not find the ends of code as Markdown does. A line that begins with
// a space is no quick action (lib/gitlab/quick_actions/extractor.rb of GitLab) and stays: diffs show such lines of
// manifests. Only at the beginning of the text, where a forge may remove white space, is it escaped.
func Inert(text string) string {
	var out strings.Builder
	written := 0
	// no character is before this one in the text or its line, but for white space in the text and invisible ones
	first, begins := true, true
	for i, r := range text {
		if (first || begins) && r == '/' && letter(text[i+1:]) {
			out.WriteString(text[written:i] + `\`)
			written = i
		}
		switch {
		case strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r):
			begins = true
		case unicode.IsSpace(r):
			begins = false
		case !unicode.Is(unicode.Cf, r):
			first, begins = false, false
		}
	}
	return out.String() + text[written:]
}

// letter reports whether a text begins with an ASCII letter or a character outside of ASCII.
func letter(text string) bool {
	return text != "" && (text[0]|0x20 >= 'a' && text[0]|0x20 <= 'z' || text[0] >= 0x80)
}
