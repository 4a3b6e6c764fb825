package command

import (
	"fmt"
	"strings"
)

// word is one argument; one that was written in quotes is never a flag.
type word struct {
	text   string
	quoted bool
}

// flag says whether a word is meant as a flag. Phones turn -- into a dash: that is a flag too, and refused with a suggestion.
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

// closing is the quotation mark that ends what another one begins; typographic ones are what phones write.
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

// split cuts a line into words at spaces. Quotes hold words together; a backslash in double quotes takes the next quote or
// backslash as it is.
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
			// An apostrophe inside a word is no quotation mark.
			if c, ok := closing(r); ok && (!inWord || r != '\'') {
				quoted = quoted || !inWord
				end, opened, inWord = c, r, true
				continue
			}
			inWord = true
			b.WriteRune(r)
		}
		if len(words) > maxWords {
			return nil, &Problem{Message: fmt.Sprintf("the line has more than %d words", maxWords), Hint: "put a text of several words in quotes"}
		}
	}
	if end != "" {
		return nil, &Problem{Message: fmt.Sprintf("the quotation mark %c is not closed", opened), Hint: "close it in the same line"}
	}
	flush()
	return words, nil
}

// suggest offers the nearest known word, if one is near.
func suggest(got string, known []string) string {
	if len(got) > maxName {
		return ""
	}
	best, distance := "", 3
	for _, k := range known {
		if n := editDistance(strings.ToLower(got), k); n < distance && n < len(strings.TrimLeft(k, "-")) {
			best, distance = k, n
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		previous := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			previous, row[j] = row[j], min(row[j]+1, row[j-1]+1, previous+cost)
		}
	}
	return row[len(b)]
}
