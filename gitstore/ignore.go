package gitstore

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// ignoreRule is one line of a .gitignore. go-git's rules are not used, because they differ from Git's: with `*`,
// `!*/`, `!*.yaml` they include every file of a folder, with `out/**`, `!out/keep` none.
type ignoreRule struct {
	base    string // the folder of the .gitignore with a trailing slash; "" for the topmost
	negate  bool
	dirOnly bool
	byName  bool // the line has no slash: it matches names at any depth
	literal string
	suffix  string         // of `*.suffix`
	match   *regexp.Regexp // for all other patterns
}

const ignoreSpecial = `*?[\`

// parseIgnore reads one line; false for an empty line or a comment.
func parseIgnore(line, base string) (ignoreRule, bool) {
	line = trimBlanks(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return ignoreRule{}, false
	}
	r := ignoreRule{base: base}
	line, r.negate = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.byName = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	rest, star := strings.CutPrefix(line, "*")
	switch {
	case line == "":
		return ignoreRule{}, false
	case !strings.ContainsAny(line, ignoreSpecial):
		r.literal = line
	case r.byName && star && rest != "" && !strings.ContainsAny(rest, ignoreSpecial):
		r.suffix = rest
	default:
		text, ok := globRegexp(line)
		if !ok {
			return ignoreRule{}, false
		}
		var err error
		if r.match, err = regexp.Compile(text); err != nil {
			return ignoreRule{}, false // too large; Git gives up on such lines too
		}
	}
	return r, true
}

// readIgnore reads the rules of a .gitignore; folder is its path from the top of the working tree.
func readIgnore(name string, folder []string) ([]ignoreRule, error) {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() { // Git does not follow links here either
		return nil, ignoreMissing(err)
	}
	if info.Size() > maxObject {
		return nil, fmt.Errorf("%s: %w", name, ErrTooLarge)
	}
	data, err := os.ReadFile(name) //nolint:gosec // the user's own files
	if err != nil {
		return nil, err
	}
	base := ""
	if len(folder) > 0 {
		base = strings.Join(folder, "/") + "/"
	}
	var out []ignoreRule
	for line := range strings.SplitSeq(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		if rule, ok := parseIgnore(line, base); ok {
			out = append(out, rule)
		}
	}
	return out, nil
}

// trimBlanks removes trailing blanks that are not escaped.
func trimBlanks(line string) string {
	for trimmed := line; ; {
		var ok bool
		if trimmed, ok = strings.CutSuffix(trimmed, " "); !ok {
			return line
		}
		backslashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
		if backslashes%2 == 1 {
			return line
		}
		line = trimmed
	}
}

// ignored applies the last rule that matches. It does not check parent folders, because the caller does not enter
// ignored ones.
func ignored(rules []ignoreRule, name string, isDir bool) bool {
	for _, r := range slices.Backward(rules) {
		if r.matches(name, isDir) {
			return !r.negate
		}
	}
	return false
}

func (r ignoreRule) matches(name string, isDir bool) bool {
	rest, below := strings.CutPrefix(name, r.base)
	if !below || r.dirOnly && !isDir {
		return false
	}
	if r.byName {
		rest = rest[strings.LastIndexByte(rest, '/')+1:]
	}
	switch {
	case r.match != nil:
		return r.match.MatchString(bytesAsRunes(rest))
	case r.suffix != "":
		return strings.HasSuffix(rest, r.suffix)
	default:
		return rest == r.literal
	}
}

// bytesAsRunes maps bytes to runes, so that a regular expression matches bytes as Git does: names need not be UTF-8.
func bytesAsRunes(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 {
		return s
	}
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = rune(s[i])
	}
	return string(out)
}

// globRegexp translates Git's wildmatch; false for a pattern that can match nothing. Regular expressions take linear time
// whatever the pattern.
func globRegexp(glob string) (string, bool) {
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			stars := len(glob[i:]) - len(strings.TrimLeft(glob[i:], "*"))
			text, used := starRegexp(glob, i, stars)
			out.WriteString(text)
			i += used - 1
		case '?':
			out.WriteString(`[^/]`)
		case '[':
			text, used, ok := classRegexp(glob[i:])
			if !ok {
				return "", false
			}
			out.WriteString(text)
			i += used - 1
		case '\\':
			if i++; i == len(glob) {
				return "", false
			}
			out.WriteString(regexp.QuoteMeta(bytesAsRunes(glob[i : i+1])))
		default:
			out.WriteString(regexp.QuoteMeta(bytesAsRunes(glob[i : i+1])))
		}
	}
	return out.String() + `\z`, true
}

// starRegexp translates stars: two or more that are a whole part of a path match any number of folders.
func starRegexp(glob string, at, stars int) (string, int) {
	const part = `[^/]*`
	end := at + stars
	if stars < 2 || at > 0 && glob[at-1] != '/' {
		return part, stars
	}
	switch {
	case end == len(glob):
		return `.*`, stars
	case glob[end] == '/':
		return `(?:.*/)?`, stars + 1
	}
	return part, stars
}
