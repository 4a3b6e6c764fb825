package worker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Reasons why a child ends before it answers. The same call would fail again, so callers do not retry.
var (
	ErrTimeout = errors.New("the task took too long")
	ErrCPU     = errors.New("the task used too much CPU time")
	ErrMemory  = errors.New("the task used too much memory")
	ErrOutput  = errors.New("the task's answer is too large")
	ErrCrashed = errors.New("the task ended its process")
)

// ErrProtocol means that a child sent a message that this version never sends: its process is compromised or has
// another version.
var ErrProtocol = errors.New("the worker process broke the protocol")

// ErrUnknownJob means that the child has no job of that name: the parent and the child are different versions.
var ErrUnknownJob = errors.New("the worker process has no such job")

// ErrClosed means that the Host is closed.
var ErrClosed = errors.New("the workers are closed")

// JobError is an error that a job returned. Its text comes from the child: it is escaped and bounded.
type JobError struct{ text string }

// Error returns the text of the job's error.
func (e *JobError) Error() string { return e.text }

const (
	jobErrorLines = 40
	jobErrorWidth = 2000
)

func newJobError(text []byte) *JobError {
	return &JobError{safetext.Message(string(text), jobErrorLines, jobErrorWidth)}
}

// ConfinementError names the restrictions that the mode Required needs and that the system lacks.
type ConfinementError struct{ Report Report }

// Error names the missing restrictions and the next step.
func (e *ConfinementError) Error() string {
	var missing []string
	for _, w := range e.Report.Missing() {
		missing = append(missing, fmt.Sprintf("%s (%s)", w.Name, w.Detail))
	}
	return fmt.Sprintf("this system cannot confine worker processes: it lacks %s; use a Linux kernel with Landlock and seccomp (5.13 or later), or accept less with the mode `degraded`",
		strings.Join(missing, ", "))
}
