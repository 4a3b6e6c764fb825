package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity of a problem.
type Severity string

// The severities: a fleet with an error does not load; warnings are shown.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one defect of a file. Line and Column count from 1; 0 is unknown.
type Problem struct {
	File      string   `json:"file"`
	Line      int      `json:"line,omitempty"`
	Column    int      `json:"column,omitempty"`
	Severity  Severity `json:"severity"`
	Message   string   `json:"message"`
	Hint      string   `json:"hint,omitempty"` // the next step
	absent    bool     // sluice.yaml does not exist
	fault     error    // of the storage, which could not be read
	workspace string   // an error in the files of this workspace: the rest of the fleet is valid
}

// String formats the problem on one line, as compilers do.
func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.place(), p.Severity, p.text()) }

// place is FILE:LINE:COLUMN, as far as it is known.
func (p Problem) place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, max(p.Column, 1))
}

// text is the message with the hint.
func (p Problem) text() string {
	if p.Hint == "" {
		return p.Message
	}
	return p.Message + " (" + p.Hint + ")"
}

// Problems is a list of problems, sorted by file and line.
type Problems []Problem

// Error lists the errors, one a line.
func (p Problems) Error() string {
	var lines []string
	for _, problem := range p {
		if problem.Severity == SeverityError {
			lines = append(lines, problem.String())
		}
	}
	return strings.Join(lines, "\n")
}

// Err returns p if it contains an error, and nil otherwise. Errors in the files of a workspace do not count: they are
// in Workspace.Err. If the storage could not be read, Err returns that error and no Problems, because the fleet may be
// right.
func (p Problems) Err() error {
	for _, x := range p {
		if x.fault != nil {
			return fmt.Errorf("read the fleet: %w", x.fault)
		}
	}
	if slices.ContainsFunc(p, func(x Problem) bool { return x.Severity == SeverityError && x.workspace == "" }) {
		return p
	}
	return nil
}

// Absent reports whether sluice.yaml does not exist, so that the repository is not a fleet.
func (p Problems) Absent() bool {
	return slices.ContainsFunc(p, func(x Problem) bool { return x.absent })
}

// Errors counts the errors, also those of workspaces.
func (p Problems) Errors() int {
	n := 0
	for _, x := range p {
		if x.Severity == SeverityError {
			n++
		}
	}
	return n
}

// Warnings returns the problems with which the fleet loads: those that are not errors, and those of workspaces.
func (p Problems) Warnings() Problems {
	return slices.DeleteFunc(slices.Clone(p), func(x Problem) bool {
		return x.Severity == SeverityError &&
			x.workspace == ""
	})
}

// Sorted returns the problems by place, each once. p stays as it is.
func (p Problems) Sorted() Problems {
	p = slices.Clone(p)
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(p)
}
