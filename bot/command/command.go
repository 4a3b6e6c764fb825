package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Verb is the action of a command.
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
	VerbDepends  Verb = "depends"
	VerbApprove  Verb = "approve"
	VerbPromote  Verb = "promote"
	VerbRollback Verb = "rollback"
	VerbFreeze   Verb = "freeze"
	VerbUnfreeze Verb = "unfreeze"
	VerbHalt     Verb = "halt"
	VerbResume   Verb = "resume"
)

// Right is the permission that a verb needs.
type Right string

// The rights, weakest first.
const (
	// RightRead is the right to read the source repository.
	RightRead Right = "read"
	// RightWrite is the right to push to the source repository.
	RightWrite Right = "write"
	// RightEnvironment is granted by sluice.yaml on the trunk, for each environment and verb.
	RightEnvironment Right = "environment"
)

// Command is a command in a comment. Fields that the verb does not use are empty.
type Command struct {
	Verb     Verb
	Env      string   // of approve, promote, rollback, halt, resume; of diff if given
	Target   string   // of freeze and unfreeze: an environment or a cluster
	App      []string // empty: all
	Spaces   []string // workspaces, whose apps are meant too
	Clusters []string // empty: all
	Path     string   // of explain: where in the values
	Commit   string   // of promote: a revision
	Again    string   // of promote: why what was rolled back comes again
	Hold     []string // of resume: names of holds
	To       string   // of rollback: a revision
	Wave     string   // of rollback: the clusters of one
	Until    string   // of freeze; see ParseUntil
	Reason   string
	Now      bool   // of promote: skips gates that only wait
	Cancel   bool   // of promote: withdraws what was asked for
	Text     string // the line as written
	Line     int    // of the comment, from 1
}

// Right returns the permission that the author of the command needs. An unknown verb needs the highest one.
func (c Command) Right() Right {
	if s, ok := Find(c.Verb); ok {
		return s.Right
	}
	return RightEnvironment
}

// Stops reports whether the command stops a rollout or takes it back. Such a command waits for no hydration.
func (c Command) Stops() bool { return c.Holds() || c.Verb == VerbRollback }

// Holds reports whether the command only keeps an environment as it is, whatever other commands did before. Such a
// command may go before them.
func (c Command) Holds() bool { return c.Verb == VerbFreeze || c.Verb == VerbHalt }

// Overtakes reports whether the command skips gates, which needs a separate right.
func (c Command) Overtakes() bool { return c.Verb == VerbPromote && c.Now }

// String returns the command in its canonical form, which Parse parses to the same command.
func (c Command) String() string {
	parts := []string{prefix, string(c.Verb)}
	s, _ := Find(c.Verb)
	for _, a := range s.Arguments {
		parts = append(parts, quote(a.get(&c)))
	}
	for _, f := range s.Flags {
		if f.Value == "" {
			if *f.on(&c) {
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

// Problem is a command that cannot be parsed. Its texts quote the comment, so the caller must escape them before it
// shows them.
type Problem struct {
	Line    int    // of the comment, from 1
	Text    string // the line as written, shortened
	Message string // what is wrong
	Hint    string // the next step
}

// String returns the problem on one line.
func (p Problem) String() string {
	out := fmt.Sprintf("line %d: %s", p.Line, p.Message)
	if p.Hint != "" {
		out += " (" + p.Hint + ")"
	}
	return out
}

// ParseUntil parses the end of a freeze: a time such as 2026-12-24T18:00:00Z, a day such as 2026-12-24 (its beginning
// in UTC), or a duration from now such as 90m, 4h or 3d. The end must be after now, and at most ten years later.
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
		return time.Time{}, fmt.Errorf("%s is in the past (write a time after %s)", s, now.UTC().Format(time.RFC3339))
	case t.After(now.AddDate(10, 0, 0)):
		return time.Time{}, fmt.Errorf("%s is more than ten years from now (omit --until for a freeze without an end)",
			s)
	}
	return t.UTC(), nil
}

// ParseSince parses the beginning of a look into the past: a time, or how long ago it was, such as 90d or 12h.
func ParseSince(s string, now time.Time) (time.Time, error) {
	t, span, err := until(s)
	if err != nil {
		return time.Time{}, err
	}
	if t.IsZero() {
		t = now.Add(-span)
	}
	return t.UTC(), nil
}

// until parses a freeze's end: a time, or a duration if the time is zero.
func until(s string) (time.Time, time.Duration, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t, 0, nil
		}
	}
	const day, longest = 24 * time.Hour, 3650 // days
	if digits, ok := strings.CutSuffix(s, "d"); ok && len(digits) <= 4 {
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil && n > 0 && n <= longest {
			return time.Time{}, time.Duration(n) * day, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return time.Time{}, d, nil
	}
	return time.Time{}, 0, fmt.Errorf("%q is not a time (write one such as 2026-12-24T18:00:00Z, 2026-12-24, 4h or 3d)",
		s)
}
