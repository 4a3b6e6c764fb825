package safetext

import "strings"

// ReplaceWords replaces a text where no letter or digit is next to it.
func ReplaceWords(s, old, by string) string {
	var out strings.Builder
	for at := 0; ; {
		i := strings.Index(s[at:], old)
		if i < 0 {
			out.WriteString(s[at:])
			return out.String()
		}
		i += at
		end := i + len(old)
		out.WriteString(s[at:i])
		if i > 0 && wordByte(s[i-1]) || end < len(s) && wordByte(s[end]) {
			out.WriteString(old)
		} else {
			out.WriteString(by)
		}
		at = end
	}
}

func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}
