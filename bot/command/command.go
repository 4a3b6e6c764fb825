package command

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verb is what a command asks for.
type Verb string

// The verbs of the grammar.
const (
	VerbHelp     Verb = "help"
	VerbStatus   Verb = "status"
	VerbDiff     Verb = "diff"
	VerbExplain  Verb = "explain"
	VerbRetry    Verb = "retry"
	VerbCancel   Verb = "cancel"
	VerbTrust    Verb = "trust"
	VerbApprove  Verb = "approve"
	VerbPromote  Verb = "promote"
	VerbRollback Verb = "rollback"
	VerbFreeze   Verb = "freeze"
	VerbUnfreeze Verb = "unfreeze"
	VerbHalt     Verb = "halt"
	VerbResume   Verb = "resume"
)

// Right is what somebody needs for a verb.
type Right string

// The rights, the least one first.
const (
	// RightRead is the right to read the source repository.
	RightRead Right = "read"
	// RightWrite is the right to push to the source repository.
	RightWrite Right = "write"
	// RightEnvironment is given by sluice.yaml on the trunk, for each environment and verb.
	RightEnvironment Right = "environment"
)

// Command is one line of a comment that asks for something. Fields that a verb has no use for are empty.
type Command struct {
	Verb     Verb
	Env      string   // of approve, promote, rollback, halt, resume; of diff if given
	Target   string   // of freeze and unfreeze: an environment or a cluster
	App      []string // all of them if empty
	Clusters []string // all of them if empty
	Path     string   // of explain: where in the values
	Commit   string   // of promote: a revision
	To       string   // of rollback: a revision
	Wave     string   // of rollback: the clusters of one
	Until    string   // of freeze; see ParseUntil
	Reason   string
	Now      bool   // overtakes gates that only wait
	Text     string // the line as it was written
	Line     int    // of the comment, from 1
}

// Right is what somebody needs to give the command.
func (c Command) Right() Right {
	if s, ok := find(c.Verb); ok {
		return s.Right
	}
	return RightEnvironment
}

// Overtakes says that the command also needs the right to overtake, which promote alone does not give.
func (c Command) Overtakes() bool { return c.Verb == VerbPromote && c.Now }

// String is the command in its canonical form; it parses into the same command.
func (c Command) String() string {
	parts := []string{prefix, string(c.Verb)}
	s, _ := find(c.Verb)
	for _, a := range s.Arguments {
		parts = append(parts, quote(a.get(&c)))
	}
	for _, f := range s.Flags {
		if f.Value == "" {
			if c.Now {
				parts = append(parts, "--"+f.Name)
			}
			continue
		}
		for _, v := range f.values(&c) {
			parts = append(parts, "--"+f.Name, quote(v))
		}
	}
	return strings.Join(parts, " ")
}

func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\"'\\“”„") && !(word{text: s}).flag() {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Problem is a command that cannot be taken. Its texts may quote the comment: whoever shows them makes them inert.
type Problem struct {
	Line    int    // of the comment, from 1
	Text    string // the line as it was written, shortened
	Message string // what is wrong
	Hint    string // the next step
}

// String is the problem on one line.
func (p Problem) String() string {
	out := fmt.Sprintf("line %d: %s", p.Line, p.Message)
	if p.Hint != "" {
		out += " (" + p.Hint + ")"
	}
	return out
}

// ParseUntil reads the end of a freeze: a time such as 2026-12-24T18:00:00Z, a day such as 2026-12-24 (its beginning, in
// UTC), or a span such as 90m, 4h or 3d after now. The end must lie after now, and not more than ten years after it.
func ParseUntil(s string, now time.Time) (time.Time, error) {
	t, span, err := until(s)
	if err != nil {
		return time.Time{}, err
	}
	if t.IsZero() {
		t = now.Add(span)
	}
	switch {
	case !t.After(now):
		return time.Time{}, fmt.Errorf("%s is over already: name a time after %s", s, now.UTC().Format(time.RFC3339))
	case t.After(now.AddDate(10, 0, 0)):
		return time.Time{}, fmt.Errorf("%s is more than ten years away: leave --until out for a freeze without end", s)
	}
	return t.UTC(), nil
}

// until reads one of the forms of a freeze's end: a time, or else a span.
func until(s string) (time.Time, time.Duration, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t, 0, nil
		}
	}
	const day, longest = 24 * time.Hour, 3650 // days
	if digits, ok := strings.CutSuffix(s, "d"); ok && len(digits) <= 4 {
		n := 0
		for _, c := range []byte(digits) {
			if c < '0' || c > '9' {
				n = 0
				break
			}
			n = 10*n + int(c-'0')
		}
		if n > 0 && n <= longest {
			return time.Time{}, time.Duration(n) * day, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return time.Time{}, d, nil
	}
	return time.Time{}, 0, fmt.Errorf("%q is no time: write one such as 2026-12-24T18:00:00Z, 2026-12-24, 4h or 3d", s)
}

func find(v Verb) (Spec, bool) {
	all := Verbs()
	i := slices.IndexFunc(all, func(s Spec) bool { return s.Verb == v })
	if i < 0 {
		return Spec{}, false
	}
	return all[i], true
}
