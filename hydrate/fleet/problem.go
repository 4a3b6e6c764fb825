package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity of a problem.
type Severity string

// An error stops everything; a warning is shown.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one thing that is wrong in a file. Line and Column count from 1; 0 is unknown.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // the next step
	absent   bool     // there is no fleet at all
}

// String is the problem on one line, as compilers write it.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, max(p.Column, 1))
	}
	fmt.Fprintf(&b, ": %s: %s", p.Severity, p.Message)
	if p.Hint != "" {
		fmt.Fprintf(&b, " (%s)", p.Hint)
	}
	return b.String()
}

// Problems are all that was found, by file and line.
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

// Err is p as an error if it holds one, else nil.
func (p Problems) Err() error {
	if slices.ContainsFunc(p, func(x Problem) bool { return x.Severity == SeverityError }) {
		return p
	}
	return nil
}

// Absent says that there is no sluice.yaml: what was read is no fleet, rather than a broken one.
func (p Problems) Absent() bool {
	return slices.ContainsFunc(p, func(x Problem) bool { return x.absent })
}

// Warnings are the problems that stop nothing.
func (p Problems) Warnings() Problems {
	return slices.DeleteFunc(slices.Clone(p), func(x Problem) bool { return x.Severity == SeverityError })
}

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(p)
}
