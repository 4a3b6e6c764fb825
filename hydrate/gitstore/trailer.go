package gitstore

import (
	"regexp"
	"strings"
)

// Trailer is one `Key: value` at the end of a commit message.
type Trailer struct{ Key, Value string }

// Message puts a subject, a body and trailers together. Only the trailers given here are trailers of the outcome: a body
// cannot add any, and a value cannot begin another.
func Message(subject, body string, trailers []Trailer) string {
	var b strings.Builder
	b.WriteString(oneLine(subject))
	b.WriteByte('\n')
	if body = strings.TrimSpace(strings.ReplaceAll(body, "\r", "")); body != "" {
		b.WriteString("\n" + body + "\n")
	}
	if len(trailers) > 0 {
		b.WriteByte('\n')
	}
	for _, t := range trailers {
		b.WriteString(t.Key + ": " + oneLine(t.Value) + "\n")
	}
	return b.String()
}

// Trailers reads the trailers of a message: those of its last paragraph, if every line of it is one. A message of one
// paragraph has none.
func Trailers(message string) []Trailer {
	trimmed := strings.TrimRight(message, "\n")
	i := strings.LastIndex(trimmed, "\n\n")
	if i < 0 {
		return nil
	}
	line := regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9]*): (.*)$`)
	var out []Trailer
	for text := range strings.SplitSeq(trimmed[i+2:], "\n") {
		m := line.FindStringSubmatch(text)
		if m == nil {
			return nil
		}
		out = append(out, Trailer{m[1], m[2]})
	}
	return out
}

func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s))
}
