package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/policy"
)

// Exit statuses. docs/cli.md lists them.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the work failed, or part of it
	ExitUsage       = 2   // usage error
	ExitDiffers     = 3   // verify: a branch differs from its record; diff --exit-code: something changes
	ExitTimeout     = 4   // promote --wait: the timeout passed
	ExitBlocked     = 5   // promote --wait: a red gate or a halt stops the promotion
	ExitInterrupted = 130 // the user or the system ended the command
)

// exitError is an error with its own exit status. With a nil err, the command has already printed the reason.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef returns a usage error.
func usagef(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// exitStatus maps an error of a verb to the exit status of the process.
func exitStatus(err error) int {
	if err == nil {
		return ExitOK
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitFailed
}

// distinct returns the text of an error, and of a join of errors each text once: several environments can fail for one
// reason.
func distinct(err error) string {
	joined, ok := err.(interface{ Unwrap() []error }) // a join inside another error is part of its text
	if !ok {
		return err.Error()
	}
	var texts []string
	for _, e := range joined.Unwrap() {
		if text := distinct(e); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// printError writes an error for the user. Problems of the fleet and of its policy are lists, followed by their number.
func printError(w io.Writer, err error) {
	if problems, ok := errors.AsType[fleet.Problems](err); ok {
		fmt.Fprintln(w, problems.Error())
		fmt.Fprintf(w, "sluice: %s in the fleet\n", count(len(problems)-len(problems.Warnings()), "problem"))
		return
	}
	if problems, ok := errors.AsType[policy.Problems](err); ok {
		fmt.Fprintln(w, problems.Error())
		fmt.Fprintf(w, "sluice: %s in %s/\n", count(len(problems), "problem"), policy.Dir)
		return
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(w, "sluice: interrupted")
		return
	}
	if text := distinct(err); strings.TrimSpace(text) != "" {
		fmt.Fprintln(w, "sluice: "+text)
	}
}
