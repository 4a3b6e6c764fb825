package fleet

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// firstLine matches what the YAML parser says about a mistake in the first line: it does not name that line.
var firstLine = regexp.MustCompile(`^(found|did not find|could not find|mapping values|block )`)

// splitYAMLError takes the line out of a YAML parser's message about data; 0 if it is unknown.
func splitYAMLError(err error, data []byte) (int, string) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	m := yamlLine.FindStringSubmatch(message)
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
