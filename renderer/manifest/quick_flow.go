package manifest

import (
	"strconv"
	"strings"
)

// flow reads flow collections and quoted scalars of one line. text is what follows.
type flow struct {
	text   string
	depth  int // levels that may still open
	failed bool
}

func (f *flow) fail() any {
	f.failed = true
	return nil
}

// node reads a collection or a scalar.
func (f *flow) node() any {
	if f.text == "" {
		return f.fail()
	}
	switch f.text[0] {
	case '"', '\'':
		return f.quoted()
	case '{', '[':
		if f.depth--; f.depth <= 0 {
			return f.fail()
		}
		defer func() { f.depth++ }()
		if f.text[0] == '{' {
			return f.mapping()
		}
		return f.sequence()
	}
	v, ok := quickScalar(f.word())
	if !ok {
		return f.fail()
	}
	return v
}

// word takes a plain scalar of letters, digits and a few signs. quickScalar refuses an empty one, and a dash.
func (f *flow) word() string {
	end := 0
	for end < len(f.text) && isWord(f.text[end]) {
		end++
	}
	word := f.text[:end]
	f.text = f.text[end:]
	return word
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '/' || c == '.' || c == '-'
}

// take removes spaces and then a sign, and reports whether it was there.
func (f *flow) take(sign byte) bool {
	f.text = strings.TrimLeft(f.text, " ")
	if f.text == "" || f.text[0] != sign {
		return false
	}
	f.text = strings.TrimLeft(f.text[1:], " ")
	return true
}

func (f *flow) sequence() any {
	out := []any{}
	f.take('[')
	if f.take(']') {
		return out
	}
	for !f.failed {
		out = append(out, f.node())
		if f.take(']') {
			return out
		}
		if !f.take(',') {
			return f.fail()
		}
	}
	return nil
}

func (f *flow) mapping() any {
	out := map[string]any{}
	f.take('{')
	if f.take('}') {
		return out
	}
	for !f.failed {
		quoted := f.text != "" && (f.text[0] == '"' || f.text[0] == '\'')
		key, ok := "", true
		if quoted {
			key = f.quoted()
		} else {
			key, ok = f.key()
		}
		_, twice := out[key]
		if !ok || twice || len(key) > longestKey || f.text == "" || f.text[0] != ':' || !quoted && !strings.HasPrefix(f.text, ": ") {
			return f.fail()
		}
		f.text = strings.TrimLeft(f.text[1:], " ")
		out[key] = f.node()
		if f.take('}') {
			return out
		}
		if !f.take(',') {
			return f.fail()
		}
	}
	return nil
}

// key takes a plain key that is a string.
func (f *flow) key() (string, bool) {
	v, ok := quickScalar(f.word())
	key, isText := v.(string)
	return key, ok && isText
}

// quoted takes a quoted scalar. It knows the escapes of `"`, `\`, line breaks and tabs.
func (f *flow) quoted() string {
	quote, rest := f.text[0], f.text[1:]
	end := strings.IndexByte(rest, quote)
	if end < 0 {
		f.fail()
		return ""
	}
	if quote == '"' && strings.IndexByte(rest[:end], '\\') < 0 || quote == '\'' && !strings.HasPrefix(rest[end+1:], "'") {
		f.text = rest[end+1:]
		return rest[:end]
	}
	var out strings.Builder
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c == quote && quote == '\'' && strings.HasPrefix(rest[i+1:], "'"):
			i++
		case c == quote:
			f.text = rest[i+1:]
			return out.String()
		case c == '\\' && quote == '"':
			i++
			if c = unescape(rest[i:]); c == 0 {
				f.fail()
				return ""
			}
		}
		out.WriteByte(c)
	}
	f.fail()
	return ""
}

// unescape returns the character of the escape at the start of a text; 0 for those that the library reads.
func unescape(text string) byte {
	if text == "" {
		return 0
	}
	switch text[0] {
	case '"', '\\':
		return text[0]
	case 'n':
		return '\n'
	case 't':
		return '\t'
	}
	return 0
}

// quickScalar returns the value of a plain scalar. It returns false where the type needs the library: dates, and numbers that are neither
// small integers nor ordinary decimals.
func quickScalar(s string) (any, bool) {
	if s == "" {
		return nil, false
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9' || c == '-' || c == '+':
		return quickNumber(s)
	case c == '.':
		return s, len(s) > 1 && (s[1] == '/' || s[1] >= 'a' && s[1] <= 'z' && s[1] != 'i' && s[1] != 'n')
	case len(s) <= len("false"):
		switch s {
		case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
			return true, true
		case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
			return false, true
		case "~", "null", "Null", "NULL":
			return nil, true
		}
	}
	return s, true
}

// quickNumber returns the value of a plain scalar that begins with a sign or a digit.
func quickNumber(s string) (any, bool) {
	if isHash(s) {
		return quickWord(s)
	}
	signs := "eE_+-TtZz:, " // of numbers and dates, besides digits and points
	if s[0] < '1' {
		signs += "abcdfABCDFxXoO" // of numbers with a base, which follows a zero
	}
	digits, points, odd := 0, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.':
			points++
		case c == '-' && i == 0:
		case strings.IndexByte(signs, c) < 0:
			return quickWord(s)
		default:
			odd = true
		}
	}
	if digits == 0 {
		return quickWord(s)
	}
	const longest = 15 // digits of a number that is certainly exact with a point in it
	first, last := strings.TrimPrefix(s, "-"), s[len(s)-1]
	switch {
	case odd || digits > longest && points > 0 || first[0] == '.' || last == '.':
		return nil, false
	case points > 1:
		return s, true
	case points == 1:
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil
	case first[0] == '0' && s != "0": // octal
		return nil, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}

// isHash reports whether a word is a string although it begins with a zero, as one checksum in sixteen does: a letter decides that, which numbers
// with a base have only behind the letter of the base, and other numbers and dates never. The library omits underscores from numbers.
func isHash(s string) bool {
	return len(s) > 1 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) < 0 && strings.IndexByte(s, '_') < 0 && strings.ContainsAny(s, "abcdfABCDF")
}

// quickWord returns a scalar that begins with a sign or a digit, and is no number and no date.
func quickWord(s string) (any, bool) {
	return s, len(s) > 1 && s[0] != '+' && s[1] != '.' // -.inf is a number
}
