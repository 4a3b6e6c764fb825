package gitstore

import "strings"

// Trailer is one `Key: value` at the end of a commit message.
type Trailer struct{ Key, Value string }

// Message joins a subject, a body and trailers. Neither the body nor a value can add another trailer.
func Message(subject, body string, trailers []Trailer) string {
	var b strings.Builder
	b.WriteString(oneLine(subject))
	b.WriteByte('\n')
	if body = strings.TrimSpace(strings.ReplaceAll(body, "\r", "")); body != "" {
		b.WriteString("\n" + body + "\n")
	}
	if len(trailers) == 0 {
		return quoteTrailers(b.String())
	}
	b.WriteByte('\n')
	for _, t := range trailers {
		b.WriteString(t.Key + ": " + oneLine(t.Value) + "\n")
	}
	return b.String()
}

// Trailers parses the trailers of a message: the lines of its last paragraph, if every line is a trailer. A message
// of one paragraph has none.
func Trailers(message string) []Trailer {
	trimmed := strings.TrimRight(message, "\n")
	i := strings.LastIndex(trimmed, "\n\n")
	if i < 0 {
		return nil
	}
	var out []Trailer
	for line := range strings.SplitSeq(trimmed[i+2:], "\n") {
		key, value, ok := strings.Cut(line, ": ")
		if !ok || !isKey(key) {
			return nil
		}
		out = append(out, Trailer{key, value})
	}
	return out
}

func isKey(s string) bool {
	for i, r := range s {
		letter := r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		if !letter && (r != '-' || i == 0) {
			return false
		}
	}
	return s != ""
}

// quoteTrailers quotes the last paragraph of a body if it consists of trailers.
func quoteTrailers(message string) string {
	if Trailers(message) == nil {
		return message
	}
	i := strings.LastIndex(strings.TrimRight(message, "\n"), "\n\n") + 2
	return message[:i] + "> " + strings.ReplaceAll(strings.TrimRight(message[i:], "\n"), "\n", "\n> ") + "\n"
}

func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s))
}
