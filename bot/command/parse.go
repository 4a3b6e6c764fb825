package command

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	prefix      = "/sluice"
	maxBody     = 64 << 10 // bytes of a comment
	maxCommands = 5
	maxProblems = 10
	maxLine     = 1024 // bytes
	maxWords    = 40
	maxRepeated = 20
	maxName     = 63
	maxRevision = 200
	maxReason   = 300 // runes
	maxPath     = 512
	maxShown    = 120 // characters of a line in a problem
)

// Parse reads the commands of a comment. A line is a command if it begins with /sluice at column 0 and is
// plain text of the comment: not code, a quotation, a formula, or a part of a list, a link or HTML. A line
// that begins like a command and cannot be read is a problem. So is, in a comment without commands, a line that would
// be one without a list, backticks or capitals. The time of Parse grows linearly with the
// comment.
func Parse(body string) ([]Command, []Problem) {
	body = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body)
	if !candidate(body) {
		if len(body) > maxBody {
			return nil, nil
		}
		return nil, nearCommands(body)
	}
	if len(body) > maxBody {
		return nil, []Problem{{
			Line: 1, Message: fmt.Sprintf("the comment has %d bytes, and commands are read from comments of at most %d",
				len(body), maxBody),
			Hint: hintAlone,
		}}
	}
	var commands []Command
	var problems []Problem
	for _, l := range plainLines(body) {
		if len(problems) == maxProblems {
			break
		}
		c, problem := Command{}, l.problem
		switch {
		case problem != nil:
		case len(commands) == maxCommands:
			problem = &Problem{
				Message: fmt.Sprintf("a comment can have at most %d commands", maxCommands),
				Hint:    "write the rest in another comment",
			}
		default:
			c, problem = parseLine(l.text)
		}
		if problem != nil {
			problem.Line, problem.Text = l.number, shorten(l.text)
			problems = append(problems, *problem)
			continue
		}
		c.Line, c.Text = l.number, l.text
		commands = append(commands, c)
	}
	if len(commands)+len(problems) == 0 {
		problems = nearCommands(body)
	}
	return commands, problems
}

// candidate reports cheaply whether a comment can have a command: most have none.
func candidate(body string) bool {
	return strings.HasPrefix(body, prefix) || strings.Contains(body, "\n"+prefix)
}

// parseLine parses a line that begins with prefix. The problem has no line number and no text.
func parseLine(line string) (Command, *Problem) {
	if p := readable(line); p != nil {
		return Command{}, p
	}
	words, p := split(strings.TrimPrefix(line, prefix))
	if p != nil {
		return Command{}, p
	}
	if len(words) == 0 {
		return Command{}, &Problem{Message: "a verb is missing", Hint: prefix + " help lists them"}
	}
	spec, ok := Find(Verb(words[0].text))
	if !ok {
		return Command{}, &Problem{
			Message: fmt.Sprintf("no command %q%s", shorten(words[0].text),
				nearest.DidYouMean(words[0].text, verbNames())),
			Hint: prefix + " help lists them",
		}
	}
	c := Command{Verb: spec.Verb}
	if p := fill(&c, spec, words[1:]); p != nil {
		if p.Hint == "" {
			p.Hint = "the syntax is " + spec.Usage()
		}
		return Command{}, p
	}
	return c, nil
}

// readable refuses lines that look different from what they contain.
func readable(line string) *Problem {
	if len(line) > maxLine {
		return &Problem{
			Message: fmt.Sprintf("the line has %d bytes, and at most %d are read", len(line), maxLine),
			Hint:    "shorten it",
		}
	}
	if !utf8.ValidString(line) {
		return &Problem{Message: "the line is not UTF-8", Hint: "type it again"}
	}
	for _, r := range line {
		if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' ||
			r == '\u2029') {
			return &Problem{
				Message: fmt.Sprintf("the line has the invisible character %U", r),
				Hint:    "type it instead of copying it",
			}
		}
	}
	return nil
}

// fill sets the arguments and flags of a command from the words after its verb.
func fill(c *Command, spec Spec, words []word) *Problem {
	seen := map[string]bool{}
	rest := spec.Arguments
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.flag() {
			used, p := fillFlag(c, spec, words[i:], seen)
			if p != nil {
				return p
			}
			i += used
			continue
		}
		if len(rest) == 0 {
			return &Problem{Message: fmt.Sprintf("unexpected word %q", shorten(w.text))}
		}
		if p := check(rest[0].kind, rest[0].Name, w.text); p != nil {
			return p
		}
		if rest[0].list != nil {
			*rest[0].list(c) = append(*rest[0].list(c), w.text)
		} else {
			*rest[0].field(c) = w.text
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		return &Problem{Message: fmt.Sprintf("%s is missing", rest[0].Name)}
	}
	for _, f := range spec.Flags {
		if f.Needed && !seen[f.Name] {
			return &Problem{Message: fmt.Sprintf("--%s is missing", f.Name)}
		}
	}
	if c.Now && c.Reason == "" {
		return &Problem{Message: "--now needs a --reason, which is recorded with the promotion"}
	}
	if c.Cancel && (c.Now || c.Again != "" || c.Commit != "" || len(c.App)+len(c.Spaces) > 0) {
		return &Problem{Message: "--cancel withdraws the whole request: only --reason goes with it"}
	}
	return nil
}

// fillFlag reads the flag at words[0]. It returns the number of words after it that belong to it.
func fillFlag(c *Command, spec Spec, words []word, seen map[string]bool) (int, *Problem) {
	name, value, inline := strings.Cut(strings.TrimPrefix(words[0].text, "--"), "=")
	f, ok := spec.Flag(name)
	if !ok {
		return 0, unknownFlag(words[0].text, name, spec)
	}
	if seen[name] && !f.Repeated {
		return 0, &Problem{Message: fmt.Sprintf("--%s is repeated", name)}
	}
	seen[name] = true
	if f.Value == "" {
		if inline {
			return 0, &Problem{Message: fmt.Sprintf("--%s takes no value", name)}
		}
		*f.on(c) = true
		return 0, nil
	}
	used := 0
	if !inline {
		if len(words) < 2 || words[1].flag() {
			return 0, &Problem{Message: fmt.Sprintf("--%s needs a value", name)}
		}
		value, used = words[1].text, 1
	}
	if p := check(f.kind, "--"+name, value); p != nil {
		return 0, p
	}
	if f.list == nil {
		*f.field(c) = value
		return used, nil
	}
	list := f.list(c)
	if !slices.Contains(*list, value) {
		*list = append(*list, value)
	}
	if len(*list) > maxRepeated {
		return 0, &Problem{Message: fmt.Sprintf("--%s is repeated more than %d times", name, maxRepeated)}
	}
	return used, nil
}

func unknownFlag(text, name string, spec Spec) *Problem {
	names := make([]string, 0, len(spec.Flags))
	for _, f := range spec.Flags {
		names = append(names, "--"+f.Name)
	}
	return &Problem{
		Message: fmt.Sprintf("%s has no flag %q%s", spec.Verb, shorten(text),
			nearest.DidYouMean("--"+strings.TrimLeft(name, "-–—"), names)),
		Hint: fmt.Sprintf("%s takes %s", spec.Verb, spec.flagNames()),
	}
}

// check returns what is wrong with a value, or nil.
func check(k kind, name, v string) *Problem {
	bad := func(hint string) *Problem {
		return &Problem{Message: fmt.Sprintf("%s: %q %s", name, shorten(v), hint)}
	}
	switch k {
	case kindName:
		if !isName(v) {
			return bad("is not a name (lower-case letters, digits, - and ., at most 63 characters)")
		}
	case kindApp:
		workspace, app, scoped := strings.Cut(v, "/")
		if !isName(workspace) || scoped && !isName(app) {
			return bad("is not a name (such as shop, or team-a/shop for an app of a workspace)")
		}
	case kindRevision:
		if len(v) > maxRevision || strings.Contains(v, "..") || !only(v,
			func(c byte) bool { return strings.IndexByte("-._/", c) >= 0 }) {
			return bad("is not a revision (write a commit id, a branch or a tag)")
		}
	case kindTime:
		if _, _, err := until(v); err != nil {
			return bad("is not a time (write one such as 2026-12-24T18:00:00Z, 2026-12-24, 4h or 3d)")
		}
	case kindText:
		if strings.TrimSpace(v) == "" || utf8.RuneCountInString(v) > maxReason {
			return bad(fmt.Sprintf("must be a text of 1 to %d characters", maxReason))
		}
	case kindPath:
		if v == "" || len(v) > maxPath {
			return bad(fmt.Sprintf("must be a path of 1 to %d bytes, such as .controller.image.tag", maxPath))
		}
	}
	return nil
}

// isName reports whether a text can be the name of a cluster, an environment or an app.
func isName(v string) bool {
	return len(v) <= maxName && strings.ToLower(v) == v && only(v, func(c byte) bool { return c == '-' || c == '.' })
}

// only reports whether a text is ASCII letters and digits, with inner characters between them.
func only(v string, inner func(byte) bool) bool {
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	if v == "" || !alnum(v[0]) || !alnum(v[len(v)-1]) {
		return false
	}
	for i := range len(v) {
		if !alnum(v[i]) && !inner(v[i]) {
			return false
		}
	}
	return true
}

// shorten returns a part of a comment for a problem: valid UTF-8, at most maxShown characters.
func shorten(s string) string { return safetext.Shorten(strings.ToValidUTF8(s, "\uFFFD"), maxShown) }
