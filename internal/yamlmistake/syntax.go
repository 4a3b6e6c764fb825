package yamlmistake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var lineOf = regexp.MustCompile(`^line (\d+): `)

// firstLine matches what the YAML parser says about a mistake in the first line: it does not name that line.
var firstLine = regexp.MustCompile(`^(found|did not find|could not find|mapping values|block )`)

const (
	noTabs     = "indent with spaces: YAML does not allow tabs"
	noConflict = "resolve the conflict, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>"
	// MissingColon is the next step for a text for which WithoutColon holds.
	MissingColon = "write KEY: VALUE"
)

// Syntax explains why data is not YAML, by what people do wrong most often: a merge conflict, a tab, a key without
// a colon. It returns the line, or 0 if it is unknown, and the next step, or "" if it knows none.
func Syntax(err error, data []byte) (line int, message, hint string) {
	line, message = split(err, data)
	lines := strings.Split(string(data), "\n")
	if i := slices.IndexFunc(lines, isConflictMarker); i >= 0 {
		return i + 1, fmt.Sprintf("a conflict marker of a merge: %.40q", strings.TrimSpace(lines[i])), noConflict
	}
	for i := max(line-1, 0); line > 0 && i < min(line+1, len(lines)); i++ { // the parser's line can be one too low
		text := lines[i]
		if strings.Contains(text[:len(text)-len(strings.TrimLeft(text, " \t"))], "\t") {
			return i + 1, "a tab in the indentation", noTabs
		}
	}
	if strings.Contains(message, "could not find expected ':'") || strings.Contains(message, "mapping values are not") {
		for i := min(line, len(lines)) - 1; line > 0 && i >= max(line-3, 0); i-- {
			if WithoutColon(lines[i]) {
				return i + 1, fmt.Sprintf("a colon is missing: %.60q", strings.TrimSpace(lines[i])), MissingColon
			}
		}
	}
	return line, message, ""
}

// isConflictMarker reports whether Git wrote the line where it could not merge.
func isConflictMarker(line string) bool {
	return strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") ||
		strings.HasPrefix(line, "||||||| ")
}

// WithoutColon reports whether a line is a word and something after it, as of a key whose colon is missing.
func WithoutColon(line string) bool {
	line = strings.TrimSpace(line)
	key, value, ok := strings.Cut(strings.TrimPrefix(line, "- "), " ")
	return ok && value != "" && !strings.Contains(line, ": ") && !strings.HasSuffix(line, ":") &&
		!strings.ContainsAny(key, "#'\"{}[]&*!|>%@")
}

// split takes the line out of a YAML parser's message about data; 0 if it is unknown.
func split(err error, data []byte) (int, string) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	m := lineOf.FindStringSubmatch(message)
	switch {
	case m != nil:
	case firstLine.MatchString(message):
		return 1, message
	case strings.HasPrefix(message, "unknown anchor "):
		return unknownAnchor(data), message
	default:
		return 0, message
	}
	line, err2 := strconv.Atoi(m[1])
	if err2 != nil {
		return 0, message // a line beyond what an int holds
	}
	return line, strings.TrimPrefix(message, m[0])
}

// unknownAnchor returns the line of the first alias without an anchor, which the YAML parser does not name: the first
// line with which the text from its beginning has the error. It returns 0 if there is none, and for large texts,
// because it parses several times.
func unknownAnchor(data []byte) int {
	const most = 1 << 20
	if len(data) > most {
		return 0
	}
	var ends []int // of lines, exclusive
	for line := range bytes.Lines(data) {
		ends = append(ends, len(line))
		if n := len(ends); n > 1 {
			ends[n-1] += ends[n-2]
		}
	}
	fails := func(i int) bool {
		dec := yaml.NewDecoder(bytes.NewReader(data[:ends[i]]))
		for {
			var root yaml.Node
			if err := dec.Decode(&root); err != nil {
				return !errors.Is(err, io.EOF) && strings.HasPrefix(err.Error(), "yaml: unknown anchor ")
			}
		}
	}
	if i := sort.Search(len(ends), fails); i < len(ends) {
		return i + 1
	}
	return 0
}
